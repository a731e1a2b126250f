//! Every instrument, declared once in [`Metrics::with_log`] with name, help and unit, beside the field that counts.
//!
//! Names are OpenTelemetry's in Prometheus form, and units are seconds and bytes. A test compares the declarations with
//! `docs/observability.md`.

use std::hash::Hash;
use std::time::Duration;

use handbill_core::service::PageCacheMetrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::labels::{
    CallLabels, DecisionLabels, FileLabels, OperatorLabels, RefusalLabels, ReloadLabels, RequestLabels, SourceLabels,
    SpanLabels, StateLabels, ToolLabels, TraceLabel,
};
#[cfg(target_os = "linux")]
use super::process::ProcessCollector;
use super::runtime::RuntimeCollector;

/// The commit that this was built from, if `GIT_COMMIT` was set for the build.
pub const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The type of [`Metrics::exposition`].
pub const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of [`as_text`].
pub const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds in seconds. 0.05 and 0.25 are the objectives for reads and writes, so each is the bound of a bucket.
const SECONDS: [f64; 14] = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Upper bounds of the number of writes that share one commit.
const WRITES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

type Durations<Labels> = Family<Labels, Histogram, fn() -> Histogram>;
pub(super) type TracedHistogram = HistogramWithExemplars<TraceLabel>;
type TracedDurations<Labels> = Family<Labels, TracedHistogram, fn() -> TracedHistogram>;

pub struct Metrics {
    pub requests: TracedDurations<RequestLabels>,
    pub active_requests: Gauge,
    pub connections: Gauge,
    pub connections_max: Gauge,
    pub connections_refused: Counter,
    pub store: Durations<CallLabels>,
    pub store_available: Gauge,
    pub store_files: Family<FileLabels, Gauge>,
    pub store_volume: Family<StateLabels, Gauge>,
    pub store_pages: Family<StateLabels, Gauge>,
    /// In seconds since 1970; 0 before the first backup.
    pub last_backup: Gauge,
    pub commit_writes: Histogram,
    pub corrupt_records: Counter,
    pub lookup_joins: Counter,
    pub page_cache: PageCacheMetrics,
    pub decisions: Family<DecisionLabels, Counter>,
    pub limiter: Durations<CallLabels>,
    pub rate_limit_fallback: Gauge,
    pub tool_calls: Family<ToolLabels, Counter>,
    pub operator_actions: Family<OperatorLabels, Counter>,
    pub operator_tokens_refused: Counter,
    pub publishing_refusals: Family<RefusalLabels, Counter>,
    pub moderation_reloads: Family<ReloadLabels, Counter>,
    pub moderation_stale: Family<SourceLabels, Gauge>,
    pub blocklist_entries: Gauge,
    pub creates_paused: Gauge,
    pub renders: Histogram,
    pub untrusted_forwarded: Counter,
    pub spans: Family<SpanLabels, Counter>,
    pub log_lines_dropped: Counter,
    pub draining: Gauge,
    registry: Registry,
}

/// Declares instruments, in the order in which they are exposed.
#[derive(Default)]
struct Declared(Registry);

impl Declared {
    fn plain<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.instrument(name, help, M::default())
    }

    fn instrument<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    /// An instrument at zero that counts bytes.
    fn bytes<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.unit(name, help, Unit::Bytes, M::default())
    }

    /// Histograms of durations, one for each set of labels.
    fn durations<L>(&mut self, name: &str, help: &str) -> Durations<L>
    where
        Durations<L>: Metric,
        L: Clone + Eq + Hash,
    {
        self.unit(name, help, Unit::Seconds, Family::new_with_constructor(|| Histogram::new(SECONDS)))
    }

    fn unit<M: Metric + Clone>(&mut self, name: &str, help: &str, unit: Unit, metric: M) -> M {
        self.0.register_with_unit(name, help, unit, metric.clone());
        metric
    }

    /// All that was declared, and the metrics that are read on each scrape.
    fn with_collectors(self) -> Registry {
        let Self(mut registry) = self;
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)]);
        registry.register("handbill_build", "The running version", build);
        registry.register_collector(Box::new(RuntimeCollector::new()));
        #[cfg(target_os = "linux")]
        registry.register_collector(Box::new(ProcessCollector::new()));
        registry
    }
}

impl Metrics {
    pub fn new() -> Self {
        Self::with_log(Counter::default())
    }

    /// All instruments at zero, except `log_lines_dropped`, which the log began to count before these instruments
    /// existed.
    pub fn with_log(log_lines_dropped: Counter) -> Self {
        let mut declare = Declared::default();
        let traced: fn() -> TracedHistogram = || HistogramWithExemplars::new(SECONDS.into_iter());
        Self {
            requests: declare.unit(
                "http_server_request_duration",
                "How long requests took, from the head of the request to the head of the answer, or to the end of the connection",
                Unit::Seconds,
                Family::new_with_constructor(traced),
            ),
            active_requests: declare.plain("http_server_active_requests", "Requests in flight"),
            connections: declare.plain("handbill_connections", "Open connections on the public listener"),
            connections_max: declare.plain("handbill_connections_max", "The most connections allowed at once"),
            connections_refused: declare.plain(
                "handbill_connections_refused",
                "Connections that were closed at once, because their client had its share of all",
            ),
            store: declare.durations("handbill_store_duration", "How long calls of the page store took"),
            store_available: declare.plain(
                "handbill_store_available",
                "1 while the page store answers, 0 before it was first reached and after a call that it did not answer",
            ),
            store_files: declare.bytes("handbill_store", "Size of the SQLite store's files"),
            store_volume: declare.bytes("handbill_store_volume", "Room on the volume of the SQLite store"),
            store_pages: declare.plain("handbill_store_pages", "Pages in the SQLite store"),
            last_backup: declare.unit(
                "handbill_last_backup_timestamp",
                "When the last backup of the SQLite store was made, 0 before the first",
                Unit::Seconds,
                Gauge::default(),
            ),
            commit_writes: declare.instrument(
                "handbill_store_commit_writes",
                "Writes that shared one commit of the SQLite store",
                Histogram::new(WRITES),
            ),
            corrupt_records: declare.plain(
                "handbill_store_corrupt_records",
                "Calls of the page store that found a record which cannot be read: damaged, or of a later version",
            ),
            lookup_joins: declare.plain("handbill_store_lookup_joins", "Lookups that shared another lookup's read"),
            page_cache: PageCacheMetrics {
                hits: declare.plain("handbill_page_cache_hits", "Reads whose answer was ready to be sent"),
                misses: declare.plain("handbill_page_cache_misses", "Reads whose page was read from the store"),
                bytes: declare.bytes("handbill_page_cache", "Memory that pages which are ready to be sent hold"),
            },
            decisions: declare.plain("handbill_rate_limit_decisions", "Attempts admitted and refused"),
            limiter: declare.durations("handbill_rate_limit_duration", "How long the limiter took"),
            rate_limit_fallback: declare.plain(
                "handbill_rate_limit_fallback",
                "1 while Redis cannot be reached and this replica counts by itself",
            ),
            tool_calls: declare.plain("handbill_mcp_tool_calls", "Calls of MCP tools by outcome"),
            operator_actions: declare.plain("handbill_operator_actions", "What operators did by its outcome"),
            operator_tokens_refused: declare.plain(
                "handbill_operator_tokens_refused",
                "Requests to the operators' API with a wrong token, or without one",
            ),
            publishing_refusals: declare.plain(
                "handbill_publishing_refusals",
                "Creates and updates that operators do not allow at the moment",
            ),
            moderation_reloads: declare.plain(
                "handbill_moderation_reloads",
                "How often the blocklist was read, or the switch of creates had changed",
            ),
            moderation_stale: declare.plain(
                "handbill_moderation_stale",
                "1 while the last read of the blocklist or the switch of creates has failed",
            ),
            blocklist_entries: declare.plain("handbill_blocklist_entries", "Entries of the blocklist"),
            creates_paused: declare.plain("handbill_creates_paused", "1 while operators have paused creates"),
            renders: declare.unit(
                "handbill_render_duration",
                "How long it took to turn Markdown into HTML, including the wait for a free core",
                Unit::Seconds,
                Histogram::new(SECONDS),
            ),
            untrusted_forwarded: declare.plain(
                "handbill_untrusted_forwarded",
                "Requests whose X-Forwarded-For was ignored, because their peer is not a trusted proxy",
            ),
            spans: declare.plain(
                "handbill_trace_spans",
                "Spans that were exported, that the collector did not accept, and that were dropped because too many waited",
            ),
            log_lines_dropped: declare.instrument(
                "handbill_log_lines_dropped",
                "Log lines that were not written, because standard error was not read fast enough or failed",
                log_lines_dropped,
            ),
            draining: declare.plain("handbill_draining", "1 while the process drains"),
            registry: declare.with_collectors(),
        }
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

pub fn record(family: &Durations<CallLabels>, operation: &'static str, outcome: &'static str, took: Duration) {
    family.get_or_create(&CallLabels { operation, outcome }).observe(took.as_secs_f64());
}

/// An OpenMetrics `exposition` as Prometheus's older text, which has neither units nor exemplars, calls an info a gauge, and has the
/// suffix of a counter in its description too.
pub fn as_text(exposition: &str) -> String {
    let mut text = String::with_capacity(exposition.len());
    let mut help = "";
    for line in exposition.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|described| described.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            let lines = ["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind, "\n"];
            text.extend(lines);
        } else if !line.starts_with('#') {
            // No label has such a text.
            text.push_str(line.split_once(" # ").map_or(line, |(series, _)| series));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// An instrument, as far as scrapes and the document both describe it.
    #[derive(Debug, PartialEq, Eq)]
    struct Described {
        kind: String,
        labels: Vec<String>,
        help: String,
    }

    #[tokio::main(flavor = "current_thread")]
    async fn exposition() -> String {
        let metrics = Metrics::new();
        let (operation, outcome) = ("operation", "outcome");
        let request = RequestLabels {
            http_request_method: "GET",
            http_route: "/".to_owned(),
            http_response_status_code: Some(500),
            error_type: Some("500".into()),
        };
        metrics.requests.get_or_create(&request).observe(0.0, None, None);
        for family in [&metrics.store, &metrics.limiter] {
            record(family, operation, outcome, Duration::ZERO);
        }
        metrics.store_files.get_or_create(&FileLabels { file: "database" }).inc();
        metrics.store_volume.get_or_create(&StateLabels { state: "free" }).inc();
        metrics.store_pages.get_or_create(&StateLabels { state: "active" }).inc();
        metrics.decisions.get_or_create(&DecisionLabels { limit: "create", outcome }).inc();
        metrics.tool_calls.get_or_create(&ToolLabels { tool: "get_page", outcome }).inc();
        metrics.operator_actions.get_or_create(&OperatorLabels { action: "takedown", outcome }).inc();
        metrics.publishing_refusals.get_or_create(&RefusalLabels { reason: "content" }).inc();
        metrics.moderation_reloads.get_or_create(&ReloadLabels { source: "creates", outcome }).inc();
        metrics.moderation_stale.get_or_create(&SourceLabels { source: "creates" }).set(0);
        metrics.spans.get_or_create(&SpanLabels { outcome }).inc();
        metrics.exposition()
    }

    #[test]
    fn the_older_text_has_every_series_and_none_of_what_only_openmetrics_has() {
        let open = exposition();
        let text = as_text(&open);
        let series = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(|line| line.split(" # ").next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(series(&text), series(&open));
        assert!(!text.contains("# UNIT") && !text.contains("# EOF") && !text.contains(" # {"), "{text}");
        assert!(
            text.contains("# TYPE handbill_log_lines_dropped_total counter\nhandbill_log_lines_dropped_total 0\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE handbill_build_info gauge\nhandbill_build_info{"), "{text}");
    }

    /// The instruments of a scrape, by the names of their series.
    fn exposed(scrape: &str) -> BTreeMap<String, Described> {
        let mut all = BTreeMap::new();
        for family in scrape.split("# HELP ").skip(1) {
            let (name, rest) = family.split_once(' ').unwrap();
            let help = rest.lines().next().unwrap().trim_end_matches('.').to_owned();
            let comment = |what: &str| Some(rest.split_once(&format!("# {what} {name} "))?.1.lines().next().unwrap());
            let kind = comment("TYPE").unwrap();
            let unit = comment("UNIT").map(|unit| if unit == "seconds" { ", s" } else { ", bytes" });
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let series = rest.lines().find(|line| line.starts_with(name)).unwrap();
            let labels = series.split(['{', ',']).skip(1).map(|label| label.split('=').next().unwrap().to_owned());
            let labels = labels.filter(|label| label != "le").collect();
            let kind = format!("{kind}{}", unit.unwrap_or_default());
            all.insert(format!("{name}{suffix}"), Described { kind, labels, help });
        }
        all
    }

    /// The instruments that the document describes. `help` is the cell under `meaning`, with a capital first letter.
    fn documented() -> BTreeMap<String, Described> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observability.md");
        let document = fs::read_to_string(path).unwrap();
        let (_, table) = document.split_once("| metric | kind, unit | labels | meaning |\n").unwrap();
        let rows = table.lines().skip(1).take_while(|line| line.starts_with("| "));
        let described = rows.map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, labels, meaning] = cells[..] else { panic!("{row}") };
            let labels = labels.split("; ").flat_map(|part| part.split(':').next().unwrap().split(", "));
            let labels = labels.map(|label| label.trim_matches('`').to_owned()).filter(|label| !label.is_empty());
            let (first, rest) = meaning.split_at(1);
            let help = format!("{}{}", first.to_uppercase(), rest.replace('`', ""));
            let described = Described { kind: kind.to_owned(), labels: labels.collect(), help };
            (name.trim_matches('`').to_owned(), described)
        });
        described.collect()
    }

    #[test]
    fn the_document_describes_every_instrument_as_it_is_declared() {
        let exposed = exposed(&exposition());
        let mut documented = documented();
        assert!(exposed.len() > 30, "{exposed:#?}");
        for (name, described) in &mut documented {
            // The document may go on where the help ends.
            let help = exposed.get(name).map_or("", |declared| declared.help.as_str());
            if [": ", "; ", ". "].iter().any(|end| described.help.starts_with(&format!("{help}{end}"))) {
                help.clone_into(&mut described.help);
            }
        }
        for (name, declared) in &exposed {
            let row = documented.get(name);
            assert!(
                row == Some(declared),
                "Change the row of `{name}` in docs/observability.md: {row:#?} is not {declared:#?}"
            );
        }
        let unknown: Vec<_> = documented.keys().filter(|name| !exposed.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "Delete these rows from docs/observability.md: {unknown:?}");
    }
}
