//! Texts beside heads: which are stored, which go, and what a sweep finds.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use handbill_core::domain::page::{HeadChanges, Page};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, TakedownReason};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::domain::title::Title;
use handbill_core::ports::clock::Clock;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::random::Random;
use handbill_store_cql::{CqlStore, Share, SweepPlan, SweepReport, migrate};
use scylla::client::session::Session;
use scylla::value::CqlTimestamp;

use super::faults::requests_with;
use super::server::{
    PATIENT, drop_keyspace, fresh_keyspace, fresh_store, migrated_keyspace, proxied, session, settings, store, store_in,
};
use crate::support::pages::{CREATED, edited, page, page_at, slug, with_head};

/// The version and content of each text under `slug`, however it got there.
pub(super) async fn texts(session: &Session, keyspace: &str, slug: &Slug) -> Vec<(i64, String)> {
    let cql = format!("SELECT text_version, content FROM {keyspace}.texts WHERE slug = ?");
    let answer = session.query_unpaged(cql, (slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
    answer.rows::<(i64, String)>().unwrap().map(Result::unwrap).collect()
}

/// Stores a text as a writer with another clock does, or one that dies before it writes the head. It is inserted at the time
/// of its page.
pub(super) async fn insert_text(session: &Session, keyspace: &str, slug: &Slug, content: &str, written_at: i64) {
    insert_text_at(session, keyspace, slug, content, written_at, written_at / 1000).await;
}

/// The same at `inserted_at`, in milliseconds.
async fn insert_text_at(
    session: &Session,
    keyspace: &str,
    slug: &Slug,
    content: &str,
    written_at: i64,
    inserted_at: i64,
) {
    let cql = format!(
        "INSERT INTO {keyspace}.texts (slug, text_version, text_nonce, content, html, inserted_at) \
         VALUES (?, 2, 0x00112233445566778899aabbccddeeff, ?, '', ?) USING TIMESTAMP ?"
    );
    session.query_unpaged(cql, (slug.as_str(), content, CqlTimestamp(inserted_at), written_at)).await.unwrap();
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
    store.compare_and_set(first.head.version, Record::Active(won.clone()), None).await.unwrap();
    // This store still knows the first head, so its write is refused only by its condition.
    let lost = Record::Active(edited(&first, "lost"));
    assert_eq!(other.compare_and_set(first.head.version, lost, None).await.unwrap(), CasResult::Stale);
    let taken = Arc::new(page_at(first.head.slug.clone(), "taken"));
    assert_eq!(other.insert_if_absent(taken, None).await.unwrap(), InsertResult::SlugTaken(Record::Active(won)));
    assert_eq!(texts(&session, keyspace, &first.head.slug).await, [(2, "won".to_owned())]);
}

#[tokio::test]
async fn no_text_of_a_deleted_page_can_be_read_and_one_that_arrives_late_from_a_clock_that_is_ahead_is_swept() {
    let (store, session, keyspace) = fresh_store().await;
    let first = inserted(&store, "the text").await;
    let tombstone = first.head.tombstone(UnixMillis::new(CREATED + 5));
    store.compare_and_set(first.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    assert_eq!(texts(&session, &keyspace, &first.head.slug).await, []);
    insert_text(&session, &keyspace, &first.head.slug, "late", CREATED * 1000).await;
    assert_eq!(texts(&session, &keyspace, &first.head.slug).await, [], "it is older than the deletion");
    let ahead = i64::try_from(Duration::from_hours(23).as_micros()).unwrap();
    insert_text(&session, &keyspace, &first.head.slug, "late", CREATED * 1000 + ahead).await;
    assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Lookup::Deleted(tombstone));
    store.sweep(&keyspace, plan(false), |_, _| {}).await.unwrap();
    assert_eq!(texts(&session, &keyspace, &first.head.slug).await, []);
    drop_keyspace(&session, &keyspace).await;
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
    let cql = format!("DELETE FROM {keyspace}.texts USING TIMESTAMP ? WHERE slug = ? AND text_version = 1");
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
    SweepPlan { dry_run, min_age: Duration::from_hours(24), share: Share::WHOLE, rows_per_second, now }
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

    // The keys: three of the kept page, two of the deleted one, one of each text without a head.
    let found = SweepReport { read: 7, unnamed: 2, headless: 1, dry_run: true, ..SweepReport::default() };
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

#[tokio::test]
async fn a_sweep_leaves_a_hidden_page_its_text() {
    let (session, keyspace) = (session().await, fresh_keyspace());
    let settings = settings(&keyspace, &[]);
    migrate(&settings, &Random::System).await.unwrap();
    let store = CqlStore::connect(&settings, PATIENT, Random::System, |_| {}).await.unwrap();
    let page = inserted(&store, "text").await;
    let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
    let hidden = with_head(&page, |head| head.turned(Some(takedown), UnixMillis::new(CREATED + 5)));
    store.compare_and_set(page.head.version, Record::Active(hidden.clone()), None).await.unwrap();
    let swept = store.sweep(&keyspace, plan(false), |_, _| {}).await.unwrap();
    assert_eq!(swept, SweepReport { read: 2, ..SweepReport::default() });
    assert_eq!(store.page(&hidden.head).await.unwrap(), Some(hidden), "it can be shown again");
    drop_keyspace(&session, &keyspace).await;
}

/// An import writes pages of years ago. Their texts stand there before their heads, and are as young as the import.
#[tokio::test]
async fn a_sweep_beside_an_import_leaves_the_texts_whose_heads_are_on_their_way() {
    let (store, session, keyspace) = fresh_store().await;
    let day = 24 * 3_600_000;
    let (now, of_the_page) = (plan(false).now.get(), (CREATED - 90 * day) * 1000);
    let (on_its_way, forgotten) = (slug(), slug());
    insert_text_at(&session, &keyspace, &on_its_way, "imported", of_the_page, now - 1).await;
    insert_text_at(&session, &keyspace, &forgotten, "of an import that died", of_the_page, now - 2 * day).await;
    let swept = store.sweep(&keyspace, plan(false), |_, _| {}).await.unwrap();
    assert_eq!((swept.read, swept.headless), (2, 1));
    assert_eq!(texts(&session, &keyspace, &on_its_way).await.len(), 1);
    assert_eq!(texts(&session, &keyspace, &forgotten).await, []);
    drop_keyspace(&session, &keyspace).await;
}

/// The time of a clock that stands still.
const STOPPED_AT: i64 = CREATED + 90 * 24 * 3_600_000;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(STOPPED_AT)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// The time of insertion is the writer's, whatever the page's own times are.
#[tokio::test]
async fn a_text_says_when_it_was_inserted() {
    let (session, keyspace) = (session().await, migrated_keyspace().await);
    let store = store_in(Arc::clone(&session), keyspace, PATIENT).await;
    let clock = Arc::new(StoppedClock);
    let Ok(store) = Arc::try_unwrap(store) else { panic!("nobody else has it") };
    let page = inserted(&store.with_clock(clock), "the text").await;
    let cql = format!("SELECT inserted_at FROM {keyspace}.texts WHERE slug = ?");
    let answer = session.query_unpaged(cql, (page.head.slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
    let (CqlTimestamp(inserted_at),) = answer.single_row::<(CqlTimestamp,)>().unwrap();
    assert_eq!(inserted_at, STOPPED_AT);
}

/// The time of a clock that is six minutes on at each look.
struct LeapingClock(AtomicI64);

impl Clock for LeapingClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(CREATED + self.0.fetch_add(360_000, Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A machine may stand still between the two writes, and its monotonic clock with it.
#[tokio::test]
async fn a_writer_that_stood_still_for_half_of_the_shortest_age_points_to_no_text_that_a_sweep_may_have_deleted() {
    let (session, keyspace) = (session().await, migrated_keyspace().await);
    let Ok(store) = Arc::try_unwrap(store_in(session, keyspace, PATIENT).await) else { panic!("nobody else has it") };
    let leaping = store.with_clock(Arc::new(LeapingClock(AtomicI64::new(0))));
    let page = Arc::new(page("the text"));
    let created = leaping.insert_if_absent(Arc::clone(&page), None).await;
    assert!(matches!(created, Err(StoreError::Unavailable(_))), "{created:?}");
    assert_eq!(leaping.lookup(&page.head.slug).await.unwrap(), Lookup::Absent);
    let steady = leaping.with_clock(Arc::new(StoppedClock));
    assert_eq!(steady.insert_if_absent(Arc::clone(&page), None).await.unwrap(), InsertResult::Inserted);
    let leaping = steady.with_clock(Arc::new(LeapingClock(AtomicI64::new(0))));
    let next = Record::Active(edited(&page, "next"));
    let edited = leaping.compare_and_set(page.head.version, next, None).await;
    assert!(matches!(edited, Err(StoreError::Unavailable(_))), "{edited:?}");
    assert_eq!(leaping.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
}
