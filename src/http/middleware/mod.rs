//! The layers around the routes. `http::router` applies them in order.

pub(super) mod answer_budget;
pub(super) mod cors;
pub(super) mod forwarded_warning;
pub(super) mod render_errors;
pub(super) mod request_checks;
pub(super) mod security_headers;
