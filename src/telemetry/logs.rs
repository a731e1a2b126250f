//! Structured logs on standard error: JSON or text, one line for each event.
//!
//! A thread of `tracing-appender` writes, so no request waits; lines beyond its queue are dropped and counted. An
//! operator's act has its own way: nothing drops or hides its line, and the act waits until the line is written.
//!
//! Of a library, each warning and error is logged once a minute: the database's driver made four lines a second.

use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::{any::Any, collections::HashMap, time::Duration};

use opentelemetry_sdk::trace::SdkTracer;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, callsite::Identifier, level_filters::LevelFilter};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt, FilterFn, Targets};
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::{fmt::format::Writer, util::SubscriberInitExt};

use super::{http::request_id, spans};
use crate::settings::{LogFormat, LogSettings};
use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::ports::clock::{Clock, SystemClock};
use handbill_pages::service::TRACES;

/// Its lines are written by the thread that logs them, so log them through [`AuditLog`].
pub const AUDIT: &str = "handbill::audit";

/// Writes the lines about operators' acts one after another.
#[derive(Default)]
pub struct AuditLog(AsyncMutex<()>);

impl AuditLog {
    /// Returns once `log` has logged its line. If nobody reads standard error, all acts together hold one blocking thread.
    pub async fn write(&self, log: impl FnOnce() + Send + 'static) {
        let _turn = self.0.lock().await;
        // Fails only when the process ends.
        let _ = spawn_blocking(log).await;
    }
}

/// Most lines have less than 500 bytes.
const MAX_WAITING_LINES: usize = 4096;

/// Also logs panics, and exports spans with `tracer`. Dropping the guard writes waiting lines, for about a second at
/// most. The counter counts dropped lines.
pub fn install(settings: &LogSettings, tracer: Option<SdkTracer>) -> (WorkerGuard, ErrorCounter) {
    let is_terminal = io::stderr().is_terminal();
    let format = settings.log_format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json });
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(MAX_WAITING_LINES).finish(io::stderr());
    let dropped = writer.error_counter();
    let writers = [BoxMakeWriter::new(writer), BoxMakeWriter::new(io::stderr)];
    subscriber(settings.log.clone(), tracer, format, is_terminal, writers).init();
    // The standard hook blocks if nobody reads standard error.
    panic::set_hook(Box::new(log_panic));
    (guard, dropped)
}

/// Outside the log. Waits about a second at most.
pub fn say(line: &str) {
    let (mut writer, _written_at_the_end) = tracing_appender::non_blocking(io::stderr());
    let _ = writer.write_all(format!("{line}\n").as_bytes());
}

fn subscriber(
    levels: Targets,
    tracer: Option<SdkTracer>,
    format: LogFormat,
    is_terminal: bool,
    [lines_to, acts_to]: [BoxMakeWriter; 2],
) -> Dispatch {
    // Without a tracer, `tracing` would still make every span for the layer.
    match tracer {
        Some(tracer) => {
            let logging = logging(levels, format, is_terminal, [lines_to, acts_to], since_start());
            Registry::default().with(spans::layer(tracer)).with(logging).into()
        }
        None => {
            Registry::default().with(logging(levels, format, is_terminal, [lines_to, acts_to], since_start())).into()
        }
    }
}

fn since_start() -> impl Fn() -> Duration {
    let clock = SystemClock::new();
    move || clock.monotonic()
}

fn logging<S>(
    levels: Targets,
    format: LogFormat,
    is_terminal: bool,
    [lines_to, acts_to]: [BoxMakeWriter; 2],
    now: impl Fn() -> Duration + Send + Sync + 'static,
) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // Without this hint, the filter would hide the level of `levels`.
    let keyless = FilterFn::new(|metadata| may_be_logged(metadata) && metadata.target() != AUDIT);
    let keyless = keyless.with_max_level_hint(LevelFilter::TRACE);
    let acts = FilterFn::new(|metadata| metadata.target() == AUDIT).with_max_level_hint(LevelFilter::INFO);
    let lines_to = BoxMakeWriter::new(lines_to.with_filter(once_a_minute(now)));
    let lines = formatted(format, is_terminal, lines_to).with_filter(levels.and(keyless));
    lines.and_then(formatted(format, is_terminal, acts_to).with_filter(acts))
}

fn formatted<S>(format: LogFormat, is_terminal: bool, writer: BoxMakeWriter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // Escape sequences in a file would make searches fail. A failed write cannot be reported.
    let lines = fmt::layer().with_writer(writer).with_ansi(is_terminal).log_internal_errors(false);
    match format {
        LogFormat::Text => lines.with_target(false).map_event_format(|text| OfRequest(text, format)).boxed(),
        LogFormat::Json => {
            let json = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            json.map_event_format(|json| OfRequest(json, format)).boxed()
        }
    }
}

/// Adds the request's id. A span would cost each request more, and few have a line besides their last.
struct OfRequest<F>(F, LogFormat);

impl<S, N, F> FormatEvent<S, N> for OfRequest<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> std::fmt::Result {
        let Some(id) = request_id() else { return self.0.format_event(context, to, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match self.1 {
            LogFormat::Json => {
                let mut object: Map<String, Value> = serde_json::from_str(&line).map_err(|_| std::fmt::Error)?;
                object.insert("request_id".to_owned(), id.into());
                writeln!(to, "{}", Value::Object(object))
            }
            LogFormat::Text => writeln!(to, "{} request_id=\"{id}\"", line.trim_end()),
        }
    }
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    tracing::error!(
        location = panic.location().map(display),
        reason = fixed_text(panic.payload()),
        "a thread panicked"
    );
}

/// Any other message may quote data, such as a key.
fn fixed_text(payload: &(dyn Any + Send)) -> Option<&'static str> {
    payload.downcast_ref().copied()
}

/// Libraries log the bytes that they work on, such as a key. So only [their warnings and errors](may_be_logged) are
/// logged, whatever the filter says.
const OURS: &str = "handbill";

/// Puts whole requests even into warnings.
const NEVER_LOGGED: &str = "rmcp";

fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    match metadata.target().split("::").next() {
        Some(name) if is_ours(name) => metadata.target() != TRACES,
        Some(NEVER_LOGGED) => false,
        _ => *metadata.level() <= Level::WARN,
    }
}

fn is_ours(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// The target of lines that many requests may log at once.
pub const OF_REQUESTS: &str = "handbill::requests";

/// For each place in a library's code, and each with the target [`OF_REQUESTS`].
const PAUSE: Duration = Duration::from_mins(1);

/// By the monotonic time `now`. This filters the writer: a filter of events loses the event after a refused one
/// (`Filter::event_enabled` of `tracing-subscriber` 0.3.23).
fn once_a_minute(now: impl Fn() -> Duration) -> impl Fn(&Metadata<'_>) -> bool {
    let throttles = Mutex::new(HashMap::<Identifier, LogThrottle>::new());
    move |metadata| {
        if metadata.target() != OF_REQUESTS && metadata.target().split("::").next().is_some_and(is_ours) {
            return true;
        }
        let mut throttles = throttles.lock();
        throttles.entry(metadata.callsite()).or_insert_with(|| LogThrottle::new(PAUSE)).allow(now())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Clone, Default)]
    pub(in crate::telemetry) struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        pub(in crate::telemetry) fn layer<S>(
            &self,
            levels: &str,
            now: impl Fn() -> Duration + Send + Sync + 'static,
        ) -> impl Layer<S>
        where
            S: Subscriber + for<'span> LookupSpan<'span>,
        {
            let (lines_to, acts_to) = (self.clone(), self.clone());
            logging(
                levels.parse().expect("they are levels"),
                LogFormat::Json,
                false,
                [BoxMakeWriter::new(move || lines_to.clone()), BoxMakeWriter::new(move || acts_to.clone())],
                now,
            )
        }

        pub(in crate::telemetry) fn lines(&self) -> Vec<Value> {
            let bytes = self.0.lock();
            bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
        }
    }

    #[test]
    fn without_a_collector_no_span_is_made_for_one() {
        let span = tracing::subscriber::with_default(
            Registry::default(),
            || tracing::info_span!(target: handbill_pages::service::TRACES, "a call"),
        );
        let logging = subscriber(
            Targets::new().with_default(LevelFilter::TRACE),
            None,
            LogFormat::Json,
            false,
            [io::sink, io::sink].map(BoxMakeWriter::new),
        );
        assert!(logging.register_callsite(span.metadata().expect("a registry makes every span")).is_never());
    }

    #[test]
    fn no_filter_hides_an_operators_act() {
        for (levels, others) in [("off", 0), ("warn", 0), ("info", 1)] {
            let log = Log::default();
            let layer = log.layer(levels, || Duration::ZERO);
            tracing::subscriber::with_default(Registry::default().with(layer), || {
                tracing::info!(target: AUDIT, audit = true, "an operator acted");
                tracing::info!(target: "handbill::other", "something else");
            });
            let lines = log.lines();
            let acts = lines.iter().filter(|line| line["audit"] == true).count();
            assert_eq!((acts, lines.len() - acts), (1, others), "{levels}");
        }
    }

    #[test]
    fn a_panics_reason_is_logged_only_if_it_is_a_fixed_text() {
        fn payload(work: fn()) -> Box<dyn Any + Send> {
            panic::catch_unwind(work).unwrap_err()
        }

        assert_eq!(fixed_text(&*payload(|| panic!("the lock is held"))), Some("the lock is held"));
        assert_eq!(fixed_text(&*payload(|| panic!("no character begins in {}", "a text".to_owned()))), None);
    }

    #[test]
    fn the_events_of_our_crates_are_ours() {
        assert!(["handbill", "handbill_pages", "handbill_store_scylla"].into_iter().all(is_ours));
        assert!(!["handbills", "rmcp", "hyper", ""].into_iter().any(is_ours));
    }

    #[test]
    fn a_warning_of_a_library_is_logged_once_a_minute() {
        fn first() {
            tracing::warn!(target: "scylla::cluster", "no node answers");
        }

        fn second() {
            tracing::error!(target: "scylla::cluster", "a connection broke");
        }

        fn ours() {
            tracing::warn!(target: "handbill_store_scylla", "the database is away");
        }

        let (log, seconds) = (Log::default(), Arc::new(AtomicU64::new(0)));
        let clock = Arc::clone(&seconds);
        let layer = log.layer("trace", move || Duration::from_secs(clock.load(Ordering::Relaxed)));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let logged = |emit: &dyn Fn()| {
                let before = log.lines().len();
                (0..5).for_each(|_| emit());
                log.lines().len() - before
            };
            assert_eq!([logged(&first), logged(&second), logged(&ours)], [1, 1, 5]);
            seconds.store(59, Ordering::Relaxed);
            assert_eq!([logged(&first), logged(&second), logged(&ours)], [0, 0, 5]);
            seconds.store(60, Ordering::Relaxed);
            assert_eq!([logged(&first), logged(&second), logged(&ours)], [1, 1, 5]);
            assert_eq!(logged(&|| tracing::info!(target: "scylla::cluster", "a detail")), 0);
        });
    }
}
