//! The end of a request that has no usable answer.

use scylla::errors::ExecutionError;

use super::session::is_overload;
use crate::ports::page_store::Cause;

/// Why a request that may be repeated has no answer.
pub(super) enum RequestError {
    NoAnswer(Cause),
    Overloaded(Cause),
    Unreadable(Cause),
}

impl From<ExecutionError> for RequestError {
    fn from(error: ExecutionError) -> Self {
        if is_overload(&error) { Self::Overloaded(Box::new(error)) } else { Self::NoAnswer(Box::new(error)) }
    }
}

pub(super) fn unreadable(cause: impl Into<Cause>) -> RequestError {
    RequestError::Unreadable(cause.into())
}
