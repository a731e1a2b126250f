//! The journal and the switch of creates on a real server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill_pages::ports::page_store::{CreatesSwitch, Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_store_scylla::ScyllaStore;
use handbill_test_support::journal::{lines, lines_since};
use handbill_test_support::pages::{CREATED, insert, page, replace};
use scylla::client::session::Session;
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule, example_db_errors};
use tokio::time::Instant;

use super::faults::requests_with;
use super::server::{PATIENT, Proxied, drop_keyspace, fresh_store, migrated_settings, proxied_session, store_in};

async fn inserted(store: &ScyllaStore) -> Arc<Page> {
    let page = Arc::new(page("a text"));
    insert(store, page.clone()).await;
    page
}

/// The journal's lines of `kind`; only they have this word alone.
fn rows_of(page: &Page, kind: &str) -> Condition {
    requests_with(page.head.slug.as_str()).and(requests_with(kind)).and(Condition::not(requests_with("deleted")))
}

async fn put(store: &ScyllaStore, page: &Page, next: Record) {
    let swapped = store.put(Expected::page(&page.head), next, None).await;
    assert_eq!(swapped.unwrap(), PutResult::Done);
}

/// Many delete one page at once. The journal then has the one deletion that was done, also if others of the same version and
/// millisecond were refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_that_was_refused_is_void_and_takes_back_no_other() {
    let (store, session, keyspace) = fresh_store().await;
    for _ in 0..10 {
        let page = inserted(&store).await;
        let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
        let deleting = (0..4).map(|_| {
            let (store, head, next) = (Arc::clone(&store), page.head.clone(), Record::Deleted(tombstone.clone()));
            tokio::spawn(async move { replace(&*store, &head, next).await })
        });
        let done = join_all(deleting).await.into_iter().map(Result::unwrap);
        assert_eq!(done.filter(|done| *done == PutResult::Done).count(), 1);
    }
    assert_eq!(lines(&*store).await.len(), 10);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn nothing_is_deleted_while_the_journal_cannot_be_written() {
    let settings = migrated_settings().await;
    let (session, proxy) = proxied_session(&settings).await;
    let store = store_in(Arc::clone(&session), &settings.keyspace, PATIENT).await;
    let page = inserted(&store).await;
    let mut proxied = Proxied { store: Arc::clone(&store), proxy };
    let refuse = RequestReaction::forge_with_error(example_db_errors::write_failure());
    proxied.rules(vec![RequestRule(rows_of(&page, "delete"), refuse)], Vec::new());
    let deleted = Record::Deleted(page.head.tombstone(UnixMillis::new(CREATED + 5)));
    let refused = store.put(Expected::page(&page.head), deleted.clone(), None).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    proxied.be_honest();
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Active(Arc::clone(&page))));
    put(&store, &page, deleted).await;
    assert_eq!(lines(&*store).await.len(), 1);
    drop_keyspace(&session, &settings.keyspace).await;
    proxied.proxy.finish().await.unwrap();
}

#[tokio::test]
async fn a_line_that_arrives_after_its_act_was_given_up_is_void() {
    let settings = migrated_settings().await;
    let (session, proxy) = proxied_session(&settings).await;
    let store = store_in(Arc::clone(&session), &settings.keyspace, PATIENT).await;
    let page = inserted(&store).await;
    let mut proxied = Proxied { store: Arc::clone(&store), proxy };
    let late = RequestReaction::delay(Duration::from_secs(2));
    proxied.rules(vec![RequestRule(rows_of(&page, "delete"), late)], Vec::new());
    let deleted = Record::Deleted(page.head.tombstone(UnixMillis::new(CREATED + 5)));
    let needed_by = Some(Instant::now() + Duration::from_secs(1));
    let given_up = store.put(Expected::page(&page.head), deleted, needed_by).await;
    assert!(matches!(given_up, Err(StoreError::Unavailable(_))), "{given_up:?}");
    let arrived = format!("SELECT kind FROM {}.journal", settings.keyspace);
    while first_kind(&session, &arrived).await.is_none_or(|kind| kind != "delete") {}
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Active(page)));
    assert_eq!(lines(&*store).await, []);
    drop_keyspace(&session, &settings.keyspace).await;
    proxied.proxy.finish().await.unwrap();
}

async fn first_kind(session: &Session, query: &str) -> Option<String> {
    let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
    rows.maybe_first_row::<(Option<String>,)>().unwrap()?.0
}

#[tokio::test]
async fn a_line_that_a_crash_left_open_is_in_an_export_if_its_act_was_done() {
    let (store, session, keyspace) = fresh_store().await;
    let (page, other) = (inserted(&store).await, inserted(&store).await);
    let day = UnixMillis::parse("2026-11-20T00:00:00.000Z").unwrap();
    for page in [&page, &other] {
        let columns = "(day, shard, at, slug, id, kind, version)";
        let values = format!("('2026-11-20', 3, {}, '{}', 0x01, 'delete', 2)", day.get() + 5, page.head.slug);
        let insert = format!("INSERT INTO {keyspace}.journal {columns} VALUES {values}");
        session.query_unpaged(insert, ()).await.unwrap();
    }
    assert_eq!(lines(&*store).await, []);
    put(&store, &page, Record::Deleted(page.head.tombstone(day))).await;
    let slugs = async |since| {
        let lines = lines_since(&*store, since).await;
        lines.into_iter().map(|line| line.slug).collect::<Vec<_>>()
    };
    assert_eq!(slugs(None).await, vec![page.head.slug.to_string(); 2]);
    assert_eq!(slugs(Some(day)).await.len(), 2, "its own day counts");
    assert_eq!(slugs(Some(UnixMillis::new(day.get() + 86_400_000))).await.len(), 1, "the deletion has today's line");
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn the_switch_is_what_was_saved_last_by_any_process() {
    let (store, session, keyspace) = fresh_store().await;
    let other = store_in(session.clone(), &keyspace, PATIENT).await;
    assert!(!store.paused().await.unwrap());
    for (writing, reading, paused) in [(&store, &other, true), (&other, &store, true), (&store, &other, false)] {
        writing.set_paused(paused).await.unwrap();
        assert_eq!(reading.paused().await.unwrap(), paused);
    }
    drop_keyspace(&session, &keyspace).await;
}
