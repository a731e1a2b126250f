//! Room in the server's budget for answers, asked for before work is done and again when it is known how much is needed.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;

use crate::api::error::ApiError;
use crate::http::error::error_response;
use crate::server::AnswerRoom;

/// Refuses a request for whose answer there is no room. Without a server around, as in a test, there always is.
pub(in crate::http) async fn take_room(request: Request, next: Next) -> Response {
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
