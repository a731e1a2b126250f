//! The caller's trace (W3C Trace Context), in a request's head or an MCP message's `_meta`.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use handbill_pages::values::edit_key::PREFIX;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Bytes: every system must propagate as many (W3C Trace Context §3.3.1.5).
const MAX_TRACESTATE_BYTES: usize = 512;

/// Whoever chooses the trace decides on sampling, and may put any request into any trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// From a trusted proxy.
    Continue,
    /// From anyone: our own trace links to the caller's.
    Link,
}

/// The caller's span, not parsed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerTrace<'a> {
    pub traceparent: Option<&'a str>,
    pub tracestate: Option<&'a str>,
}

impl<'a> CallerTrace<'a> {
    pub(super) fn in_headers(headers: &'a HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Self { traceparent: text(TRACEPARENT), tracestate: text(TRACESTATE) }
    }

    pub(super) fn span(&self) -> Context {
        TraceContextPropagator::new().extract_with_context(&Context::new(), self)
    }
}

/// For a link to anyone's span: without what the caller wrote freely.
pub(super) fn without_state(caller: &SpanContext) -> SpanContext {
    SpanContext::new(caller.trace_id(), caller.span_id(), caller.trace_flags(), true, TraceState::default())
}

/// The parent does not decide on sampling.
pub(super) fn parent_sampled_as(caller: &SpanContext, is_sampled: bool) -> Context {
    let flags = caller.trace_flags().with_sampled(is_sampled);
    let state = caller.trace_state().clone();
    Context::new().with_remote_span_context(SpanContext::new(caller.trace_id(), caller.span_id(), flags, true, state))
}

impl Extractor for CallerTrace<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            TRACEPARENT => self.traceparent,
            // `tracestate` is exported unchanged, and a caller may write a key there by mistake.
            TRACESTATE => {
                self.tracestate.filter(|state| state.len() <= MAX_TRACESTATE_BYTES && !state.contains(PREFIX))
            }
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// The trace, the span and the state that these headers name.
    fn parent_of(headers: &[(&'static str, &str)]) -> Option<(String, String, String)> {
        let headers = headers.iter().map(|(name, value)| ((*name).try_into().unwrap(), value.parse().unwrap()));
        let context = CallerTrace::in_headers(&headers.collect()).span();
        let span = context.span().span_context().clone();
        let text = (span.trace_id().to_string(), span.span_id().to_string(), span.trace_state().header());
        span.is_valid().then_some(text)
    }

    #[test]
    fn a_parent_is_read_with_its_state() {
        let (trace, span, state) =
            parent_of(&[("traceparent", CALLER), ("tracestate", "one=1,two=2")]).expect("it is valid");
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
            let (.., kept) = parent_of(&[("traceparent", CALLER), ("tracestate", state)]).expect("it is valid");
            assert_eq!(kept, "", "{state:?}");
        }
    }
}
