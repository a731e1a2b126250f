//! Logs warnings and errors of libraries, each once a minute: the database's driver made four lines a second.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::service::TRACES;

/// Libraries log the bytes that they work on, such as a key. So only [their warnings and errors](may_be_logged) are
/// logged, whatever the filter says.
const OURS: &str = "handbill";

/// Puts whole requests even into warnings.
const NEVER_LOGGED: &str = "rmcp";

pub(super) fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    match metadata.target().split("::").next() {
        Some(name) if is_ours(name) => metadata.target() != TRACES,
        Some(NEVER_LOGGED) => false,
        _ => *metadata.level() <= Level::WARN,
    }
}

fn is_ours(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// For each place in a library's code.
const PAUSE: Duration = Duration::from_mins(1);

/// By the monotonic time `now`. This filters the writer: a filter of events loses the event after a refused one
/// (`Filter::event_enabled` of `tracing-subscriber` 0.3.23).
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
