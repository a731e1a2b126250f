//! An answer that was made before the router, and that the router's layers must still complete.

use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use http::Extensions;

/// The answer. It travels in the request's extensions, whose values must be shareable.
#[derive(Clone)]
pub(super) struct Prepared(Arc<Mutex<Option<Response>>>);

impl Prepared {
    /// Puts `response` into the extensions of its request.
    pub(super) fn put(extensions: &mut Extensions, response: Response) {
        extensions.insert(Self(Arc::new(Mutex::new(Some(response)))));
    }

    /// Takes the answer out of the extensions of its request, if there is one.
    pub(super) fn take(extensions: &Extensions) -> Option<Response> {
        extensions.get::<Self>()?.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
