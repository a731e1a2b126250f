//! The service behind a listener, as the server asks it for answers.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures_util::future::BoxFuture;
use http::Request;
use http::request::Parts;
use http_body::Body as _;
use tower::ServiceExt;

use super::arrived::arrived;

/// Answers that are given without the router. `None` leaves a request to the router.
pub trait ReadyAnswers: Send + Sync {
    /// The answer to a request with this head and without a body.
    fn to_head(&self, head: &Parts) -> Option<Response>;

    /// Whether a request with this head and a short body may have an answer. If not, its body is not looked at.
    fn may_answer_body(&self, head: &Parts) -> bool;

    /// The answer to a request with this head and body. If there is none, the extensions of the head may have what was found,
    /// for the router.
    fn to_body(&self, head: &mut Parts, body: &[u8]) -> Option<Response>;

    /// The answer to a request with this head and without a body, which may have to wait for it. `None` leaves the request
    /// to the router, and nothing was done for it. If the answer itself is `None`, what was found is in the extensions of
    /// the head, for the router.
    fn to_head_later<'a>(&'a self, head: &'a mut Parts) -> Option<BoxFuture<'a, Option<Response>>>;
}

/// The answer to a request that has no ready answer by its head alone, without the router if it can be. Otherwise returns
/// the body, of which nothing is missing.
pub async fn answer_soon(ready: &dyn ReadyAnswers, head: &mut Parts, body: Body) -> Result<Response, Body> {
    if !body.is_end_stream() {
        return answer_at_once(ready, head, body);
    }
    match ready.to_head_later(head) {
        Some(answer) => answer.await.ok_or(body),
        None => Err(body),
    }
}

/// The answer to a request with a body, if it is `ready` and the body has arrived.
fn answer_at_once(ready: &dyn ReadyAnswers, head: &mut Parts, body: Body) -> Result<Response, Body> {
    if !ready.may_answer_body(head) {
        return Err(body);
    }
    let bytes = arrived(body)?;
    ready.to_body(head, &bytes).ok_or_else(|| Body::from(bytes))
}

/// A router, and the answers that need none.
#[derive(Clone)]
pub struct App {
    router: Router,
    ready: Option<Arc<dyn ReadyAnswers>>,
}

impl App {
    /// `router`, for each request that `ready` does not answer.
    pub fn new(router: Router, ready: Arc<dyn ReadyAnswers>) -> Self {
        Self { router, ready: Some(ready) }
    }

    /// The answer to a request with this head and without a body, if it is ready.
    pub(super) fn ready(&self, head: &Parts) -> Option<Response> {
        self.ready.as_ref()?.to_head(head)
    }

    /// The answer to any other request.
    pub(super) async fn answer(self, mut head: Parts, mut body: Body) -> Response {
        if let Some(ready) = &self.ready {
            match answer_soon(&**ready, &mut head, body).await {
                Ok(response) => return response,
                Err(unread) => body = unread,
            }
        }
        let Ok(response) = self.router.oneshot(Request::from_parts(head, body)).await;
        response
    }
}

impl From<Router> for App {
    fn from(router: Router) -> Self {
        Self { router, ready: None }
    }
}
