//! Structured logs on standard error: one JSON object, or one line of text, an event.

mod queue;

use std::any::Any;
use std::io::IsTerminal;
use std::panic::{self, PanicHookInfo};

use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::queue::LogQueue;

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

impl LogFormat {
    /// Text on a terminal, JSON otherwise.
    pub fn fitting() -> Self {
        if std::io::stderr().is_terminal() { Self::Text } else { Self::Json }
    }
}

/// Whose events may be logged at every level. Libraries tell of the very bytes that they work on, which may be a page's
/// text or a key, so of theirs only [warnings and errors](may_be_logged) are, whatever the filter says.
const OURS: &str = "handbill";

/// A library that puts whole requests into its warnings too.
const NEVER_LOGGED: &str = "rmcp";

fn may_be_logged(target: &str, level: Level) -> bool {
    match target.split("::").next() {
        Some(OURS) => true,
        Some(NEVER_LOGGED) => false,
        _ => level <= Level::WARN,
    }
}

/// Puts the process's events into `queue` from now on, panics included: those that `filter` lets through (`info`,
/// `handbill=debug`, …).
pub fn install(queue: &LogQueue, format: LogFormat, filter: EnvFilter) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue.clone())
        // In a file, escape sequences would stand between a field and who searches for it.
        .with_ansi(std::io::stderr().is_terminal())
        .with_span_events(FmtSpan::NONE)
        // The queue takes every line, so there is nothing to say.
        .log_internal_errors(false);
    let keyless = filter_fn(|metadata| may_be_logged(metadata.target(), *metadata.level()));
    match format {
        LogFormat::Text => builder.with_target(false).finish().with(keyless).init(),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(true).with_span_list(false);
            builder.finish().with(keyless).init();
        }
    }
    // The standard hook writes to standard error itself, and waits where nobody reads it.
    panic::set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    tracing::error!(
        location = panic.location().map(display),
        reason = fixed_text(panic.payload()),
        "a thread panicked"
    );
}

/// What a panic says, where that is a fixed text. Others are made of what was worked on, which may be a page or a key.
fn fixed_text(payload: &(dyn Any + Send)) -> Option<&'static str> {
    payload.downcast_ref().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_logged_with_its_reason_only_where_that_is_a_fixed_text() {
        let payload = |work: fn()| panic::catch_unwind(work).unwrap_err();
        assert_eq!(fixed_text(&*payload(|| panic!("the lock is held"))), Some("the lock is held"));
        assert_eq!(fixed_text(&*payload(|| panic!("no character begins in {}", "a text".to_owned()))), None);
    }
}
