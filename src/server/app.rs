//! The service behind a listener, as the server asks it for answers.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use http::request::Parts;

/// Answers a request without a body from its head, at once; `None` leaves the request to the router.
pub type ReadyAnswers = Arc<dyn Fn(&Parts) -> Option<Response> + Send + Sync>;

/// A router, and the answers that need none.
#[derive(Clone)]
pub struct App {
    router: Router,
    ready: Option<ReadyAnswers>,
}

impl App {
    /// `router`, for each request that `ready` does not answer.
    pub fn new(router: Router, ready: ReadyAnswers) -> Self {
        Self { router, ready: Some(ready) }
    }

    /// The answer to a request with this head and without a body, if it is ready.
    pub(super) fn ready(&self, head: &Parts) -> Option<Response> {
        self.ready.as_ref()?(head)
    }

    pub(super) fn router(&self) -> Router {
        self.router.clone()
    }
}

impl From<Router> for App {
    fn from(router: Router) -> Self {
        Self { router, ready: None }
    }
}
