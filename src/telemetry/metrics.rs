//! Every instrument, declared once in [`Metrics::with_log`].
//!
//! Names are OpenTelemetry's in Prometheus form, in seconds and bytes. A test compares them with `docs/monitoring.md`.

use std::{borrow::Cow, fmt, fs, time::Duration};

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Metric, Registry, Unit};
use prometheus_client::{
    collector::Collector, metrics::exemplar::HistogramWithExemplars, metrics::family::Family, metrics::info::Info,
};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tracing_appender::non_blocking::ErrorCounter;

use handbill_pages::service::{CallMetrics, HISTOGRAM_BUCKETS, RefusalLabels, durations, seconds};

pub const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

pub const TEXT_TYPE: &str = prometheus_text::CONTENT_TYPE;

pub const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub struct Metrics {
    pub requests:
        Family<RequestLabels, HistogramWithExemplars<TraceLabels>, fn() -> HistogramWithExemplars<TraceLabels>>,
    pub active_requests: Gauge,
    pub connections: Gauge,
    pub connections_max: Gauge,
    pub connections_refused: Counter,
    pub calls: CallMetrics,
    /// In seconds since 1970; 0 before the first backup.
    pub last_backup: Gauge,
    pub page_cache: PageCacheMetrics,
    pub rate_limit_fallback: Gauge,
    pub tool_calls: Family<ToolLabels, Counter>,
    pub operator_actions: Family<OperatorLabels, Counter>,
    pub publishing_refusals: Family<RefusalLabels, Counter>,
    pub blocklist_entries: Gauge,
    pub blocklist_stale: Gauge,
    pub paused: Gauge,
    pub untrusted_forwarded: Counter,
    pub draining: Gauge,
    registry: Registry,
}

#[derive(Clone, Debug, Default)]
pub struct PageCacheMetrics {
    pub hits: Counter,
    pub misses: Counter,
    pub bytes: Gauge,
}

// The values of labels come from closed sets: no path, slug, address or key is ever a label.

/// In Prometheus an empty label and an absent one are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub http_request_method: &'static str,
    /// Empty if no route matches.
    pub http_route: String,
    pub http_response_status_code: Option<u16>,
    /// Why the request failed, if it did: the status from 500 on, or `abandoned` if there was no answer.
    pub error_type: Option<Cow<'static, str>>,
    /// The scheme of the listener, which OpenTelemetry requires.
    pub url_scheme: &'static str,
}

/// Of an exemplar: the exported trace of one request of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TraceLabels {
    pub trace_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToolLabels {
    /// `_OTHER` if no tool has that name.
    pub tool: &'static str,
    /// `ok`, or the error's code.
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperatorLabels {
    pub action: &'static str,
    /// `done` or `failed`; for a takedown its result.
    pub outcome: &'static str,
}

/// Declares instruments, in the order in which they are exposed.
#[derive(Default)]
struct Declared(Registry);

impl Declared {
    fn plain<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    fn unit<M: Metric + Clone>(&mut self, name: &str, help: &str, unit: Unit, metric: M) -> M {
        self.0.register_with_unit(name, help, unit, metric.clone());
        metric
    }

    fn with_collectors(self, dropped_lines: Option<ErrorCounter>) -> Registry {
        let Self(mut registry) = self;
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)]);
        registry.register("handbill_build", "The running version", build);
        let started = read_clock(ClockId::Realtime);
        registry.register_collector(Box::new(ProcessCollector { dropped_lines, started }));
        registry
    }
}

impl Metrics {
    pub fn with_log(dropped_lines: Option<ErrorCounter>) -> Self {
        let mut declare = Declared::default();
        Self {
            requests: declare.unit(
                "http_server_request_duration",
                "How long requests took, from the head of the request to the head of the answer, or to the end of the connection",
                Unit::Seconds,
                Family::new_with_constructor(|| HistogramWithExemplars::new(HISTOGRAM_BUCKETS.into_iter())),
            ),
            active_requests: declare.plain("http_server_active_requests", "Requests in flight"),
            connections: declare.plain("handbill_connections", "Open connections on the public listener"),
            connections_max: declare.plain("handbill_connections_max", "The most connections allowed at once"),
            connections_refused: declare.plain(
                "handbill_connections_refused",
                "Connections that were closed at once, because their client had its share of all",
            ),
            calls: CallMetrics {
                store: declare.unit(
                    "handbill_store_duration",
                    "How long calls of the page store took",
                    Unit::Seconds,
                    durations(),
                ),
                store_available: declare.plain(
                    "handbill_store_available",
                    "1 while the page store answers, 0 before it was first reached and after a call that it did not answer, and while the SQLite file is not at its path",
                ),
                decisions: declare.plain("handbill_rate_limit_decisions", "Attempts admitted and refused"),
                renders: declare.unit(
                    "handbill_render_duration",
                    "How long it took to turn Markdown into HTML, including the wait for a free core",
                    Unit::Seconds,
                    seconds(),
                ),
            },
            last_backup: declare.unit(
                "handbill_last_backup_timestamp",
                "When the last backup of the SQLite store was made, 0 before the first",
                Unit::Seconds,
                Gauge::default(),
            ),
            page_cache: PageCacheMetrics {
                hits: declare.plain("handbill_page_cache_hits", "Reads whose answer was ready to be sent"),
                misses: declare.plain("handbill_page_cache_misses", "Reads whose page was read from the store"),
                bytes: declare.unit(
                    "handbill_page_cache",
                    "Memory that pages which are ready to be sent hold",
                    Unit::Bytes,
                    Gauge::default(),
                ),
            },
            rate_limit_fallback: declare.plain(
                "handbill_rate_limit_fallback",
                "Servers of Redis that are lost, for whose clients this replica counts by itself",
            ),
            tool_calls: declare.plain("handbill_mcp_tool_calls", "Calls of MCP tools by outcome"),
            operator_actions: declare.plain("handbill_operator_actions", "What operators did by its outcome"),
            publishing_refusals: declare.plain(
                "handbill_publishing_refusals",
                "Creates and updates that operators do not allow at the moment",
            ),
            blocklist_entries: declare.plain("handbill_blocklist_entries", "Entries of the blocklist"),
            blocklist_stale: declare.plain("handbill_blocklist_stale", "1 while the last read of the blocklist has failed"),
            paused: declare.plain("handbill_paused", "1 while operators have paused creates"),
            untrusted_forwarded: declare.plain(
                "handbill_untrusted_forwarded",
                "Requests whose X-Forwarded-For was ignored, because their peer is not a trusted proxy",
            ),
            draining: declare.plain("handbill_draining", "1 while the process drains"),
            registry: declare.with_collectors(dropped_lines),
        }
    }

    /// In Prometheus's text format 0.0.4, which has no exemplars.
    pub fn exposition(&self) -> String {
        let mut scrape = String::new();
        prometheus_text::encode(&mut scrape, &self.registry).expect("writing to a string does not fail");
        scrape
    }

    pub fn openmetrics(&self) -> String {
        let mut scrape = String::new();
        text::encode(&mut scrape, &self.registry).expect("writing to a string does not fail");
        scrape
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::with_log(None)
    }
}

/// Metrics of the process, under the names of Prometheus' libraries.
#[derive(Debug)]
struct ProcessCollector {
    dropped_lines: Option<ErrorCounter>,
    started: f64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut expose = |name, help, unit: Option<Unit>, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), metric.metric_type())?)
        };
        let dropped = self.dropped_lines.as_ref().map_or(0, |lines| lines.dropped_lines() as u64);
        let help = "Log lines that were dropped because too many waited for standard error";
        expose("handbill_log_lines_dropped", help, None, &ConstCounter::new(dropped))?;
        let cpu = ConstCounter::new(read_clock(ClockId::ProcessCPUTime));
        expose("process_cpu", "Processor time used, user and system", Some(Unit::Seconds), &cpu)?;
        let started = ConstGauge::new(self.started);
        expose("process_start_time", "When the process started, since 1970", Some(Unit::Seconds), &started)?;
        let pages = fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok());
        let resident = pages.map(|pages| pages.saturating_mul(page_size() as u64));
        for (name, help, unit, value) in [
            ("process_resident_memory", "Memory in use", Some(Unit::Bytes), resident),
            ("process_open_fds", "Open file descriptors", None, entries("/proc/self/fd")),
            ("process_max_fds", "The most file descriptors allowed", None, getrlimit(Resource::Nofile).current),
            ("process_threads", "Threads", None, entries("/proc/self/task")),
        ] {
            if let Some(value) = value {
                expose(name, help, unit, &ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)))?;
            }
        }
        Ok(())
    }
}

fn entries(directory: &str) -> Option<u64> {
    Some(fs::read_dir(directory).ok()?.count() as u64)
}

fn read_clock(clock: ClockId) -> f64 {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use handbill_pages::service::{CallLabels, DecisionLabels};

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
        let metrics = Metrics::default();
        let (operation, outcome) = ("operation", "outcome");
        let request = RequestLabels {
            http_request_method: "GET",
            http_route: "/".to_owned(),
            http_response_status_code: Some(500),
            error_type: Some("500".into()),
            url_scheme: "http",
        };
        metrics.requests.get_or_create(&request).observe(0.0, None, None);
        metrics.calls.store.get_or_create(&CallLabels { operation, outcome }).observe(0.0);
        metrics.calls.decisions.get_or_create(&DecisionLabels { limit: "create", outcome }).inc();
        metrics.tool_calls.get_or_create(&ToolLabels { tool: "get_page", outcome }).inc();
        metrics.operator_actions.get_or_create(&OperatorLabels { action: "takedown", outcome }).inc();
        metrics.publishing_refusals.get_or_create(&RefusalLabels { reason: "content" }).inc();
        metrics.exposition()
    }

    /// The instruments of a scrape, by the names of their series.
    fn exposed(scrape: &str) -> BTreeMap<String, Described> {
        let mut all = BTreeMap::new();
        for family in scrape.split("# HELP ").skip(1) {
            let (name, rest) = family.split_once(' ').unwrap();
            let help = rest.lines().next().unwrap().trim_end_matches('.').to_owned();
            let (_, kind) = rest.split_once(&format!("# TYPE {name} ")).unwrap();
            let kind = kind.lines().next().unwrap();
            let unit = [("_seconds", ", s"), ("_bytes", ", bytes")].into_iter();
            let unit =
                unit.filter(|(suffix, _)| name.trim_end_matches("_total").ends_with(suffix)).map(|(_, unit)| unit);
            let series = rest.lines().find(|line| line.starts_with(name)).unwrap();
            let labels = series.split(['{', ',']).skip(1).map(|label| label.split('=').next().unwrap().to_owned());
            let labels = labels.filter(|label| label != "le").collect();
            let kind = format!("{kind}{}", unit.collect::<String>());
            all.insert(name.to_owned(), Described { kind, labels, help });
        }
        all
    }

    /// The instruments that the document describes. `help` is the cell under `meaning`, with a capital first letter.
    fn documented() -> BTreeMap<String, Described> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring.md");
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
        assert!(exposed.len() > 25, "{exposed:#?}");
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
                "Change the row of `{name}` in docs/monitoring.md: {row:#?} is not {declared:#?}"
            );
        }
        let unknown: Vec<_> = documented.keys().filter(|name| !exposed.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "Delete these rows from docs/monitoring.md: {unknown:?}");
    }
}
