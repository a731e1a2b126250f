//! The line that ends a request without an error and without a trace. It is the same line that `tracing` would make, written
//! into a buffer that is used again.
//!
//! `tracing` takes 2.4 µs for the span and the line, and this takes 0.1 µs, of the 14 µs of a hot read (optimised, fastest of
//! 300 rounds, without the queue).

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::Level;
use tracing_subscriber::EnvFilter;

use super::queue::LogQueue;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::SystemClock;

/// The target of the line: that of the same line from `tracing`.
const TARGET: &str = "handbill::telemetry::http";

/// The queue of the lines, if they are JSON.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Whether a directive of the filter names a span. Such a directive needs a span, which only `tracing` makes.
static NEED_SPANS: AtomicBool = AtomicBool::new(false);

/// The words of the log for an error. They travel in the response's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorName {
    /// The API's code.
    pub code: &'static str,
    /// The part that refused the request, where the code does not say it.
    pub refused_by: Option<&'static str>,
}

/// The end of a request. No field needs an escape.
pub(in crate::telemetry) struct RequestEnd<'a> {
    pub(in crate::telemetry) id: &'a str,
    pub(in crate::telemetry) method: &'static str,
    pub(in crate::telemetry) route: &'a str,
    pub(in crate::telemetry) status: u16,
    pub(in crate::telemetry) error: Option<ErrorName>,
    /// Seconds.
    pub(in crate::telemetry) took: f64,
}

pub(super) fn install(queue: LogQueue) {
    // Only the first installation counts, as for `tracing`.
    let _ = QUEUE.set(queue);
}

/// From now on `directives` say which lines are kept out.
pub(super) fn look_at(directives: &EnvFilter) {
    NEED_SPANS.store(directives.to_string().contains('['), Ordering::Relaxed);
}

/// Writes the line of `end`, unless the filter keeps it out. Returns false if `tracing` must write it.
pub(in crate::telemetry) fn write_end(end: &RequestEnd<'_>) -> bool {
    thread_local! {
        static LINE: RefCell<Line> = const { RefCell::new(Line { text: String::new(), second: i64::MIN, date: String::new() }) };
    }
    let Some(queue) = QUEUE.get().filter(|_| !NEED_SPANS.load(Ordering::Relaxed)) else { return false };
    if tracing::enabled!(target: "handbill::telemetry::http", Level::INFO) {
        LINE.with_borrow_mut(|line| {
            if line.write(SystemClock::wall_time(), end).is_ok() {
                queue.whole_line(line.text.as_bytes());
            }
        });
    }
    true
}

struct Line {
    text: String,
    second: i64,
    date: String,
}

impl Line {
    fn write(&mut self, now: UnixMillis, end: &RequestEnd<'_>) -> fmt::Result {
        let (second, millis) = (now.get().div_euclid(1000), now.get().rem_euclid(1000));
        if second != self.second {
            self.date = now.to_string();
            self.date.truncate("2026-11-21T04:30:00".len());
            self.second = second;
        }
        let RequestEnd { id, method, route, status, error, took } = end;
        self.text.clear();
        write!(self.text, r#"{{"timestamp":"{}.{millis:03}Z","level":"INFO","status":{status},"#, self.date)?;
        if let Some(ErrorName { code, refused_by }) = error {
            write!(self.text, r#""error":"{code}","#)?;
            if let Some(what) = refused_by {
                write!(self.text, r#""refused_by":"{what}","#)?;
            }
        }
        writeln!(
            self.text,
            r#""duration_seconds":{took:?},"message":"answered","target":"{TARGET}","span":{{"method":"{method}","request_id":"{id}","route":"{route}","name":"request"}}}}"#,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::tests::Log;
    use super::*;
    use crate::telemetry::spans::OTHER_METHOD;

    fn traced(end: &RequestEnd<'_>) -> Value {
        let log = Log::default();
        let layer = log.layer("info", Duration::default);
        let RequestEnd { id, method, route, status, error, took } = *end;
        let (code, refused_by) = (error.map(|error| error.code), error.and_then(|error| error.refused_by));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let span = tracing::info_span!("request", request_id = id, method, route);
            span.in_scope(|| tracing::info!(target: TARGET, status, error = code, refused_by, duration_seconds = took, "answered"));
        });
        log.lines().remove(0)
    }

    #[test]
    fn the_line_is_the_one_that_tracing_makes() {
        let mut line = Line { text: String::new(), second: i64::MIN, date: String::new() };
        let error = |code, refused_by| Some(ErrorName { code, refused_by });
        for (method, route, status, error, took) in [
            ("GET", "/{slug}", 200, None, 0.000_012_5),
            ("PATCH", "/api/pages/{slug}", 412, error("precondition_failed", None), 1.5),
            (OTHER_METHOD, "", 400, error("content_refused", Some("blocklist")), 0.0),
        ] {
            let end = RequestEnd { id: "0123456789abcdef", method, route, status, error, took };
            let traced = traced(&end);
            for millis in [1_795_235_400_003, 1_795_235_400_999, 1_795_235_401_000] {
                line.write(UnixMillis::new(millis), &end).unwrap();
                let mut written: Value = serde_json::from_str(&line.text).unwrap();
                assert_eq!(written["timestamp"], UnixMillis::new(millis).to_string());
                written["timestamp"] = traced["timestamp"].clone();
                assert_eq!(written, traced);
            }
        }
        assert!(line.text.ends_with("}\n"));
    }

    #[test]
    fn a_line_takes_at_most_464_bytes_whatever_a_client_sends() {
        let mut line = Line { text: String::new(), second: i64::MIN, date: String::new() };
        let (method, route) = ("OPTIONS", "/.well-known/oauth-authorization-server/{resource}");
        let end = RequestEnd {
            id: "0123456789abcdef",
            method,
            route,
            status: 503,
            error: Some(ErrorName { code: "unsupported_grant_type", refused_by: Some("blocklist") }),
            took: f64::from_bits(0x3f50_6249_86a2_1e7f),
        };
        line.write(UnixMillis::new(1_795_235_400_003), &end).unwrap();
        assert!(line.text.len() <= 464, "{}", line.text);
    }
}
