//! The trace that a caller is in, as W3C Trace Context: `traceparent` and `tracestate`.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::domain::edit_key::PREFIX;

const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is kept, in bytes: what everyone must propagate (W3C Trace Context §3.3.1.5).
const MAX_TRACESTATE_BYTES: usize = 512;

/// The caller's span that `headers` name. Nothing, where they name none or cannot be read.
pub(super) fn parent(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers))
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name)?.to_str().ok()?;
        // It is exported as it is, and whoever calls may write anything into it, a key that lands in the wrong place
        // included. The identifiers in `traceparent` are parsed and hold nothing else.
        let is_kept = name != TRACESTATE || (value.len() <= MAX_TRACESTATE_BYTES && !value.contains(PREFIX));
        is_kept.then_some(value)
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceContextExt;

    use super::*;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// The trace, the span and the state that these headers name.
    fn parent_of(headers: &[(&'static str, &str)]) -> Option<(String, String, String)> {
        let headers = headers.iter().map(|(name, value)| ((*name).try_into().unwrap(), value.parse().unwrap()));
        let context = parent(&headers.collect());
        let span = context.span().span_context().clone();
        let text = (span.trace_id().to_string(), span.span_id().to_string(), span.trace_state().header());
        span.is_valid().then_some(text)
    }

    #[test]
    fn a_parent_is_read_with_its_state() {
        let (trace, span, state) =
            parent_of(&[("traceparent", TRACEPARENT), ("tracestate", "one=1,two=2")]).expect("it is valid");
        assert_eq!((trace.as_str(), span.as_str()), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
        assert_eq!(state, "one=1,two=2");
    }

    #[test]
    fn what_cannot_be_read_is_no_parent() {
        for traceparent in ["", "1", "00-0-0-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "ä"] {
            assert_eq!(parent_of(&[("traceparent", traceparent)]), None, "{traceparent:?}");
        }
        assert_eq!(parent_of(&[("tracestate", "one=1")]), None);
    }

    #[test]
    fn a_state_that_holds_a_key_or_is_too_long_is_left_out() {
        let long = format!("one={}", "1".repeat(MAX_TRACESTATE_BYTES));
        for state in ["one=hbk_0123456789", &long] {
            let (.., kept) = parent_of(&[("traceparent", TRACEPARENT), ("tracestate", state)]).expect("it is valid");
            assert_eq!(kept, "", "{state:?}");
        }
    }
}
