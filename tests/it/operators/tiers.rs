//! Tiers of limits, in a file that is read again when it changes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use handbill::operators::moderation::{Moderation, OperatorsFiles};
use handbill::telemetry::metrics::Metrics;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::support::exchange::Request;

/// A service with one create for each client, and the file of its tiers.
struct Tiered {
    app: TestApp,
    moderation: Moderation,
    metrics: Arc<Metrics>,
    directory: tempfile::TempDir,
}

impl Tiered {
    fn start(text: Option<&str>) -> Self {
        let (directory, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
        let path = directory.path().join("tiers.json");
        if let Some(text) = text {
            replace(&path, text);
        }
        let files = OperatorsFiles { limit_tiers: Some(path), ..OperatorsFiles::default() };
        let moderation = Moderation::open(files, Duration::from_hours(1), &metrics);
        let app = Setup::new().limits(1, 1).changing_tiers(moderation.tiers()).start();
        Self { app, moderation, metrics, directory }
    }

    /// Puts another file in the place of the last one, and looks at it.
    fn change(&mut self, text: &str) {
        replace(&self.directory.path().join("tiers.json"), text);
        self.moderation.reload_files();
    }

    async fn creates(&self, peer: &str) -> u16 {
        let create = Request::create(json!({"title": "T", "content": "c"}).to_string()).peer(peer);
        self.app.send(create).await.status
    }

    fn is_scraped(&self, line: &str) -> bool {
        self.metrics.exposition().lines().any(|exposed| exposed == line)
    }
}

/// Puts `text` into `path` in one step, as the script of operators does.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

fn tier(network: &str, creates: u32) -> String {
    format!(r#"[{{"name": "agents", "networks": ["{network}"], "shared": {{"create": {creates}, "edit": 100}}}}]"#)
}

const STALE: &str = r#"handbill_moderation_stale{source="tiers"} 1"#;
const FRESH: &str = r#"handbill_moderation_stale{source="tiers"} 0"#;

#[tokio::test]
async fn a_changed_file_is_in_force_at_once_and_keeps_what_its_tiers_have_counted() {
    let mut tiered = Tiered::start(Some(&tier("192.0.2.0/24", 2)));
    assert_eq!(tiered.creates("192.0.2.1").await, 201);
    assert_eq!(tiered.creates("192.0.2.2").await, 201);
    assert_eq!(tiered.creates("192.0.2.3").await, 429);

    tiered.change(&tier("198.51.100.0/25", 3));
    assert_eq!(tiered.creates("198.51.100.1").await, 201, "the host's third create");
    assert_eq!(tiered.creates("198.51.100.2").await, 429, "its networks have moved, and its window is the same");
    assert_eq!(tiered.creates("192.0.2.4").await, 201, "this network has the usual limits now");
    assert_eq!(tiered.creates("192.0.2.4").await, 429);
    assert!(tiered.is_scraped(FRESH));
    assert!(tiered.is_scraped(r#"handbill_moderation_reloads_total{source="tiers",outcome="done"} 2"#));
}

#[tokio::test]
async fn a_bad_file_keeps_the_old_tiers_and_raises_a_metric_until_it_is_corrected() {
    let mut tiered = Tiered::start(Some(&tier("192.0.2.0/24", 3)));
    for (bad, failures) in [("", 1), ("[{}]", 2), (&*tier("everyone", 9), 3)] {
        tiered.change(bad);
        assert_eq!(tiered.creates("192.0.2.1").await, 201, "the tiers that were read last stay: {bad}");
        assert!(tiered.is_scraped(STALE), "{bad}");
        let failed = format!(r#"handbill_moderation_reloads_total{{source="tiers",outcome="failed"}} {failures}"#);
        assert!(tiered.is_scraped(&failed), "{bad}");
        tiered.moderation.reload_files();
        assert!(tiered.is_scraped(STALE) && tiered.is_scraped(&failed), "it is bad until it has changed: {bad}");
    }
    assert_eq!(tiered.creates("192.0.2.1").await, 429);

    fs::remove_file(tiered.directory.path().join("tiers.json")).unwrap();
    tiered.moderation.reload_files();
    assert!(tiered.is_scraped(STALE), "a file that is away changes nothing either");
    assert_eq!(tiered.creates("192.0.2.2").await, 429);

    tiered.change(&tier("192.0.2.0/24", 4));
    assert!(tiered.is_scraped(FRESH));
    assert_eq!(tiered.creates("192.0.2.1").await, 201);
}

#[tokio::test]
async fn a_bad_file_or_none_does_not_stop_the_start_and_is_used_once_it_is_good() {
    for text in [None, Some("nonsense")] {
        let mut tiered = Tiered::start(text);
        assert!(tiered.is_scraped(STALE), "{text:?}");
        assert_eq!(tiered.creates("192.0.2.1").await, 201);
        assert_eq!(tiered.creates("192.0.2.1").await, 429, "the usual limits hold");

        tiered.change(&tier("192.0.2.0/24", 2));
        assert_eq!(tiered.creates("192.0.2.1").await, 201, "{text:?}");
        assert!(tiered.is_scraped(FRESH), "{text:?}");
    }
}

#[tokio::test]
async fn clients_of_a_network_with_its_own_limits_have_those_and_all_others_the_usual_ones() {
    let tiers = r#"[
        {"name": "agents", "networks": ["192.0.2.0/24"], "shared": {"create": 5, "edit": 0}, "client": {"create": 3, "edit": 2}},
        {"name": "own", "networks": ["192.0.2.9"], "shared": {"create": 0, "edit": 0}}]"#;
    let app = Setup::new().limits(1, 1).tiers(tiers).start();
    let create = |peer: &str| app.send(Request::create(json!({"title": "T", "content": "c"}).to_string()).peer(peer));
    for _ in 0..3 {
        let answer = create("192.0.2.1").await;
        answer.expect_status(201);
        assert!(answer.header("ratelimit-policy").contains("q=3;w=3600"), "{answer:?}");
    }
    create("192.0.2.1").await.expect_error(429, "rate_limited");
    for _ in 0..2 {
        create("192.0.2.2").await.expect_status(201);
    }
    create("192.0.2.2").await.expect_error(429, "rate_limited");
    create("198.51.100.1").await.expect_status(201);
    create("198.51.100.1").await.expect_error(429, "rate_limited");
    for _ in 0..10 {
        create("192.0.2.9").await.expect_status(201);
    }
    let edit = |peer: &str| app.send(Request::delete("never-was-22222222").peer(peer));
    for _ in 0..2 {
        edit("192.0.2.1").await.expect_error(404, "not_found");
    }
    edit("192.0.2.1").await.expect_error(429, "rate_limited");
}
