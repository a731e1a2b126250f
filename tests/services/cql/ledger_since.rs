//! The entries that are new in the ledger since a time, on a real server: by these a copy goes on from the copy before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use handbill_core::domain::page::{Page, Tombstone};
use handbill_core::domain::takedown::{Hiding, Takedown, TakedownReason};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_scan::ScanLimit;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::random::Random;
use handbill_store_cql::{CqlStore, Scanned, Share, ShareScan};
use scylla::client::session::Session;

use super::server::{PATIENT, change_schema, drop_keyspace, fresh_store};
use crate::support::pages::{CREATED, page, slug, with_head};
use crate::support::scans::all;

const HOUR: i64 = 3_600_000;

/// The clock of a replica that is wrong by so many milliseconds.
struct WrongClock(i64);

impl Clock for WrongClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(SystemClock::wall_time().get() + self.0)
    }

    fn monotonic(&self) -> Duration {
        SystemClock::new().monotonic()
    }
}

/// The store of a replica whose clock is wrong by `hours`.
async fn store_with_clock(session: &Arc<Session>, keyspace: &str, hours: i64) -> CqlStore {
    let store = CqlStore::on(Arc::clone(session), keyspace, Random::System, PATIENT).await.unwrap();
    store.with_clock(Arc::new(WrongClock(hours * HOUR)))
}

async fn inserted(store: &CqlStore) -> Arc<Page> {
    let page = Arc::new(page("a text"));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    page
}

async fn deleted(store: &CqlStore) -> Tombstone {
    let page = inserted(store).await;
    let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 7));
    let swapped = store.compare_and_set(page.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    assert_eq!(swapped, CasResult::Swapped);
    tombstone
}

/// The new entries since `since`, by slug: the time of each deletion, hiding or showing.
async fn new_since(store: &CqlStore, since: UnixMillis) -> BTreeMap<String, UnixMillis> {
    let names = store.ledger_since(since, SystemClock::wall_time()).await.unwrap().expect("this side writes");
    let batch = store.ledger_of(&names).await.unwrap();
    let deletions = batch.records.into_iter().map(|record| match record.unwrap() {
        Record::Deleted(tombstone) => (tombstone.slug.to_string(), tombstone.deleted_at),
        Record::Active(page) => panic!("no page is in the ledger: {page:?}"),
    });
    let turned = batch.visibilities.into_iter().map(|visibility| (visibility.slug.to_string(), visibility.at));
    deletions.chain(turned).collect()
}

fn of(tombstone: &Tombstone) -> (String, UnixMillis) {
    (tombstone.slug.to_string(), tombstone.deleted_at)
}

/// Forgets when the row of `slug` was ended, and the end itself: as if the process had ended before.
async fn forget_the_end(session: &Session, keyspace: &str, slug: &str) {
    let columns = "version, created_at, deleted_at, takedown_reason, takedown_by";
    let forget = format!("DELETE {columns} FROM {keyspace}.deletions WHERE slug = ?");
    session.query_unpaged(forget, (slug,)).await.unwrap();
    change_schema(session, format!("TRUNCATE {keyspace}.deletions_by_time")).await;
}

#[tokio::test]
async fn whatever_was_acknowledged_since_a_copy_is_new_to_the_next_however_long_after_its_own_time() {
    let (store, session, keyspace) = fresh_store().await;
    // It was deleted years ago, but the process ended before it was entered, and nobody was answered.
    let late = deleted(&store).await;
    forget_the_end(&session, &keyspace, late.slug.as_str()).await;
    let since = SystemClock::wall_time();
    assert_eq!(new_since(&store, since).await, BTreeMap::new());

    // Now its owner asks again and is answered; an import brings a deletion of years ago; operators hide a page.
    store.ensure_in_ledger(&Record::Deleted(late.clone())).await.unwrap();
    let imported = Tombstone { slug: slug(), ..late.clone() };
    assert!(store.insert_tombstone_if_absent(imported.clone(), since).await.unwrap());
    let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
    let hiding = Hiding { takedown, until: UnixMillis::new(CREATED + 1_000_000) };
    let seen = inserted(&store).await;
    let hidden = with_head(&seen, |head| head.turned(Some(hiding), UnixMillis::new(CREATED + 5)));
    let turned = store.compare_and_set(seen.head.version, Record::Active(Arc::clone(&hidden)), None).await;
    assert_eq!(turned.unwrap(), CasResult::Swapped);
    let hidden = (hidden.head.slug.to_string(), hidden.head.updated_at);
    let expected = BTreeMap::from([of(&late), of(&imported), hidden]);
    assert_eq!(new_since(&store, since).await, expected);

    // A copy that is begun now goes on from these, and what it reads twice it has twice.
    assert_eq!(new_since(&store, SystemClock::wall_time()).await, expected);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_deletion_is_new_also_if_the_clock_of_its_replica_is_wrong_by_almost_a_day() {
    let (store, session, keyspace) = fresh_store().await;
    let mut expected = BTreeMap::new();
    for hours in [-23, 23] {
        let wrong = store_with_clock(&session, &keyspace, hours).await;
        let since = SystemClock::wall_time();
        expected.extend([of(&deleted(&wrong).await)]);
        assert_eq!(new_since(&store, since).await, expected, "{hours}");
    }
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_deletion_whose_entry_is_still_on_its_way_is_new() {
    let (store, session, keyspace) = fresh_store().await;
    let since = SystemClock::wall_time();
    let deletion = deleted(&store).await;
    // The line is there before the entry.
    let forget = format!("DELETE version, created_at, deleted_at FROM {keyspace}.deletions WHERE slug = ?");
    session.query_unpaged(forget, (deletion.slug.as_str(),)).await.unwrap();
    assert_eq!(new_since(&store, since).await, BTreeMap::from([of(&deletion)]));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn no_deletion_is_entered_or_acknowledged_before_a_later_copy_can_find_it() {
    let (store, session, keyspace) = fresh_store().await;
    let page = inserted(&store).await;
    let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
    change_schema(&session, format!("DROP TABLE {keyspace}.deletions_by_time")).await;
    let next = Record::Deleted(tombstone.clone());
    let answer = store.compare_and_set(page.head.version, next.clone(), None).await;
    assert!(matches!(answer, Err(StoreError::OutcomeUnknown(_))), "{answer:?}");
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Deleted(tombstone.clone()));
    // Otherwise a repeated delete would be answered, and find nothing left to do.
    let repeated = store.ensure_in_ledger(&next).await;
    assert!(matches!(repeated, Err(StoreError::Unavailable(_))), "{repeated:?}");
    let ledger = ShareScan::of(Arc::clone(&store), Share::WHOLE, Scanned::Ledger);
    let found = all(&ledger, ScanLimit::DEFAULT).await;
    assert_eq!(found, BTreeMap::from([(tombstone.slug.to_string(), next)]), "the whole ledger has it by the page");
    let repeated = store.ensure_in_ledger(&Record::Deleted(tombstone)).await;
    assert!(matches!(repeated, Err(StoreError::Unavailable(_))), "reading it has not entered it: {repeated:?}");
    drop_keyspace(&session, &keyspace).await;
}
