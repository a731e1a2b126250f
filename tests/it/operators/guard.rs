//! The token of the operators' API.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tracing::callsite::rebuild_interest_cache;
use tracing::subscriber::set_default;
use tracing::{Event, Level};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;

use super::{LISTENING, Operated, TOKEN, request};

/// Every route of the operators' API.
const ROUTES: [(&str, &str); 7] = [
    ("POST", "/takedown"),
    ("POST", "/hide"),
    ("POST", "/show"),
    ("GET", "/inspect/a-page-22222222"),
    ("GET", "/records"),
    ("GET", "/creates"),
    ("PUT", "/creates"),
];

#[tokio::test]
async fn without_a_token_file_every_route_is_closed_and_says_what_to_set() {
    let operated = Operated::closed();
    for (method, path) in ROUTES {
        for token in [None, Some(TOKEN), Some("")] {
            let answer = operated.send(request(method, path, token, "")).await.expect(403);
            assert_eq!(answer.json()["error"], "forbidden");
            assert!(answer.text.contains("--admin-token-file"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn without_the_token_nothing_is_shown_and_nothing_is_taken_down() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    for token in [None, Some(""), Some(&TOKEN[1..]), Some(&*format!("{TOKEN}0")), Some(&*TOKEN.to_uppercase())] {
        for (method, path) in ROUTES {
            let body = json!({"slugs": [page.slug], "reason": "spam", "by": "nobody"});
            let answer = operated.send(request(method, path, token, body)).await.expect(401);
            assert_eq!(answer.json()["error"], "unauthorized", "{method} {path}");
            assert!(answer.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"), "{answer:?}");
        }
    }
    operated.app.read(&page.slug).await.expect_status(200);
}

/// Counts the warnings of the guard.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Layer<Registry> for Warnings {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, Registry>) {
        if event.metadata().target() == "handbill::operators::api::guard" && *event.metadata().level() == Level::WARN {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn each_request_without_the_token_is_counted_and_one_a_minute_is_logged() {
    let _turn = LISTENING.lock().await;
    let operated = Operated::start();
    let warnings = Warnings::default();
    // Another test may be the first to reach the warning, which then counts as unwanted: nobody listens there.
    Operated::start().send(request("GET", "/creates", None, "")).await.expect(401);
    let _logging = set_default(Registry::default().with(warnings.clone()));
    rebuild_interest_cache();
    let seen = || (operated.app.metrics.operator_tokens_refused.get(), warnings.0.load(Ordering::SeqCst));
    operated.ask("GET", "/creates", "").await.expect(200);
    assert_eq!(seen(), (0, 0));
    for token in [Some("wrong"), None, Some(&TOKEN[1..])] {
        // The first rebuild may have come while that other test was still making the warning known.
        rebuild_interest_cache();
        operated.send(request("GET", "/creates", token, "")).await.expect(401);
    }
    assert_eq!(seen(), (3, 1));
    operated.app.clock.advance(Duration::from_secs(59));
    operated.send(request("GET", "/creates", Some("wrong"), "")).await.expect(401);
    assert_eq!(seen(), (4, 1));
    operated.app.clock.advance(Duration::from_secs(1));
    operated.send(request("GET", "/creates", Some("wrong"), "")).await.expect(401);
    assert_eq!(seen(), (5, 2));
}

#[tokio::test]
async fn a_new_token_in_the_file_counts_at_once_and_the_old_one_does_not() {
    let operated = Operated::start();
    let new = "fedcba9876543210fedcba9876543210";
    fs::write(&operated.token_file, new).unwrap();
    operated.send(request("GET", "/creates", Some(new), "")).await.expect(200);
    operated.send(request("GET", "/creates", Some(TOKEN), "")).await.expect(401);
}

#[tokio::test]
async fn a_token_that_can_be_guessed_or_not_be_read_closes_the_routes() {
    let operated = Operated::start();
    for short in ["", "\n", "short", &TOKEN[1..]] {
        fs::write(&operated.token_file, short).unwrap();
        operated.send(request("GET", "/creates", Some(short.trim()), "")).await.expect(403);
    }
    fs::remove_file(&operated.token_file).unwrap();
    operated.ask("GET", "/creates", "").await.expect(403);
}
