//! The filter of the log, changed while the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use handbill::telemetry::logs::LogFilter;
use serde_json::json;
use tracing::subscriber::{set_default, with_default};
use tracing::{Event, Level, event};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;

use super::{LISTENING, Operated};

/// Counts the events that reach it.
#[derive(Clone, Default)]
struct Seen(Arc<AtomicUsize>);

impl Layer<Registry> for Seen {
    fn on_event(&self, _event: &Event<'_>, _context: Context<'_, Registry>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_new_filter_counts_from_the_next_event_on_and_a_wrong_one_changes_nothing() {
    let _turn = LISTENING.lock().await;
    let mut operated = Operated::start();
    let (_, unused) = LogFilter::new("off".parse().unwrap());
    let filter = std::mem::replace(&mut operated.filter, unused);
    let seen = Seen::default();
    let subscriber = Arc::new(Registry::default().with(seen.clone().with_filter(filter)));
    let seen_after_one_more = || {
        with_default(Arc::clone(&subscriber), || event!(Level::DEBUG, "one"));
        seen.0.load(Ordering::SeqCst)
    };

    assert_eq!(operated.ask("GET", "/log", "").await.expect(200).json(), json!({"filter": "info"}));
    assert_eq!(seen_after_one_more(), 0);
    let changed = operated.ask("PUT", "/log", json!({"filter": "debug", "by": "desk"})).await.expect(200);
    assert_eq!(changed.json(), json!({"filter": "debug"}));
    assert_eq!(seen_after_one_more(), 1);

    for wrong in [
        json!({"filter": "handbill=loud", "by": "desk"}),
        json!({"filter": "info"}),
        json!({"by": "desk"}),
        json!({"filter": "info", "by": "desk", "x": 1}),
    ] {
        operated.ask("PUT", "/log", wrong).await.expect(400);
    }
    assert_eq!(operated.ask("GET", "/log", "").await.expect(200).json(), json!({"filter": "debug"}));
    assert_eq!(seen_after_one_more(), 2);
}

#[tokio::test]
async fn a_change_of_the_filter_is_in_the_audit_with_its_author_and_a_refused_one_is_not() {
    let _turn = LISTENING.lock().await;
    let operated = Operated::start();
    operated.ask("PUT", "/log", json!({"filter": "info"})).await.expect(400);
    operated.ask("PUT", "/log", json!({"filter": "handbill=loud", "by": "desk"})).await.expect(400);
    operated.ask("PUT", "/log", json!({"filter": "debug", "by": "desk"})).await.expect(200);
    let audit = operated.audit().await;
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!((&audit[0]["action"], &audit[0]["by"]), (&json!("log"), &json!("desk")));
}

/// Counts the events of the route that changes the filter.
#[derive(Clone, Default)]
struct Told(Arc<AtomicUsize>);

impl Layer<Registry> for Told {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, Registry>) {
        if event.metadata().target() == "handbill::operators::api::log" {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn the_log_has_each_change_of_its_filter_once_whether_the_old_or_the_new_one_shows_it() {
    let _turn = LISTENING.lock().await;
    let mut operated = Operated::start();
    let (_, unused) = LogFilter::new("off".parse().unwrap());
    let filter = std::mem::replace(&mut operated.filter, unused);
    let told = Told::default();
    let _guard = set_default(Registry::default().with(told.clone().with_filter(filter)));
    for (changes, filter) in ["debug", "warn", "info", "off", "info"].into_iter().enumerate() {
        operated.ask("PUT", "/log", json!({"filter": filter, "by": "desk"})).await.expect(200);
        assert_eq!(told.0.load(Ordering::SeqCst), changes + 1, "{filter}");
    }
    operated.ask("PUT", "/log", json!({"filter": "handbill=loud", "by": "desk"})).await.expect(400);
    assert_eq!(told.0.load(Ordering::SeqCst), 5);
}
