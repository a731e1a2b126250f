//! The service in this process, with time, randomness and its store under the test's control.

pub(crate) mod app;
pub(crate) mod clock;
pub(crate) mod document;
pub(crate) mod exchange;
pub(crate) mod heads_first;
pub(crate) mod stores;
