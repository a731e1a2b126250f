//! The ledger of deletions and the switch of creates on a real server, also after processes that ended in the
//! middle.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use handbill_core::domain::page::{Page, Tombstone};
use handbill_core::domain::takedown::{Takedown, TakedownReason, Visibility};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::random::Random;
use handbill_core::service::{ActOutcome, Found, Operators};
use handbill_store_cql::{CqlStore, Scanned, Share, ShareScan};
use scylla::value::CqlTimestamp;

use super::server::{PATIENT, change_schema, drop_keyspace, fresh_store, store_in};
use crate::support::pages::{CREATED, page, with_head};
use crate::support::scans::{all, all_at_once, of};

async fn inserted(store: &CqlStore) -> Arc<Page> {
    let page = Arc::new(page("a text"));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    page
}

fn takedown() -> Takedown {
    Takedown::new(TakedownReason::Phishing, "abuse desk").unwrap()
}

async fn taken_down(store: &CqlStore) -> Tombstone {
    let page = inserted(store).await;
    let tombstone = page.head.taken_down(takedown(), UnixMillis::new(CREATED + 5));
    let swapped = store.compare_and_set(page.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    assert_eq!(swapped, CasResult::Swapped);
    tombstone
}

#[tokio::test]
async fn a_page_whose_text_is_missing_is_inspected_and_taken_down() {
    let (store, session, keyspace) = fresh_store().await;
    let page = inserted(&store).await;
    let slug = &page.head.slug;
    let forget = format!("DELETE FROM {keyspace}.texts USING TIMESTAMP ? WHERE slug = ?");
    session.query_unpaged(forget, (i64::MAX, slug.as_str())).await.unwrap();
    assert!(matches!(store.lookup(slug).await, Err(StoreError::Unreadable(_))));

    let operators = Operators::new(Arc::clone(&store) as _, Arc::new(SystemClock::new()), Random::System);
    let found = operators.inspect(slug).await.unwrap();
    assert!(matches!(&found, Found::Unreadable(Some(head), _) if head.version == page.head.version), "{found:?}");
    let outcome = operators.take_down(slug, &takedown()).await.unwrap();
    assert!(matches!(outcome, ActOutcome::Done(Record::Deleted(_))), "{outcome:?}");
    let Lookup::Deleted(tombstone) = store.lookup(slug).await.unwrap() else { panic!("it is deleted") };
    assert_eq!((tombstone.created_at, tombstone.version), (page.head.created_at, page.head.version.next()));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn every_deletion_is_in_the_ledger_even_if_its_process_ended_before_it_was_entered() {
    let (store, session, keyspace) = fresh_store().await;
    let ledger = ShareScan::of(store.clone(), Share::WHOLE, Scanned::Ledger);
    let taken = taken_down(&store).await;
    let page = inserted(&store).await;
    let deleted = page.head.tombstone(UnixMillis::new(CREATED + 7));
    store.compare_and_set(page.head.version, Record::Deleted(deleted.clone()), None).await.unwrap();
    let expected = [taken, deleted.clone()].map(|tombstone| (tombstone.slug.to_string(), Record::Deleted(tombstone)));
    for records in [1, 2, 100] {
        let found = all_at_once(&ledger, of(records), 8).await;
        assert_eq!(found, expected.clone().into(), "{records}");
    }

    // As if the process had ended after the page's head was written.
    let forget = format!(
        "DELETE version, created_at, deleted_at, takedown_reason, takedown_by FROM {keyspace}.deletions WHERE slug = ?"
    );
    session.query_unpaged(forget, (deleted.slug.as_str(),)).await.unwrap();
    // As if one had ended before that: the page is there.
    let there = inserted(&store).await;
    let begin = format!("INSERT INTO {keyspace}.deletions (slug, begun_at) VALUES (?, 0)");
    session.query_unpaged(begin, (there.head.slug.as_str(),)).await.unwrap();
    assert_eq!(all(&ledger, ScanLimit::DEFAULT).await, expected.clone().into());
    let kept = format!("SELECT deleted_at FROM {keyspace}.deletions WHERE slug = ?");
    let answer = session.query_unpaged(kept, (deleted.slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
    let (at,) = answer.single_row::<(Option<CqlTimestamp>,)>().unwrap();
    assert_eq!(at, Some(CqlTimestamp(deleted.deleted_at.get())), "it was entered when it was found");

    // A restore takes the pages back in time, and not the ledger.
    change_schema(&session, format!("TRUNCATE {keyspace}.pages")).await;
    assert_eq!(all(&ledger, ScanLimit::DEFAULT).await, expected.into());
    assert!(all(&*store, ScanLimit::DEFAULT).await.is_empty());
    drop_keyspace(&session, &keyspace).await;
}

pub(super) fn hiding() -> Takedown {
    Takedown::new(TakedownReason::Spam, "desk").unwrap()
}

/// Hides `page` at a time, or shows it again.
pub(super) async fn turn(store: &CqlStore, page: &Page, hidden: Option<Takedown>, millis: i64) -> Arc<Page> {
    let next = with_head(page, |head| head.turned(hidden, UnixMillis::new(CREATED + millis)));
    let swapped = store.compare_and_set(page.head.version, Record::Active(Arc::clone(&next)), None).await;
    assert_eq!(swapped.unwrap(), CasResult::Swapped);
    next
}

/// All that `ledger` says of hidden pages, by slug.
async fn visibilities(ledger: &ShareScan) -> BTreeMap<String, Visibility> {
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let batch = ledger.scan(after.as_ref(), of(2)).await.unwrap();
        found.extend(batch.visibilities.into_iter().map(|noted| (noted.slug.to_string(), noted)));
        after = batch.next;
        if after.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn the_ledger_has_every_page_that_was_hidden_or_shown_also_if_its_process_ended_before_it_was_entered() {
    let (store, session, keyspace) = fresh_store().await;
    let ledger = ShareScan::of(Arc::clone(&store), Share::WHOLE, Scanned::Ledger);
    let [hidden, shown, never] = [inserted(&store).await, inserted(&store).await, inserted(&store).await];
    let hidden = turn(&store, &hidden, Some(hiding()), 5).await;
    let was_hidden = turn(&store, &shown, Some(hiding()), 5).await;
    let shown = turn(&store, &was_hidden, None, 7).await;
    let expected: BTreeMap<_, _> =
        [&hidden, &shown].map(|page| (page.head.slug.to_string(), page.head.visibility())).into();
    assert_eq!(visibilities(&ledger).await, expected);

    // As if the processes had ended after the heads were written, and one before that.
    let forget = format!("DELETE visibility FROM {keyspace}.deletions USING TIMESTAMP ? WHERE slug = ?");
    for page in [&hidden, &shown] {
        let micros = page.head.updated_at.get() * 1000;
        session.query_unpaged(forget.clone(), (micros, page.head.slug.as_str())).await.unwrap();
    }
    let again = format!(
        "INSERT INTO {keyspace}.deletions (slug, visibility) VALUES (?, (?, 'spam', 'desk')) USING TIMESTAMP ?"
    );
    let at = was_hidden.head.updated_at;
    // The cell of the earlier hiding, which a tombstone of the database covers in this test.
    let values = (shown.head.slug.as_str(), CqlTimestamp(at.get()), at.get() * 1000 + 2001);
    session.query_unpaged(again, values).await.unwrap();
    let begin = format!("INSERT INTO {keyspace}.deletions (slug, turning_at) VALUES (?, 9)");
    session.query_unpaged(begin, (never.head.slug.as_str(),)).await.unwrap();
    let found = visibilities(&ledger).await;
    assert_eq!(found.get(hidden.head.slug.as_str()), expected.get(hidden.head.slug.as_str()));
    assert_eq!(found.get(shown.head.slug.as_str()), expected.get(shown.head.slug.as_str()));
    assert_eq!(found.get(never.head.slug.as_str()), None);

    // A restore takes the pages back in time, and not the ledger; what is deleted is not hidden.
    let tombstone = hidden.head.tombstone(UnixMillis::new(CREATED + 9));
    store.compare_and_set(hidden.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    change_schema(&session, format!("TRUNCATE {keyspace}.pages")).await;
    assert_eq!(visibilities(&ledger).await.into_keys().collect::<Vec<_>>(), [shown.head.slug.to_string()]);
    let expected = [(tombstone.slug.to_string(), Record::Deleted(tombstone))];
    assert_eq!(all(&ledger, ScanLimit::DEFAULT).await, expected.into());
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_page_that_both_sides_of_a_forced_move_changed_is_hidden_to_the_ledger_until_an_operator_shows_it() {
    let (store, session, keyspace) = fresh_store().await;
    let page = inserted(&store).await;
    let hidden = turn(&store, &page, Some(hiding()), 5).await;
    // The other side's edit won, since it is later.
    let other = store_in(Arc::clone(&session), &keyspace, PATIENT).await;
    change_schema(&session, format!("TRUNCATE {keyspace}.pages")).await;
    let edited = with_head(&page, |head| head.turned(None, UnixMillis::new(CREATED + 9)));
    other.insert_if_absent(edited, None).await.unwrap();
    let ledger = ShareScan::of(Arc::clone(&other), Share::WHOLE, Scanned::Ledger);
    assert_eq!(visibilities(&ledger).await.into_values().collect::<Vec<_>>(), [hidden.head.visibility()]);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn the_switch_is_what_was_saved_last_by_any_process_and_open_before() {
    let (store, session, keyspace) = fresh_store().await;
    let other = store_in(session.clone(), &keyspace, PATIENT).await;
    assert!(!store.paused().await.unwrap());
    for (writing, reading, paused) in [(&store, &other, true), (&other, &store, true), (&store, &other, false)] {
        writing.set_paused(paused).await.unwrap();
        assert_eq!(reading.paused().await.unwrap(), paused);
    }
    join_all((0..10).map(|number| store.set_paused(number % 2 == 0))).await.into_iter().for_each(Result::unwrap);
    let read = format!("SELECT revision FROM {keyspace}.creates WHERE component = 'handbill'");
    let answer = session.query_unpaged(read, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(answer.single_row::<(i64,)>().unwrap(), (13,), "no change was lost");
    drop_keyspace(&session, &keyspace).await;
}
