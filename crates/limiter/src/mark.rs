//! Marks the span of a call that its server did not answer.

use opentelemetry::trace::{Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};

/// `error.type` of a call that was decided without an answer from its server.
pub const UNAVAILABLE: &str = "unavailable";

/// Records on the current call that its server did not answer. The call's outcome was then decided without the server.
pub fn mark_unavailable() {
    Context::map_current(|context| {
        context.span().set_attribute(KeyValue::new("error.type", UNAVAILABLE));
        context.span().set_status(Status::error(""));
    });
}
