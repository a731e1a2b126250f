//! Exports and imports over the operators' API (contract, decision 18).

use handbill_pages::values::archive::{ArchivedPage, Encoder, record_line};
use handbill_pages::values::content::Content;
use handbill_pages::values::head::PageHead;
use handbill_pages::values::record::Record;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_test_support::pages::{CREATED, replace, with_head};
use serde_json::{Value, json};

use super::Operated;
use crate::in_process::app::Published;
use crate::in_process::stores::{Fault, Operation};

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
        archive_of(&self.records(all()).await)
    }

    async fn import(&self, archive: &str) -> Value {
        self.ask("POST", "/import", archive).await.expect(200).json()
    }
}

fn archive_of(lines: &[String]) -> String {
    let (mut encoder, mut archive) = Encoder::begin(UnixMillis::new(CREATED), "test".to_owned());
    for line in lines {
        encoder.line(line);
        archive.push_str(line);
    }
    archive + &encoder.end()
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
        ("{\"slug\":\"x\"}\n", 0, 0, "not a Handbill export"),
        ("", 0, 0, "not a Handbill export"),
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

/// Another state of `page` with its version, written later: another text, and hidden or not.
fn later_state(page: Option<Record>, hiding: Option<Takedown>) -> Record<ArchivedPage> {
    let Some(Record::Active(page) | Record::Hidden(page, _)) = page else { panic!("it is there") };
    let at = UnixMillis::new(page.head.changed_at.get() + 60_000);
    let head = PageHead { updated_at: at, changed_at: at, ..page.head.clone() };
    let archived = ArchivedPage { head, content: Content::parse("imported").unwrap() };
    match hiding {
        Some(takedown) => Record::Hidden(archived, takedown),
        None => Record::Active(archived),
    }
}

fn described(found: Option<Record>) -> String {
    let record = found.expect("no slug becomes free again");
    let by = if let Record::Hidden(_, takedown) = &record { format!(" by {}", takedown.by) } else { String::new() };
    let page = record.page().map(|page| (page.head.state.details.title().unwrap(), page.text.content.as_str()));
    let page = page.map(|(title, text)| format!(" {title}: {text}")).unwrap_or_default();
    format!("{}{by}{page}", record.name())
}

#[tokio::test]
async fn an_import_of_the_same_version_beside_a_change_is_not_overwritten_and_stays_hidden() {
    for (change, is_hidden, answer, found) in [
        ("edit", false, "200", "active New: imported"),
        ("edit", true, "410", "hidden by elsewhere Old: imported"),
        ("delete", false, "204", "deleted"),
        ("delete", true, "410", "hidden by elsewhere Old: imported"),
        ("hide", false, "hidden", "hidden by desk Old: imported"),
        ("hide", true, "already_hidden", "hidden by elsewhere Old: imported"),
        ("show", true, "shown", "active Old: imported"),
    ] {
        let operated = Operated::start();
        let page = operated.app.publish("Old", "first").await;
        let hide =
            async || operated.results("/hide", json!({"pages": [page.slug], "reason": "spam", "by": "desk"})).await;
        if change == "show" {
            hide().await;
        }
        let hiding = is_hidden.then(|| Takedown::new(TakedownReason::Spam, "elsewhere").unwrap());
        let archive = archive_of(&[record_line(&later_state(operated.app.stored(&page.slug).await, hiding))]);
        let (beside, slug) = (operated.clone(), page.slug.clone());
        let import = async move {
            assert_eq!(beside.import(&archive).await["pages"], 1);
            beside.app.read(&slug).await.expect_status(if is_hidden { 410 } else { 200 });
        };
        operated.app.store.next(Operation::Swap, Fault::Meanwhile(Box::pin(import)));
        let answered = match change {
            "edit" => operated.app.update(&page, json!({"title": "New"})).await.status.to_string(),
            "delete" => operated.app.delete(&page).await.status.to_string(),
            "hide" => hide().await[0]["outcome"].as_str().unwrap().to_owned(),
            _ => {
                let shown = operated.results("/show", json!({"pages": [page.slug], "by": "desk"})).await;
                shown[0]["outcome"].as_str().unwrap().to_owned()
            }
        };
        let stored = described(operated.app.stored(&page.slug).await);
        assert_eq!((answered.as_str(), stored.as_str()), (answer, found), "{change}, {is_hidden}");
    }
}

#[tokio::test]
async fn members_that_are_not_known_survive_writes_an_export_and_an_import() {
    let (from, to) = (Operated::start(), Operated::start());
    let page = from.app.publish("A title", "A text.").await;
    let Some(Record::Active(stored)) = from.app.stored(&page.slug).await else { panic!("it is there") };
    let later = with_head(&stored, |mut head| {
        head.unknown.insert("pinned".to_owned(), json!({"until": 1}));
        head.state.details.unknown.insert("series".to_owned(), json!(["a", null]));
        head
    });
    replace(&*from.app.store, &stored.head, Record::Active(later)).await;
    for (operated, title) in [(&from, "Here"), (&to, "There")] {
        if title == "There" {
            to.import(&from.archive().await).await;
        }
        operated.app.update(&page, json!({"title": title})).await.expect_status(200);
        operated.app.update(&page, json!({"content": "Another text."})).await.expect_status(200);
        operated.results("/hide", json!({"pages": [page.slug], "reason": "spam", "by": "desk"})).await;
        operated.results("/show", json!({"pages": [page.slug], "by": "desk"})).await;
        let head = operated.inspect(&page.slug).await;
        assert_eq!(head["details"], json!({"title": title, "series": ["a", null]}));
        assert_eq!(head["pinned"], json!({"until": 1}));
    }
    to.app.delete(&page).await.expect_status(204);
    let Some(Record::Deleted(tombstone)) = to.app.stored(&page.slug).await else { panic!("it is deleted") };
    assert!(tombstone.unknown.is_empty(), "nothing of a deleted page stays");
}
