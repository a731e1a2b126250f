//! The service behind a listener.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{Request, StatusCode};
use tower::Service;

use crate::api::error::ApiError;
use crate::api::types::ErrorBody;

pub trait App:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
    /// The answer to a head that is no request.
    fn refuse(&self, error: ApiError) -> Response;
}

impl App for Router {
    fn refuse(&self, error: ApiError) -> Response {
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        (status, Json(ErrorBody::new(error))).into_response()
    }
}
