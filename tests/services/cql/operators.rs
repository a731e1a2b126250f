//! The ledger of deletions, the audit and the switch of creates on a real server, also after processes that ended in the
//! middle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use handbill_core::domain::audit::{AuditAction, AuditEntry};
use handbill_core::domain::creates::Creates;
use handbill_core::domain::page::{Page, Tombstone};
use handbill_core::domain::takedown::{Hiding, Takedown, TakedownReason, Visibility};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::audit_log::AuditLog;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::random::Random;
use handbill_core::service::{ActOutcome, Found, Operators};
use handbill_store_cql::{CqlStore, Scanned, Share, ShareScan};
use scylla::client::session::Session;
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

fn entry_of(tombstone: &Tombstone) -> AuditEntry {
    let action = AuditAction::Takedown { slug: tombstone.slug.clone(), reason: TakedownReason::Phishing };
    AuditEntry { at: tombstone.deleted_at, by: "abuse desk".to_owned(), action }
}

async fn audit(store: &CqlStore) -> Vec<(u64, AuditEntry)> {
    store.list(0, 1000).await.unwrap().into_iter().map(|entry| (entry.number, entry.entry)).collect()
}

/// The ids of takedowns that are under way.
async fn begun(session: &Session, keyspace: &str) -> Vec<Vec<u8>> {
    let cql = format!("SELECT id FROM {keyspace}.takedowns_begun WHERE component = 'handbill'");
    let rows = session.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap();
    rows.rows::<(Vec<u8>,)>().unwrap().map(|row| row.unwrap().0).collect()
}

async fn begin(session: &Session, keyspace: &str, id: &[u8], tombstone: &Tombstone) {
    let cql = format!(
        "INSERT INTO {keyspace}.takedowns_begun (component, id, done_at, done_by, slug, reason, audit_after) \
         VALUES ('handbill', ?, ?, 'abuse desk', ?, 'phishing', 0)"
    );
    let at = CqlTimestamp(tombstone.deleted_at.get());
    session.query_unpaged(cql, (id, at, tombstone.slug.as_str())).await.unwrap();
}

#[tokio::test]
async fn a_takedown_is_in_the_audit_once_wherever_its_process_ended() {
    let (store, session, keyspace) = fresh_store().await;
    let (first, second) = (taken_down(&store).await, taken_down(&store).await);
    let both = [(1, entry_of(&first)), (2, entry_of(&second))];
    assert_eq!(audit(&store).await, both);
    assert!(begun(&session, &keyspace).await.is_empty(), "nothing is under way");

    let read_id = format!("SELECT id FROM {keyspace}.audit WHERE bucket = 0 AND number = 2");
    let answer = session.query_unpaged(read_id, ()).await.unwrap().into_rows_result().unwrap();
    let (id,) = answer.single_row::<(Vec<u8>,)>().unwrap();
    // As if the process had ended before it removed its note.
    begin(&session, &keyspace, &id, &second).await;
    assert_eq!(audit(&store).await, both);
    assert!(begun(&session, &keyspace).await.is_empty());

    // As if it had ended before it wrote the entry.
    let forget = format!("DELETE FROM {keyspace}.audit WHERE bucket = 0 AND number = 2 IF EXISTS");
    session.query_unpaged(forget, ()).await.unwrap();
    begin(&session, &keyspace, &id, &second).await;
    assert_eq!(audit(&store).await, both);
    assert_eq!(audit(&store).await, both, "a second look adds nothing");

    // As if it had ended before it wrote the page's head: nothing was done, and the note stays for an hour.
    let page = inserted(&store).await;
    let now = SystemClock::new().now();
    let undone = Tombstone { deleted_at: now, ..page.head.taken_down(takedown(), now) };
    begin(&session, &keyspace, &[9; 16], &undone).await;
    assert_eq!(audit(&store).await, both);
    assert_eq!(begun(&session, &keyspace).await, [[9; 16]]);
    let long_ago = Tombstone { deleted_at: UnixMillis::new(now.get() - 2 * 3_600_000), ..undone };
    begin(&session, &keyspace, &[9; 16], &long_ago).await;
    assert_eq!(audit(&store).await, both);
    assert!(begun(&session, &keyspace).await.is_empty());
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_page_whose_text_is_missing_is_inspected_and_taken_down() {
    let (store, session, keyspace) = fresh_store().await;
    let page = inserted(&store).await;
    let slug = &page.head.slug;
    let forget = format!("DELETE FROM {keyspace}.texts USING TIMESTAMP ? WHERE slug = ?");
    session.query_unpaged(forget, (i64::MAX, slug.as_str())).await.unwrap();
    assert!(matches!(store.lookup(slug).await, Err(StoreError::Unreadable(_))));

    let (pages, log, scan) = (Arc::clone(&store) as _, Arc::clone(&store) as _, Arc::clone(&store) as _);
    let operators = Operators::new(pages, log, scan, Arc::new(SystemClock::new()), Random::System);
    let found = operators.inspect(slug).await.unwrap();
    assert!(matches!(&found, Found::Unreadable(Some(head), _) if head.version == page.head.version), "{found:?}");
    let outcome = operators.take_down(slug, &takedown(), false).await.unwrap();
    assert!(matches!(outcome, ActOutcome::Done(Record::Deleted(_), None)), "{outcome:?}");
    let Lookup::Deleted(tombstone) = store.lookup(slug).await.unwrap() else { panic!("it is deleted") };
    assert_eq!((tombstone.created_at, tombstone.version), (page.head.created_at, page.head.version.next()));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn entries_of_several_processes_have_numbers_without_gaps() {
    let (store, session, keyspace) = fresh_store().await;
    let other = store_in(session.clone(), &keyspace, PATIENT).await;
    let entry = |number: usize| AuditEntry {
        at: UnixMillis::new(CREATED),
        by: format!("desk {number}"),
        action: AuditAction::Creates { paused: number.is_multiple_of(2), hourly_budget: None },
    };
    let appending = (0..40).map(|number| {
        let store = if number % 2 == 0 { store.clone() } else { other.clone() };
        async move { store.append(entry(number)).await.unwrap() }
    });
    join_all(appending).await;
    let listed = audit(&store).await;
    assert_eq!(listed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    let names: BTreeSet<_> = listed.iter().map(|(_, entry)| entry.by.clone()).collect();
    assert_eq!(names, (0..40).map(|number| format!("desk {number}")).collect());
    let page: Vec<_> = other.list(37, 2).await.unwrap().into_iter().map(|entry| entry.number).collect();
    assert_eq!(page, [38, 39]);
    assert!(store.list(40, 1000).await.unwrap().is_empty() && store.list(u64::MAX, 1).await.unwrap().is_empty());
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_long_audit_is_listed_across_its_partitions_and_goes_on_at_its_end() {
    let (store, session, keyspace) = fresh_store().await;
    let fill = format!(
        "INSERT INTO {keyspace}.audit (bucket, number, id, done_at, done_by, action, paused) \
         VALUES (?, ?, 0x00, 0, 'desk', 'creates', true)"
    );
    // The whole first partition, and the beginning of the second. Only the ends of it matter here.
    for number in (1..=3_i64).chain(9_999..=10_002) {
        session.query_unpaged(fill.as_str(), ((number - 1) / 10_000, number)).await.unwrap();
    }
    let entry = AuditEntry {
        at: UnixMillis::new(CREATED),
        by: "desk".to_owned(),
        action: AuditAction::Creates { paused: false, hourly_budget: Some(7) },
    };
    store.append(entry.clone()).await.unwrap();
    let listed: Vec<_> = store.list(9_998, 10).await.unwrap().into_iter().map(|entry| entry.number).collect();
    assert_eq!(listed, [9_999, 10_000, 10_001, 10_002, 10_003]);
    assert_eq!(store.list(10_002, 1).await.unwrap()[0].entry, entry);
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

pub(super) fn hiding() -> Hiding {
    Hiding {
        takedown: Takedown::new(TakedownReason::Spam, "desk").unwrap(),
        until: UnixMillis::new(CREATED + 1_000_000),
    }
}

/// Hides `page` at a time, or shows it again.
pub(super) async fn turn(store: &CqlStore, page: &Page, hidden: Option<Hiding>, millis: i64) -> Arc<Page> {
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
        "INSERT INTO {keyspace}.deletions (slug, visibility) VALUES (?, (?, ?, 'spam', 'desk')) USING TIMESTAMP ?"
    );
    let (at, until) = (was_hidden.head.updated_at, hiding().until);
    // The cell of the earlier hiding, which a tombstone of the database covers in this test.
    let values = (shown.head.slug.as_str(), CqlTimestamp(at.get()), CqlTimestamp(until.get()), at.get() * 1000 + 2001);
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
async fn a_page_is_hidden_for_good_only_once_the_ledger_says_so() {
    let (store, session, keyspace) = fresh_store().await;
    let page = inserted(&store).await;
    change_schema(&session, format!("ALTER TABLE {keyspace}.deletions DROP visibility")).await;
    // The server drops values of the column that are older than its removal.
    let next = with_head(&page, |head| head.turned(Some(hiding()), UnixMillis::new(2 * CREATED)));
    let record = Record::Active(Arc::clone(&next));
    let hidden = store.compare_and_set(page.head.version, record.clone(), None).await;
    assert!(matches!(hidden, Err(StoreError::OutcomeUnknown(_))), "{hidden:?}");
    assert!(matches!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Hidden(_)));
    let completed = store.ensure_in_ledger(&record).await;
    assert!(matches!(completed, Err(StoreError::Unavailable(_))), "{completed:?}");
    let column = "visibility frozen<tuple<timestamp, timestamp, text, text>>";
    change_schema(&session, format!("ALTER TABLE {keyspace}.deletions ADD {column}")).await;
    store.ensure_in_ledger(&record).await.unwrap();
    assert_eq!(store.visibility(&page.head.slug).await.unwrap(), Some(next.head.visibility()));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn the_switch_is_what_was_saved_last_by_any_process_and_open_before() {
    let (store, session, keyspace) = fresh_store().await;
    let other = store_in(session.clone(), &keyspace, PATIENT).await;
    assert_eq!(store.load().await.unwrap(), Creates::default());
    for (number, creates) in [
        Creates { paused: true, hourly_budget: Some(7) },
        Creates { paused: true, hourly_budget: None },
        Creates { paused: false, hourly_budget: Some(1_000_000) },
    ]
    .into_iter()
    .enumerate()
    {
        let (writing, reading) = if number % 2 == 0 { (&*store, &*other) } else { (&*other, &*store) };
        writing.save(creates).await.unwrap();
        assert_eq!(reading.load().await.unwrap(), creates);
    }
    let paused = |paused| Creates { paused, hourly_budget: Some(3) };
    join_all((0..10).map(|number| store.save(paused(number % 2 == 0)))).await.into_iter().for_each(Result::unwrap);
    let read = format!("SELECT revision FROM {keyspace}.creates WHERE component = 'handbill'");
    let answer = session.query_unpaged(read, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(answer.single_row::<(i64,)>().unwrap(), (13,), "no change was lost");

    let senseless = format!("UPDATE {keyspace}.creates SET hourly_budget = -1 WHERE component = 'handbill' IF EXISTS");
    session.query_unpaged(senseless, ()).await.unwrap();
    let error = store.load().await.unwrap_err();
    assert!(matches!(&error, StoreError::Unreadable(_)), "{error}");
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_deletion_is_confirmed_only_once_it_is_in_the_ledger() {
    let (store, session, keyspace) = fresh_store().await;
    let page = inserted(&store).await;
    let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
    // Only the entry has this column, not the note before the head is written.
    change_schema(&session, format!("ALTER TABLE {keyspace}.deletions DROP deleted_at")).await;
    let deleted = store.compare_and_set(page.head.version, Record::Deleted(tombstone.clone()), None).await;
    assert!(matches!(deleted, Err(StoreError::OutcomeUnknown(_))), "{deleted:?}");
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Deleted(tombstone.clone()));
    let completed = store.ensure_in_ledger(&Record::Deleted(tombstone.clone())).await;
    assert!(matches!(completed, Err(StoreError::Unavailable(_))), "{completed:?}");
    change_schema(&session, format!("ALTER TABLE {keyspace}.deletions ADD deleted_at timestamp")).await;
    store.ensure_in_ledger(&Record::Deleted(tombstone.clone())).await.unwrap();
    // A restore takes the pages back in time, and not the ledger.
    change_schema(&session, format!("TRUNCATE {keyspace}.pages")).await;
    let expected = [(tombstone.slug.to_string(), Record::Deleted(tombstone))];
    assert_eq!(all(&ShareScan::of(store, Share::WHOLE, Scanned::Ledger), ScanLimit::DEFAULT).await, expected.into());
    drop_keyspace(&session, &keyspace).await;
}
