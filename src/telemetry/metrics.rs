//! Every instrument, in one list, by OpenTelemetry's names in Prometheus form: seconds and bytes, labels from closed
//! sets only. No path, slug, address or key is ever a label.

use std::borrow::Cow;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

#[cfg(target_os = "linux")]
use super::process::ProcessCollector;
use super::runtime::RuntimeCollector;

/// The commit that this was built from, where whoever built it said so.
const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The media type of what [`Metrics::exposition`] returns.
pub const EXPOSITION_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds. 0.05 and 0.25 are the objectives for reads and writes, so that each can be read off exactly.
const SECONDS: [f64; 14] = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Upper bounds of the number of writes that share one commit.
const WRITES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// One request, by what is bounded of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestLabels {
    /// The method, or `_OTHER`.
    pub http_request_method: &'static str,
    /// The route's template, or empty where no route led.
    pub http_route: String,
    /// The status of the answer, if there was one.
    pub http_response_status_code: Option<u16>,
    /// Why it failed, if it did: the status from 500 on, `abandoned` without an answer.
    pub error_type: Option<Cow<'static, str>>,
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> Result<(), std::fmt::Error> {
        [("http_request_method", self.http_request_method)].encode(encoder)?;
        // A label without a value says nothing that one that is not there does not say.
        if !self.http_route.is_empty() {
            [("http_route", self.http_route.as_str())].encode(encoder)?;
        }
        if let Some(status) = self.http_response_status_code {
            [("http_response_status_code", status)].encode(encoder)?;
        }
        if let Some(error) = self.error_type.as_deref() {
            [("error_type", error)].encode(encoder)?;
        }
        Ok(())
    }
}

/// One call of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// What was asked of it.
    pub operation: &'static str,
    /// What it answered.
    pub outcome: &'static str,
}

/// One call of an MCP tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToolLabels {
    /// The tool, or `_OTHER` where there is none of that name.
    pub tool: &'static str,
    /// `ok`, or the code of the error.
    pub outcome: &'static str,
}

/// A budget of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BudgetLabels {
    /// `receive` or `send`.
    pub budget: &'static str,
}

/// Why a connection was refused or ended for the sake of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CutLabels {
    /// `client_limit` and `full` where it was refused; `resting`, `slow`, `receive_budget` and `send_budget` where it was ended.
    pub reason: &'static str,
}

/// What became of spans that were to be exported.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SpanLabels {
    /// `exported`, `failed` where the collector did not take them, `dropped` where too many waited already.
    pub outcome: &'static str,
}

/// Where an observation was made: the label of an exemplar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TraceLabel {
    /// The trace's id, in hexadecimal.
    pub trace_id: String,
}

/// One decision of the limiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionLabels {
    /// What was limited.
    pub limit: &'static str,
    /// Whether the attempt was admitted.
    pub admitted: bool,
}

impl EncodeLabelSet for DecisionLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> Result<(), std::fmt::Error> {
        let outcome = if self.admitted { "admitted" } else { "refused" };
        [("limit", self.limit), ("outcome", outcome)].encode(encoder)
    }
}

type Durations<Labels> = Family<Labels, Histogram, fn() -> Histogram>;
type TracedHistogram = HistogramWithExemplars<TraceLabel>;
type TracedDurations<Labels> = Family<Labels, TracedHistogram, fn() -> TracedHistogram>;

/// Every instrument.
pub struct Metrics {
    registry: Registry,
    /// `http_server_request_duration_seconds`.
    pub requests: TracedDurations<RequestLabels>,
    /// `http_server_active_requests`.
    pub active_requests: Gauge,
    /// `handbill_connections`.
    pub connections: Gauge,
    /// `handbill_connections_max`.
    pub connections_max: Gauge,
    /// `handbill_connections_cut_total`.
    pub connections_cut: Family<CutLabels, Counter>,
    /// `handbill_budget_held_bytes`.
    pub budget_held: Family<BudgetLabels, Gauge>,
    /// `handbill_budget_limit_bytes`.
    pub budget_limit: Family<BudgetLabels, Gauge>,
    /// `handbill_budget_refusals_total`.
    pub budget_refusals: Family<BudgetLabels, Counter>,
    /// `handbill_store_duration_seconds`.
    pub store: Durations<CallLabels>,
    /// `handbill_store_available`.
    pub store_available: Gauge,
    /// `handbill_store_commit_writes`.
    pub commit_writes: Histogram,
    /// `handbill_store_corrupt_records_total`.
    pub corrupt_records: Counter,
    /// `handbill_store_lookup_joins_total`.
    pub lookup_joins: Counter,
    /// `handbill_reservation_duration_seconds`.
    pub reservations: Durations<CallLabels>,
    /// `handbill_rate_limit_decisions_total`.
    pub decisions: Family<DecisionLabels, Counter>,
    /// `handbill_rate_limit_duration_seconds`.
    pub limiter: Durations<CallLabels>,
    /// `handbill_rate_limit_fallback`.
    pub limiter_fallback: Gauge,
    /// `handbill_rate_limit_fallback_decisions_total`.
    pub fallback_decisions: Counter,
    /// `handbill_mcp_tool_calls_total`.
    pub tool_calls: Family<ToolLabels, Counter>,
    /// `handbill_render_duration_seconds`.
    pub renders: Histogram,
    /// `handbill_untrusted_forwarded_total`.
    pub untrusted_forwarded: Counter,
    /// `handbill_trace_spans_total`.
    pub spans: Family<SpanLabels, Counter>,
    /// `handbill_log_lines_dropped_total`.
    pub log_lines_dropped: Counter,
    /// `handbill_draining`.
    pub draining: Gauge,
}

impl Metrics {
    /// All instruments at zero.
    pub fn new() -> Self {
        Self::with_log(Counter::default())
    }

    /// All instruments at zero but the one that counts the log's dropped lines.
    pub fn with_log(log_lines_dropped: Counter) -> Self {
        let seconds = || -> Histogram { Histogram::new(SECONDS) };
        let traced_seconds = || -> TracedHistogram { HistogramWithExemplars::new(SECONDS.into_iter()) };
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::new_with_constructor(traced_seconds),
            active_requests: Gauge::default(),
            connections: Gauge::default(),
            connections_max: Gauge::default(),
            connections_cut: Family::default(),
            budget_held: Family::default(),
            budget_limit: Family::default(),
            budget_refusals: Family::default(),
            store: Family::new_with_constructor(seconds),
            store_available: Gauge::default(),
            commit_writes: Histogram::new(WRITES),
            corrupt_records: Counter::default(),
            lookup_joins: Counter::default(),
            reservations: Family::new_with_constructor(seconds),
            decisions: Family::default(),
            limiter: Family::new_with_constructor(seconds),
            limiter_fallback: Gauge::default(),
            fallback_decisions: Counter::default(),
            tool_calls: Family::default(),
            renders: Histogram::new(SECONDS),
            untrusted_forwarded: Counter::default(),
            spans: Family::default(),
            log_lines_dropped,
            draining: Gauge::default(),
        };
        metrics.register_requests();
        metrics.register_backends();
        metrics.register_process();
        metrics
    }

    fn register_requests(&mut self) {
        let Self { registry, .. } = self;
        registry.register_with_unit(
            "http_server_request_duration",
            "How long requests took, from their head to the head of the answer, or to the end of the connection",
            Unit::Seconds,
            self.requests.clone(),
        );
        registry.register("http_server_active_requests", "Requests in flight", self.active_requests.clone());
        registry.register("handbill_connections", "Open connections on the public listener", self.connections.clone());
        registry.register(
            "handbill_connections_max",
            "Most connections that the public listener takes at once",
            self.connections_max.clone(),
        );
        registry.register(
            "handbill_connections_cut",
            "Connections that were refused, or ended to make room for others",
            self.connections_cut.clone(),
        );
        registry.register_with_unit(
            "handbill_budget_held",
            "Memory that requests hold until they are answered (receive), and answers until they are sent (send)",
            Unit::Bytes,
            self.budget_held.clone(),
        );
        registry.register_with_unit(
            "handbill_budget_limit",
            "Most memory that may be held so",
            Unit::Bytes,
            self.budget_limit.clone(),
        );
        registry.register(
            "handbill_budget_refusals",
            "How often there was no memory left, and nobody's connection was ended for it",
            self.budget_refusals.clone(),
        );
    }

    fn register_backends(&mut self) {
        let Self { registry, .. } = self;
        registry.register_with_unit(
            "handbill_store_duration",
            "How long the page store took",
            Unit::Seconds,
            self.store.clone(),
        );
        registry.register(
            "handbill_store_available",
            "1 while the page store answers: 0 before it was first reached, and after a call that it did not answer",
            self.store_available.clone(),
        );
        registry.register(
            "handbill_store_commit_writes",
            "Writes that shared one commit of the embedded store",
            self.commit_writes.clone(),
        );
        registry.register(
            "handbill_store_corrupt_records",
            "Calls of the page store that met a record which cannot be read: damaged, or of a later version",
            self.corrupt_records.clone(),
        );
        registry.register(
            "handbill_store_lookup_joins",
            "Lookups that shared the read of another",
            self.lookup_joins.clone(),
        );
        registry.register_with_unit(
            "handbill_reservation_duration",
            "How long slug reservations took",
            Unit::Seconds,
            self.reservations.clone(),
        );
        registry.register("handbill_rate_limit_decisions", "Attempts admitted and refused", self.decisions.clone());
        registry.register_with_unit(
            "handbill_rate_limit_duration",
            "How long the limiter took",
            Unit::Seconds,
            self.limiter.clone(),
        );
        registry.register(
            "handbill_rate_limit_fallback",
            "1 while Redis is out of reach and this replica counts by itself",
            self.limiter_fallback.clone(),
        );
        registry.register(
            "handbill_rate_limit_fallback_decisions",
            "Attempts that this replica decided by itself, for want of an answer from Redis",
            self.fallback_decisions.clone(),
        );
    }

    fn register_process(&mut self) {
        let Self { registry, .. } = self;
        registry.register("handbill_mcp_tool_calls", "Calls of MCP tools", self.tool_calls.clone());
        registry.register_with_unit(
            "handbill_render_duration",
            "How long it took to turn Markdown into HTML, waiting for a free core included",
            Unit::Seconds,
            self.renders.clone(),
        );
        registry.register(
            "handbill_untrusted_forwarded",
            "Requests whose X-Forwarded-For or Forwarded was ignored, since their peer is no trusted proxy",
            self.untrusted_forwarded.clone(),
        );
        registry.register(
            "handbill_trace_spans",
            "Spans exported, not taken by the collector, and dropped because too many waited",
            self.spans.clone(),
        );
        registry.register(
            "handbill_log_lines_dropped",
            "Lines of the log that were not written, since standard error was not read fast enough or failed",
            self.log_lines_dropped.clone(),
        );
        registry.register("handbill_draining", "1 while the process drains", self.draining.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)]);
        registry.register("handbill_build", "What is running", build);
        registry.register_collector(Box::new(RuntimeCollector::new()));
        #[cfg(target_os = "linux")]
        registry.register_collector(Box::new(ProcessCollector::new()));
    }

    /// All instruments in the OpenMetrics text format.
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Records one call of a backend.
pub fn record(family: &Durations<CallLabels>, operation: &'static str, outcome: &'static str, took: Duration) {
    family.get_or_create(&CallLabels { operation, outcome }).observe(took.as_secs_f64());
}
