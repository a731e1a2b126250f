//! Hiding pages and showing them again.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use handbill::app::Deps;
use handbill::operators::archive::import::Importer;
use handbill::operators::hiding;
use handbill_core::domain::archive::Entry;
use handbill_core::domain::page::PageHead;
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Hiding, Takedown, TakedownReason};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::{Clock, SharedClock};
use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{Lookup, PageStore, Record};
use handbill_core::ports::random::Random;
use handbill_core::service::Operators;
use handbill_store_redb::{LEDGER_FILE, RedbStore, check};
use serde_json::{Value, json};

use super::Operated;
use crate::contract::disk::Disk;
use crate::in_process::app::Setup;
use crate::in_process::stores::{Calls, Fault, Operation};
use crate::support::calls::Published;
use crate::support::pages::{CREATED, noise, page, with_head};

const DAY: u64 = 24 * 60 * 60;

impl Operated {
    /// Hides pages for a day, and returns the result of each.
    async fn hide(&self, slugs: &[&str]) -> Vec<Value> {
        let body = json!({"slugs": slugs, "reason": "phishing", "by": "desk", "hidden_for_seconds": DAY});
        self.results("/takedown", body).await
    }

    async fn show(&self, slugs: &[&str]) -> Vec<Value> {
        self.results("/show", json!({"slugs": slugs, "by": "chief"})).await
    }

    async fn results(&self, path: &str, body: Value) -> Vec<Value> {
        self.ask("POST", path, body).await.expect(200).json()["results"].as_array().unwrap().clone()
    }
}

fn outcomes(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["outcome"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_hidden_page_is_deleted_to_everybody_and_its_key_opens_nothing() {
    let operated = Operated::start();
    let (page, deleted) = (operated.app.published().await, operated.app.deleted().await);
    assert_eq!(outcomes(&operated.hide(&[&page.slug]).await), ["hidden"]);
    operated.assert_deleted_to_everybody(&page, &deleted).await;
    assert!(matches!(operated.app.stored(&page.slug).await, Lookup::Hidden(_)), "the owner's delete changed nothing");
}

#[tokio::test]
async fn a_page_that_is_shown_again_is_as_it_was_with_its_key() {
    let operated = Operated::start();
    let page = operated.app.publish("A title", "A text.").await;
    operated.app.get(&format!("/{}", page.slug)).await.expect_status(200);
    operated.hide(&[&page.slug]).await;
    operated.app.get(&format!("/{}", page.slug)).await.expect_status(410);
    assert_eq!(outcomes(&operated.show(&[&page.slug]).await), ["shown"]);
    let read = operated.app.read(&page.slug).await;
    read.expect_status(200);
    assert_eq!((read.field("title"), read.field("content")), ("A title".to_owned(), "A text.".to_owned()));
    operated.app.update(&page, json!({"content": "More."})).await.expect_status(200);
    operated.app.delete(&page).await.expect_status(204);
    let Lookup::Deleted(tombstone) = operated.app.stored(&page.slug).await else { panic!("it is deleted") };
    assert_eq!(tombstone.takedown, None, "its owner deleted it");
}

#[tokio::test]
async fn what_is_hidden_shown_deleted_or_was_never_there_is_left_as_it_is() {
    let operated = Operated::start();
    let (page, deleted) = (operated.app.published().await, operated.app.deleted().await);
    let slugs = [page.slug.as_str(), &deleted.slug, "a-page-22222222", "no slug"];
    assert_eq!(outcomes(&operated.show(&slugs).await), ["already_shown", "already_deleted", "not_found", "not_a_slug"]);
    let first = operated.hide(&[&page.slug]).await[0]["hidden_until"].clone();
    operated.app.clock.advance(Duration::from_mins(1));
    let again = operated.hide(&slugs).await;
    assert_eq!(outcomes(&again), ["already_hidden", "already_deleted", "not_found", "not_a_slug"]);
    assert_eq!(again[0]["hidden_until"], first, "the time does not begin again");
    assert_eq!(operated.audit().await.len(), 1, "nothing else was done");
}

#[tokio::test]
async fn the_audit_and_an_inspection_say_who_hid_and_showed_a_page_and_until_when() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    let until = operated.hide(&[&page.slug]).await[0]["hidden_until"].clone();
    assert_eq!(until, operated.app.clock.now().after(Duration::from_secs(DAY)).to_string());
    let inspected = operated.ask("GET", &format!("/inspect/{}?by=desk", page.slug), "").await.expect(200).json();
    assert_eq!((&inspected["state"], &inspected["hidden_until"]), (&json!("hidden"), &until));
    assert_eq!(inspected["takedown"], json!({"reason": "phishing", "by": "desk"}));
    assert_eq!(inspected["title"], json!("Hello, world"), "there is the page");
    operated.show(&[&page.slug]).await;
    let audit = operated.audit().await;
    let entry = |line: &Value| ["number", "action", "slug", "by", "reason"].map(|field| line[field].clone());
    let hidden = [json!(1), json!("hide"), json!(page.slug), json!("desk"), json!("phishing")];
    let inspected = [json!(2), json!("inspect"), json!(page.slug), json!("desk"), json!(null)];
    let shown = [json!(3), json!("show"), json!(page.slug), json!("chief"), json!(null)];
    assert_eq!(audit.iter().map(entry).collect::<Vec<_>>(), [hidden, inspected, shown]);
    assert_eq!(operated.ask("GET", &format!("/inspect/{}?by=desk", page.slug), "").await.json()["state"], "active");
}

#[tokio::test]
async fn a_dry_run_hides_and_shows_nothing() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    let before = operated.app.store.calls();
    let hide = json!({
        "slugs": [page.slug], "reason": "spam", "by": "desk", "dry_run": true, "hidden_for_seconds": DAY,
    });
    let results = operated.results("/takedown", hide).await;
    assert_eq!(results, [json!({"slug": page.slug, "outcome": "would_hide", "title": "Hello, world"})]);
    let Calls { inserts, swaps, .. } = operated.app.store.calls();
    assert_eq!((inserts, swaps, operated.audit().await.len()), (before.inserts, before.swaps, 0));
    operated.hide(&[&page.slug]).await;
    let results = operated.results("/show", json!({"slugs": [page.slug], "by": "desk", "dry_run": true})).await;
    assert_eq!(outcomes(&results), ["would_show"]);
    operated.app.read(&page.slug).await.expect_status(410);
}

#[tokio::test]
async fn an_update_that_comes_between_does_not_save_the_page_from_being_hidden_and_is_not_lost() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    let (app, owner) = (operated.app.clone(), page.clone());
    let update = async move {
        app.update(&owner, json!({"content": "quickly"})).await.expect_status(200);
    };
    operated.app.store.next(Operation::Swap, Fault::Meanwhile(Box::pin(update)));
    assert_eq!(outcomes(&operated.hide(&[&page.slug]).await), ["hidden"]);
    operated.app.read(&page.slug).await.expect_status(410);
    assert_eq!(operated.audit().await.len(), 1);
    operated.show(&[&page.slug]).await;
    assert_eq!(operated.app.read(&page.slug).await.field("content"), "quickly");
}

#[tokio::test]
async fn a_repeat_of_the_create_of_a_hidden_page_is_key_in_use() {
    let operated = Operated::start();
    let key = "hbk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
    let body = json!({"title": "T", "content": "first", "edit_key": key}).to_string();
    let slug = operated.app.create(body.clone()).await.field("slug");
    operated.hide(&[&slug]).await;
    operated.app.create(body.clone()).await.expect_error(400, "key_in_use");
    operated.show(&[&slug]).await;
    assert_eq!(operated.app.create(body).await.field("slug"), slug);
}

#[tokio::test]
async fn a_hidden_page_can_be_taken_down_at_once() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    operated.hide(&[&page.slug]).await;
    assert_eq!(operated.take_down(&[&page.slug]).await, ["taken_down"]);
    assert_eq!(outcomes(&operated.show(&[&page.slug]).await), ["already_deleted"]);
    let actions: Vec<_> = operated.audit().await.iter().map(|line| line["action"].clone()).collect();
    assert_eq!(actions, ["hide", "takedown"]);
}

#[tokio::test]
async fn a_hidden_page_whose_time_is_over_is_taken_down_and_one_that_was_shown_again_is_not() {
    let store = Arc::new(RedbStore::in_memory().unwrap());
    let app = Setup::unlimited().over(Arc::clone(&store) as _).start();
    let clock = Arc::clone(&app.clock) as SharedClock;
    let pages = Arc::clone(&store) as Arc<dyn PageStore>;
    let operators = Operators::new(pages, Arc::clone(&store) as _, Arc::clone(&store) as _, clock, Random::System);
    let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
    let time = Duration::from_secs(DAY);
    let [hidden, shown] = [app.published().await, app.published().await];
    for Published { slug, .. } in [&hidden, &shown] {
        operators.hide(&Slug::parse(slug).unwrap(), Some((&takedown, time)), "desk", false).await.unwrap();
    }
    operators.hide(&Slug::parse(&shown.slug).unwrap(), None, "desk", false).await.unwrap();
    let over = async |now| store.hidden_until(now, 10).await;
    let until = app.clock.now().after(time);

    hiding::take_down(&over, &operators, UnixMillis::new(until.get() - 1)).await.unwrap();
    assert!(matches!(app.stored(&hidden.slug).await, Lookup::Hidden(_)), "it is early");
    hiding::take_down(&over, &operators, until).await.unwrap();
    let Lookup::Deleted(tombstone) = app.stored(&hidden.slug).await else { panic!("it is there") };
    assert_eq!(tombstone.takedown, Some(takedown));
    app.read(&shown.slug).await.expect_status(200);
    assert_eq!(store.hidden_until(UnixMillis::new(i64::MAX), 10).await.unwrap(), []);
}

/// The entries of all records of `store`, as an archive has them.
async fn exported(store: &RedbStore) -> Vec<Entry> {
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    let entry = |record| match record {
        Record::Active(page) => Entry::of(&page),
        Record::Deleted(tombstone) => Entry::Tombstone(tombstone),
    };
    batch.records.into_iter().map(|record| entry(record.unwrap())).collect()
}

#[tokio::test]
async fn an_export_carries_a_hidden_page_and_no_import_shows_it_again() {
    let app = Setup::unlimited().start();
    let renderer = Deps::system().renderer;
    let [from, to] = [RedbStore::in_memory().unwrap(), RedbStore::in_memory().unwrap()].map(Arc::new);
    let importer = Importer { store: Arc::clone(&to) as _, renderer, clock: Arc::clone(&app.clock) as SharedClock };
    let first = page("text");
    let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
    let hiding = Hiding { takedown, until: UnixMillis::new(CREATED + 9) };
    let hidden = with_head(&first, |head| head.turned(Some(hiding), UnixMillis::new(CREATED + 5)));
    let version = hidden.head.version.next().next();
    let later = with_head(&first, |head| PageHead { version, updated_at: UnixMillis::new(CREATED + 6), ..head });
    from.insert_if_absent(Arc::clone(&hidden), None).await.unwrap();
    for entry in exported(&from).await {
        importer.import(entry).await.unwrap();
    }
    let is_hidden = async || match to.lookup(&first.head.slug).await.unwrap() {
        Lookup::Hidden(head) => *head == hidden.head,
        _ => false,
    };
    assert!(is_hidden().await);
    assert_eq!(to.page(&hidden.head).await.unwrap().unwrap().text.content, hidden.text.content);
    for shown in [&first, &*later] {
        importer.import(Entry::of(shown)).await.unwrap();
        assert!(is_hidden().await);
    }
    importer.import(Entry::Tombstone(hidden.head.tombstone(UnixMillis::new(CREATED + 7)))).await.unwrap();
    assert!(matches!(to.lookup(&first.head.slug).await.unwrap(), Lookup::Deleted(_)));
}

#[tokio::test]
async fn a_page_that_was_hidden_or_shown_and_is_not_in_the_ledger_says_so_until_it_is() {
    let data = tempfile::tempdir().unwrap();
    let page = Operated::on(data.path()).app.published().await;
    // Nobody can write a ledger where a directory has its name.
    let ledger = data.path().join(LEDGER_FILE);
    fs::remove_file(&ledger).unwrap();
    fs::create_dir(&ledger).unwrap();
    let operated = Operated::on(data.path());
    for _ in 0..2 {
        assert_eq!(outcomes(&operated.hide(&[&page.slug]).await), ["not_in_ledger"]);
        operated.app.read(&page.slug).await.expect_status(410);
    }
    assert_eq!(outcomes(&operated.show(&[&page.slug]).await), ["not_in_ledger"]);
    operated.app.read(&page.slug).await.expect_status(200);
    fs::remove_dir(&ledger).unwrap();
    assert_eq!(outcomes(&operated.hide(&[&page.slug]).await), ["hidden"]);
    let lines = fs::read_to_string(&ledger).unwrap();
    let line = lines.lines().last().unwrap();
    assert!(line.contains(&page.slug), "{lines}");
    assert!(line.contains("\"hidden\":{\"until_ms\":") && line.contains("\"by\":\"desk\""), "{line}");
    assert_eq!(operated.audit().await.len(), 3);
}

#[tokio::test]
async fn what_a_process_hid_before_it_ended_is_in_the_ledger_of_the_next_also_when_the_ledger_was_lost() {
    let data = tempfile::tempdir().unwrap();
    let operated = Operated::on(data.path());
    let [hidden, shown] = [operated.app.published().await, operated.app.published().await];
    operated.hide(&[&hidden.slug, &shown.slug]).await;
    operated.show(&[&shown.slug]).await;
    drop(operated);
    let ledger = data.path().join(LEDGER_FILE);
    let lines = || fs::read_to_string(&ledger).unwrap();
    assert_eq!(lines().matches("\"visibility\":").count(), 3);
    assert_eq!(check(data.path(), &|_, _| {}).unwrap().faults, [""; 0]);
    let before = lines();
    let without = before.lines().filter(|line| !line.contains(&hidden.slug)).collect::<Vec<_>>().join("\n");
    fs::write(&ledger, without + "\n").unwrap();
    let faults = check(data.path(), &|_, _| {}).unwrap().faults;
    let missing = ["the last hiding or showing of 1 page", "1 line of the audit"];
    assert_eq!(faults, missing.map(|what| format!("the ledger lacks {what}")));

    fs::remove_file(&ledger).unwrap();
    drop(Operated::on(data.path()));
    assert_eq!(lines().matches("\"visibility\":").count(), 2, "the last state of each");
    assert_eq!(lines().matches("\"audit\":").count(), 3);
    assert_eq!(check(data.path(), &|_, _| {}).unwrap().faults, [""; 0]);
}

#[tokio::test]
async fn on_a_full_volume_operators_are_told_that_it_is_full_and_clients_are_not() {
    let disk = Disk::default();
    let operated = Operated::with_store(RedbStore::on(disk.storage()).unwrap());
    let page = operated.app.published().await;
    disk.fill();
    let refused = loop {
        let answer = operated.app.create(json!({"title": "One of many", "content": noise(100_000)}).to_string()).await;
        if answer.status != 201 {
            break answer;
        }
    };
    refused.expect_status(503);
    assert!(!refused.text().contains("reason"), "{}", refused.text());
    let result = operated.hide(&[&page.slug]).await.remove(0);
    assert_eq!(result["outcome"], "failed", "{result}");
    // As the operating system says it, or that what is left is kept for deletions.
    let is_told = |reason| result["message"].as_str().unwrap().contains(reason);
    assert!(
        is_told("The reason: I/O error: no storage space.") || is_told("The reason: the volume is full,"),
        "{result}"
    );
}
