//! Concurrent histories of calls to the service, and whether each could have come from one page at a time.
//!
//! [`workload::run`] lets many clients loose on many pages, over any [`transport::Transport`]; each page's history is
//! then checked on its own, which is sound because a history is linearizable exactly if that of each object is.
//!
//! The checker is checked too, by `tests/process/linearizability`.

pub mod history;
pub mod in_process;
pub mod page;
pub mod transport;
pub mod workload;
