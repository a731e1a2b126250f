//! Exports and imports over the operators' API (contract, decision 18).

use handbill_pages::values::archive::Encoder;
use handbill_pages::values::timestamp::UnixMillis;
use serde_json::{Value, json};

use super::Operated;
use crate::in_process::app::Published;
use crate::support::pages::CREATED;

impl Operated {
    async fn records(&self, wanted: Value) -> Vec<String> {
        let (mut wanted, mut lines) = (wanted, Vec::new());
        loop {
            let batch = self.ask("POST", "/records", &wanted).await.expect(200).json();
            lines.extend(batch["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()));
            wanted["after"] = batch["next"].clone();
            if wanted["after"].is_null() {
                return lines;
            }
        }
    }

    async fn archive(&self) -> String {
        let (mut encoder, mut archive) = Encoder::begin(UnixMillis::new(CREATED), "test".to_owned());
        for line in self.records(all()).await {
            encoder.line(&line);
            archive.push_str(&line);
        }
        archive + &encoder.end()
    }

    async fn import(&self, archive: &str) -> Value {
        self.ask("POST", "/import", archive).await.expect(200).json()
    }
}

fn all() -> Value {
    json!({"after": null, "since": null, "hidden": false, "fields": []})
}

fn with(name: &str, value: Value) -> Value {
    let mut wanted = all();
    wanted[name] = value;
    wanted
}

/// Pages that are there, deleted, taken down and hidden.
async fn mixed(operated: &Operated) -> [Published; 4] {
    let active = operated
        .app
        .publish("Kept", "See https://a.example/x, ![](https://b.example/i.png) and <c@mail.example>.")
        .await;
    let (deleted, taken_down) = (operated.app.deleted().await, operated.app.published().await);
    let hidden = operated.app.publish("Hidden", "Spam.").await;
    operated.take_down(&[&taken_down.slug]).await;
    let body = json!({"pages": [hidden.slug], "reason": "spam", "by": "desk"});
    operated.results("/hide", body).await;
    [active, deleted, taken_down, hidden]
}

#[tokio::test]
async fn an_export_moves_every_state_of_a_page_and_no_key() {
    let (from, to) = (Operated::start(), Operated::start());
    let [active, deleted, taken_down, hidden] = mixed(&from).await;
    let archive = from.archive().await;
    assert!(!archive.contains(&active.key) && !archive.contains("hbk_"), "{archive}");
    let report = to.import(&archive).await;
    assert_eq!((&report["pages"], &report["deletions"], &report["error"]), (&json!(2), &json!(2), &Value::Null));
    to.app.read(&active.slug).await.expect_status(200);
    to.app.update(&active, json!({"title": "By its key"})).await.expect_status(200);
    for gone in [&deleted, &taken_down, &hidden] {
        to.app.read(&gone.slug).await.expect_status(410);
    }
    for slug in [&taken_down.slug, &hidden.slug] {
        let (there, here) = (to.inspect(slug).await, from.inspect(slug).await);
        assert_eq!((&there["reason"], &there["by"]), (&here["reason"], &here["by"]));
    }
    let report = to.import(&archive).await;
    assert_eq!((&report["same"], &report["older"]), (&json!(3), &json!(1)), "{report}");
}

#[tokio::test]
async fn an_old_export_revives_shows_and_overwrites_nothing() {
    let operated = Operated::start();
    let [changed, deleted, hidden] =
        [operated.app.published().await, operated.app.published().await, operated.app.published().await];
    let archive = operated.archive().await;
    operated.app.update(&changed, json!({"content": "newer"})).await.expect_status(200);
    operated.app.delete(&deleted).await.expect_status(204);
    operated.results("/hide", json!({"pages": [hidden.slug], "reason": "spam", "by": "desk"})).await;
    let report = operated.import(&archive).await;
    let counts = ["pages", "older", "deleted", "hidden"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(counts, [0, 1, 1, 1], "{report}");
    assert_eq!(operated.app.read(&changed.slug).await.field("content"), "newer");
    for gone in [&deleted, &hidden] {
        operated.app.read(&gone.slug).await.expect_status(410);
    }
}

#[tokio::test]
async fn an_import_ends_at_the_first_line_that_is_not_whole() {
    let (from, to) = (Operated::start(), Operated::start());
    for _ in 0..3 {
        from.app.published().await;
    }
    let archive = from.archive().await;
    let lines: Vec<_> = archive.split_inclusive('\n').collect();
    let damaged = format!("{}{}{}", lines[0], lines[1], lines[2].replacen("Hello", "Jello", 1));
    for (archive, stored, line, reason) in [
        (damaged.as_str(), 1, 2, "line 3 is damaged"),
        (&archive[..archive.len() - 1], 2, 4, "damaged"),
        (&lines[..3].concat(), 0, 3, "it was cut"),
        ("{\"slug\":\"x\"}\n", 0, 0, "no archive"),
        ("", 0, 0, "no archive"),
    ] {
        let report = to.import(archive).await;
        assert_eq!((&report["pages"], &report["line"]), (&json!(stored), &json!(line)), "{report}");
        assert!(report["error"].as_str().unwrap().contains(reason), "{reason}: {report}");
    }
    let report = to.import(&archive).await;
    assert_eq!((&report["same"], &report["error"]), (&json!(3), &Value::Null), "{report}");
    let rest = to.ask("POST", "/import?after=3", &archive).await.expect(200).json();
    assert_eq!((&rest["same"], &rest["line"], &rest["error"]), (&json!(1), &json!(4), &Value::Null), "{rest}");
    to.ask("POST", "/import?after=x", &archive).await.expect(400);
}

#[tokio::test]
async fn an_export_has_what_changed_is_hidden_or_some_fields() {
    let operated = Operated::start();
    let [active, .., hidden] = mixed(&operated).await;
    let slugs = |lines: Vec<String>| -> Vec<String> {
        let value = |line: &String| serde_json::from_str::<Value>(line).unwrap();
        let mut slugs: Vec<_> = lines.iter().map(|line| value(line)["slug"].as_str().unwrap().to_owned()).collect();
        slugs.sort();
        slugs
    };
    let mut listed = all();
    listed["fields"] = json!(["slug", "title", "state", "hosts", "reason", "by"]);
    let lines = operated.records(listed.clone()).await;
    let line: Value = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|line: &Value| line["slug"] == active.slug)
        .unwrap();
    let expected = json!({"slug": active.slug, "title": "Kept", "state": "active", "hosts": ["a.example", "b.example", "mail.example"], "reason": null, "by": null});
    assert_eq!(line, expected);
    let mut both = [active.slug.clone(), hidden.slug.clone()];
    both.sort();
    assert_eq!(slugs(lines), both, "deletions are not listed");

    listed["hidden"] = json!(true);
    assert_eq!(slugs(operated.records(listed.clone()).await), std::slice::from_ref(&hidden.slug));
    listed["hidden"] = json!(false);
    operated.app.clock.advance(std::time::Duration::from_mins(1));
    let now = handbill_pages::ports::clock::Clock::now(&*operated.app.clock);
    operated.app.update(&active, json!({"title": "Later"})).await.expect_status(200);
    listed["since"] = json!(now);
    assert_eq!(slugs(operated.records(listed).await), [active.slug]);
    assert_eq!(operated.records(with("since", json!(now))).await.len(), 1);
    assert_eq!(operated.records(all()).await.len(), 4);
    operated.ask("POST", "/records", with("after", json!("no cursor"))).await.expect(400);
}
