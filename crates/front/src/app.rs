//! The service behind a listener.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use http::Request;
use tower::Service;

/// The service behind a listener.
pub trait App:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
    /// The answer to a head that is no request. Its body must be whole.
    fn refuse(&self, refusal: Refusal) -> Response;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is longer than [`super::MAX_HEAD_BYTES`].
    HeadTooLarge,
    /// The budget has no room for it, and no other connection gives way.
    NoRoom,
    /// A request of HTTP/1.1 has no `Host`.
    NoHost,
    /// A proxy may have understood it otherwise. The text says what is wrong and what to send instead.
    Ambiguous(&'static str),
}
