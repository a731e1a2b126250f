//! The events of libraries that are logged: warnings and errors, each of which once a minute.
//!
//! A library that cannot reach its server says so at each attempt: the driver of the database made four lines a second of 1.2 KB.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::service::TRACES;

/// The name of our crate, with which those of our other crates begin. Our events may be logged at every level. Libraries log
/// the bytes that they work on, such as a page's text or a key, so only [their warnings and errors](may_be_logged) are
/// logged, whatever the filter says.
const OURS: &str = "handbill";

/// A library that puts whole requests even into its warnings.
const NEVER_LOGGED: &str = "rmcp";

pub(super) fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    match metadata.target().split("::").next() {
        Some(name) if is_ours(name) => metadata.target() != TRACES,
        Some(NEVER_LOGGED) => false,
        _ => *metadata.level() <= Level::WARN,
    }
}

/// Whether the crate with this name is one of ours, such as `handbill_front`.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// The time in which a library's warning is logged once, by the place in its code.
const PAUSE: Duration = Duration::from_mins(1);

/// Passes all events of ours, and those of libraries once in each [`PAUSE`], by the time that `now` tells.
///
/// It is a filter of the writer: one of events that decides at each of them loses the event after one that it refuses
/// (`Filter::event_enabled` of `tracing-subscriber` 0.3.23, if it is the only filter).
pub(super) fn once_a_minute(now: impl Fn() -> Duration) -> impl Fn(&Metadata<'_>) -> bool {
    let throttles = Mutex::new(HashMap::<Identifier, LogThrottle>::new());
    move |metadata| {
        if metadata.target().split("::").next().is_some_and(is_ours) {
            return true;
        }
        let mut throttles = throttles.lock();
        throttles.entry(metadata.callsite()).or_insert_with(|| LogThrottle::new(PAUSE)).allow(now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry::Registry;

    use super::super::tests::Log;
    use super::*;

    #[test]
    fn the_events_of_our_crates_are_ours() {
        assert!(["handbill", "handbill_pages", "handbill_store_scylla"].into_iter().all(is_ours));
        assert!(!["handbills", "rmcp", "hyper", ""].into_iter().any(is_ours));
    }

    #[test]
    fn a_warning_of_a_library_is_logged_once_a_minute_and_ours_each_time() {
        let (log, seconds) = (Log::default(), Arc::new(AtomicU64::new(0)));
        let clock = Arc::clone(&seconds);
        let layer = log.layer("trace", move || Duration::from_secs(clock.load(Ordering::Relaxed)));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let first = || tracing::warn!(target: "scylla::cluster", "no node answers");
            let second = || tracing::error!(target: "scylla::cluster", "a connection broke");
            let ours = || tracing::warn!(target: "handbill_store_scylla", "the database is away");
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
