//! Concurrent histories of calls to the service, and whether each could have come from one page at a time.
//!
//! [`workload::run`] lets many clients loose on many pages, over any [`transport::Transport`]; each page's history is
//! then checked on its own, which is sound because a history is linearizable exactly if that of each object is.
//!
//! The checker is checked too: [`small`] compares its verdicts with every order of the calls, tried one by one.

pub(crate) mod history;
pub(crate) mod page;
mod small;
pub(crate) mod transport;
pub(crate) mod workload;
