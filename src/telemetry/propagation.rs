//! The trace that a caller is in, as W3C Trace Context: `traceparent` and `tracestate`, in the head of a request or in the
//! `_meta` of an MCP message.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Link, SpanContext, TraceContextExt, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::domain::edit_key::PREFIX;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is kept, in bytes: what everyone must propagate (W3C Trace Context §3.3.1.5).
const MAX_TRACESTATE_BYTES: usize = 512;

/// What a caller's word on the trace is worth.
///
/// Whoever chooses the trace also chooses whether it is sampled, and may put any request into any trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Its peer is a trusted proxy: its trace is continued.
    Continue,
    /// It may be anyone: a trace of our own begins, with a link to the caller's.
    Link,
}

/// What a caller says of its own span, not parsed yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerTrace<'a> {
    /// Its trace, its id and whether it is sampled.
    pub traceparent: Option<&'a str>,
    /// What systems of other makers add to that.
    pub tracestate: Option<&'a str>,
}

impl<'a> CallerTrace<'a> {
    /// What the head of a request says.
    pub(super) fn in_headers(headers: &'a HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Self { traceparent: text(TRACEPARENT), tracestate: text(TRACESTATE) }
    }

    /// The caller's span. No span, where it names none or cannot be read.
    pub(super) fn span(&self) -> Context {
        TraceContextPropagator::new().extract_with_context(&Context::new(), self)
    }
}

/// A link to the span of a caller that may be anyone: its identifiers and nothing that it chose freely.
pub(super) fn link_to_stranger(caller: &SpanContext) -> Link {
    let bare = SpanContext::new(caller.trace_id(), caller.span_id(), caller.trace_flags(), true, TraceState::default());
    Link::with_context(bare)
}

/// The span `caller` as a parent that does not decide on sampling: that is `is_sampled`, as was decided already.
pub(super) fn parent_sampled_as(caller: &SpanContext, is_sampled: bool) -> Context {
    let flags = caller.trace_flags().with_sampled(is_sampled);
    let state = caller.trace_state().clone();
    Context::new().with_remote_span_context(SpanContext::new(caller.trace_id(), caller.span_id(), flags, true, state))
}

impl Extractor for CallerTrace<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            TRACEPARENT => self.traceparent,
            // It is exported as it is, and whoever calls may write anything into it, a key that lands in the wrong place
            // included. The identifiers in `traceparent` are parsed and hold nothing else.
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
