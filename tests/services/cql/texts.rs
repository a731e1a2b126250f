//! Texts beside heads: which are stored, which go, and what a sweep finds.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use handbill_core::domain::page::{HeadChanges, Page};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::domain::title::Title;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::random::Random;
use handbill_store_cql::{CqlStore, SweepPlan, SweepReport, migrate};
use scylla::client::session::Session;

use super::faults::requests_with;
use super::server::{PATIENT, drop_keyspace, fresh_keyspace, migrated_keyspace, proxied, session, settings, store};
use crate::support::pages::{CREATED, edited, page, page_at, slug, with_head};

/// The version and content of each text under `slug`, however it got there.
pub(super) async fn texts(session: &Session, keyspace: &str, slug: &Slug) -> Vec<(i64, String)> {
    let cql = format!("SELECT text_version, content FROM {keyspace}.pages WHERE slug = ?");
    let answer = session.query_unpaged(cql, (slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
    let rows = answer.rows::<(Option<i64>, Option<String>)>().unwrap().map(Result::unwrap);
    rows.filter_map(|(version, content)| Some((version?, content?))).collect()
}

/// Stores a text as a writer with another clock does, or one that dies before it writes the head.
pub(super) async fn insert_text(session: &Session, keyspace: &str, slug: &Slug, content: &str, written_at: i64) {
    let cql = format!(
        "INSERT INTO {keyspace}.pages (slug, text_version, text_nonce, content, html) \
         VALUES (?, 2, 0x00112233445566778899aabbccddeeff, ?, '') USING TIMESTAMP ?"
    );
    session.query_unpaged(cql, (slug.as_str(), content, written_at)).await.unwrap();
}

async fn inserted(store: &CqlStore, content: &str) -> Arc<Page> {
    let page = Arc::new(page(content));
    assert_eq!(store.insert_if_absent(page.clone(), None).await.unwrap(), InsertResult::Inserted);
    page
}

async fn found(store: &CqlStore, slug: &Slug) -> Arc<Page> {
    match store.lookup(slug).await.unwrap() {
        Lookup::Active(page) => page,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_title_leaves_the_text_where_it_is() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let first = inserted(&store, "the text").await;
    for round in 0..3 {
        let page = found(&store, &first.head.slug).await;
        let title = Some(Some(Title::parse(&format!("Title {round}")).unwrap()));
        let next = with_head(&page, |head| head.updated(HeadChanges { title }, UnixMillis::new(CREATED)));
        let swapped = store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap();
        assert_eq!(swapped, CasResult::Swapped);
        assert_eq!(found(&store, &first.head.slug).await, next);
        assert_eq!(texts(&session, keyspace, &first.head.slug).await, [(1, "the text".to_owned())]);
    }
}

#[tokio::test]
async fn a_text_that_was_replaced_is_gone() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let first = inserted(&store, "the old text").await;
    let next = edited(&first, "the new text");
    store.compare_and_set(first.head.version, Record::Active(next), None).await.unwrap();
    assert_eq!(texts(&session, keyspace, &first.head.slug).await, [(2, "the new text".to_owned())]);
}

#[tokio::test]
async fn the_text_of_a_write_that_lost_is_gone() {
    let (session, keyspace) = (session().await, migrated_keyspace().await);
    let (store, other) = (store().await, store().await);
    let first = inserted(&store, "first").await;
    other.head(&first.head.slug).await.unwrap();
    let won = edited(&first, "won");
    store.compare_and_set(first.head.version, Record::Active(won), None).await.unwrap();
    // This store still knows the first head, so its write is refused only by its condition.
    let lost = Record::Active(edited(&first, "lost"));
    assert_eq!(other.compare_and_set(first.head.version, lost, None).await.unwrap(), CasResult::Stale);
    let taken = Arc::new(page_at(first.head.slug.clone(), "taken"));
    assert_eq!(other.insert_if_absent(taken, None).await.unwrap(), InsertResult::SlugTaken);
    assert_eq!(texts(&session, keyspace, &first.head.slug).await, [(2, "won".to_owned())]);
}

#[tokio::test]
async fn no_text_of_a_deleted_page_can_be_read_even_if_it_arrives_late_from_a_clock_that_is_ahead() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let first = inserted(&store, "the text").await;
    let tombstone = first.head.tombstone(UnixMillis::new(CREATED + 5));
    store.compare_and_set(first.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    assert_eq!(texts(&session, keyspace, &first.head.slug).await, []);
    for ahead in [0, Duration::from_mins(1).as_micros(), Duration::from_hours(23).as_micros()] {
        let written_at = CREATED * 1000 + i64::try_from(ahead).unwrap();
        insert_text(&session, keyspace, &first.head.slug, "late", written_at).await;
        assert_eq!(texts(&session, keyspace, &first.head.slug).await, [], "{ahead}");
    }
    assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Lookup::Deleted(tombstone));
}

#[tokio::test]
async fn a_create_that_dies_before_its_head_leaves_the_slug_free() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let slug = slug();
    insert_text(&session, keyspace, &slug, "orphan", CREATED * 1000).await;
    assert_eq!(store.lookup(&slug).await.unwrap(), Lookup::Absent);
    assert_eq!(store.head(&slug).await.unwrap(), Lookup::Absent);
    let page = Arc::new(page_at(slug.clone(), "ours"));
    assert_eq!(store.insert_if_absent(page.clone(), None).await.unwrap(), InsertResult::Inserted);
    assert_eq!(found(&store, &slug).await, page);
}

#[tokio::test]
async fn a_page_whose_text_was_lost_is_unreadable() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let page = inserted(&store, "the text").await;
    let cql = format!("DELETE FROM {keyspace}.pages USING TIMESTAMP ? WHERE slug = ? AND text_version = 1");
    session.query_unpaged(cql, (CREATED * 1000 + 1, page.head.slug.as_str())).await.unwrap();
    let found = store.lookup(&page.head.slug).await;
    assert!(matches!(found, Err(StoreError::Unreadable(_))), "{found:?}");
}

#[tokio::test]
async fn a_text_that_is_replaced_between_the_two_reads_is_read_again_from_the_head() {
    use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule};
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let first = inserted(&other, "first").await;
    let cql = format!("SELECT current_text_nonce FROM {}.pages WHERE slug = ?", migrated_keyspace().await);
    let answer =
        session().await.query_unpaged(cql, (first.head.slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
    let (nonce,) = answer.first_row::<(Vec<u8>,)>().unwrap();
    // Only a read of the text has its nonce.
    let reads_text = requests_with(first.head.slug.as_str())
        .and(Condition::BodyContainsCaseSensitive(nonce.as_slice().into()))
        .and(Condition::TrueForLimitedTimes(1));
    let (tell, mut reading) = tokio::sync::mpsc::unbounded_channel();
    let slow = RequestReaction::delay(Duration::from_millis(500)).with_feedback_when_performed(tell);
    proxied.rules(vec![RequestRule(reads_text, slow)], Vec::new());
    let (store, slug) = (proxied.store.clone(), first.head.slug.clone());
    let lookup = tokio::spawn(async move { store.lookup(&slug).await });
    reading.recv().await.unwrap();
    let next = edited(&first, "next");
    other.compare_and_set(first.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert_eq!(lookup.await.unwrap().unwrap(), Lookup::Active(next));
}

fn plan(dry_run: bool) -> SweepPlan {
    let rows_per_second = NonZero::new(1_000_000).unwrap();
    let now = UnixMillis::new(CREATED + 7 * 24 * 3_600_000);
    SweepPlan { dry_run, min_age: Duration::from_hours(24), rows_per_second, now }
}

#[tokio::test]
async fn a_sweep_deletes_old_texts_that_no_head_points_to_and_nothing_else() {
    let (session, keyspace) = (session().await, fresh_keyspace());
    let settings = settings(&keyspace, &[]);
    migrate(&settings, &Random::System).await.unwrap();
    let store = CqlStore::connect(&settings, PATIENT, Random::System, |_| {}).await.unwrap();
    let kept = inserted(&store, "kept").await;
    let deleted = inserted(&store, "deleted").await;
    let tombstone = deleted.head.tombstone(UnixMillis::new(CREATED + 5));
    store.compare_and_set(deleted.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    let (orphan, young) = (slug(), slug());
    let now = plan(false).now.get() * 1000;
    insert_text(&session, &keyspace, &kept.head.slug, "replaced", CREATED * 1000).await;
    insert_text(&session, &keyspace, &orphan, "orphan", CREATED * 1000).await;
    insert_text(&session, &keyspace, &young, "young", now - 1).await;
    // Its clock was days ahead.
    insert_text(&session, &keyspace, &deleted.head.slug, "late", CREATED * 1000 + 2 * 24 * 3_600_000_000).await;

    // The keys: two of the kept page, one for each other slug.
    let found = SweepReport { read: 5, unnamed: 2, headless: 1, dry_run: true };
    assert_eq!(store.sweep(&keyspace, plan(true), |_, _| {}).await.unwrap(), found);
    assert_eq!(texts(&session, &keyspace, &orphan).await.len(), 1, "nothing was deleted");
    let swept = store.sweep(&keyspace, plan(false), |_, _| {}).await.unwrap();
    assert_eq!(swept, SweepReport { dry_run: false, ..found });
    let again = store.sweep(&keyspace, plan(false), |_, _| {}).await.unwrap();
    assert_eq!((again.unnamed, again.headless), (0, 0));

    assert_eq!(texts(&session, &keyspace, &kept.head.slug).await, [(1, "kept".to_owned())]);
    assert_eq!(texts(&session, &keyspace, &deleted.head.slug).await, []);
    assert_eq!(texts(&session, &keyspace, &orphan).await, []);
    assert_eq!(texts(&session, &keyspace, &young).await.len(), 1, "its head may be on its way");
    assert_eq!(store.lookup(&kept.head.slug).await.unwrap(), Lookup::Active(kept));
    assert_eq!(store.lookup(&deleted.head.slug).await.unwrap(), Lookup::Deleted(tombstone));
    drop_keyspace(&session, &keyspace).await;
}
