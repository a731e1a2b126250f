//! The rules that every backend keeps, looped over the backends of the program.
//!
//! `it` has those that run in the process, `services` those on servers. Each names them in a `backends` beside this module.

use std::any::Any;
use std::sync::Arc;

mod limiter;
mod reservations;
mod store;

/// A backend that runs, for as long as this lives.
pub(crate) struct Started<T: ?Sized> {
    /// The name that failures show.
    pub(crate) name: &'static str,
    /// The backend.
    pub(crate) backend: Arc<T>,
    /// Resources that must outlive the backend.
    pub(crate) _beside: Box<dyn Any + Send>,
}
