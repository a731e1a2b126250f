//! Reserves memory for the response in the server's budget: before the request is handled, and again when the size of
//! the response is known.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;

use crate::api::error::ApiError;
use crate::http::error::error_response;
use crate::server::AnswerRoom;

/// Refuses a request if there is no memory left for its response. Without a server, as in a test, there is no limit.
pub(in crate::http) async fn reserve_answer(request: Request, next: Next) -> Response {
    let Some(room) = request.extensions().get::<AnswerRoom>().cloned() else { return next.run(request).await };
    if room.ask().is_err() {
        return error_response(ApiError::no_room());
    }
    let is_safe = request.method().is_safe();
    let response = next.run(request).await;
    match room.take(response.body().size_hint().lower()) {
        Ok(()) => response,
        Err(_) if is_safe => error_response(ApiError::no_room()),
        Err(_) => error_response(ApiError::no_room_to_answer()),
    }
}
