//! The rules that every backend keeps, looped over the backends of the program.
//!
//! The program `it` runs the rules on the backends in its process, and `cluster` on the backends on servers. Each
//! program lists its backends in a module `backends` beside this one.

use std::any::Any;
use std::sync::Arc;

mod limiter;
mod operated;
mod scan;
mod store;

/// A backend that runs until this value is dropped.
pub(crate) struct Started<T: ?Sized> {
    pub(crate) name: &'static str,
    pub(crate) backend: Arc<T>,
    /// Resources that must outlive the backend.
    pub(crate) _beside: Box<dyn Any + Send>,
}
