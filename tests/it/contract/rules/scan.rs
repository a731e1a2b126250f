//! The contract of `PageScan`: every record once, in bounded batches, also while pages change. Also that of `PageStore`.

use std::collections::BTreeMap;
use std::sync::Arc;

use handbill_pages::ports::page_scan::{ScanCursor, ScanLimit};
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::head::{PageHead, PageVersion};
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_test_support::pages::{CREATED, edited, insert, page, replace, turned, with_head};
use handbill_test_support::scans::{all, of};

use super::super::backends::{empty_stores, stores};
use super::Started;

async fn filled(store: &dyn PageStore, pages: usize) -> Vec<Arc<Page>> {
    let pages: Vec<_> = (0..pages).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    for page in &pages {
        insert(store, page.clone()).await;
    }
    pages
}

#[tokio::test]
async fn a_scan_returns_every_record_once_in_batches_of_any_size() {
    for Started { name, backend: store, _beside } in empty_stores().await {
        let batch = store.scan(None, of(256)).await.unwrap();
        assert!(batch.records.is_empty() && batch.next.is_none(), "{name}: an empty store has nothing to scan");

        let pages = filled(&*store, 23).await;
        let tombstone = pages[7].head.tombstone(UnixMillis::new(CREATED + 1));
        replace(&*store, &pages[7].head, Record::Deleted(tombstone.clone())).await;
        let mut expected: BTreeMap<_, _> =
            pages.iter().map(|page| (page.head.slug.to_string(), Record::Active(page.clone()))).collect();
        expected.insert(tombstone.slug.to_string(), Record::Deleted(tombstone));
        let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
        let hidden = turned(&pages[8], Some(takedown), 1);
        replace(&*store, &pages[8].head, hidden.clone()).await;
        expected.insert(hidden.slug().to_string(), hidden);
        for records in [1, 2, 22, 23, 24, 1000] {
            assert_eq!(all(&*store, of(records)).await, expected, "{name}: {records}");
        }

        for (records, bytes) in [(5, 1), (5, 0), (0, 5), (0, 0)] {
            let batch = store.scan(None, ScanLimit { records, bytes }).await.unwrap();
            assert_eq!(batch.records.len(), 1, "{name}: a batch ends with the record that reaches its bounds");
            assert!(batch.next.is_some(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_cursor_of_another_store_is_refused() {
    let scylla = [&[0xff][..], &7_i64.to_be_bytes(), &9_i64.to_be_bytes()].concat();
    let cursors =
        [("SQLite", b"a-long-slug-that-ends-b-22222222".to_vec()), ("scylla", scylla), ("no store", Vec::new())];
    for Started { name, backend: store, _beside } in stores().await {
        assert!(cursors.iter().any(|(owner, _)| *owner == name), "give the other stores a cursor of {name}");
        for (owner, cursor) in &cursors {
            let scanned = store.scan(Some(&ScanCursor::new(cursor.clone())), of(256)).await;
            let is_refused = matches!(scanned, Err(StoreError::Unavailable(_)));
            assert_eq!(is_refused, *owner != name, "{name}: {owner}");
        }
    }
}

#[tokio::test]
async fn pages_that_stay_are_found_once_however_others_change() {
    for Started { name, backend: store, _beside } in stores().await {
        let pages = filled(&*store, 40).await;
        let (mut found, mut at) = (Vec::new(), None);
        for round in 0.. {
            let batch = store.scan(at.as_ref(), of(3)).await.unwrap();
            found.extend(batch.records.into_iter().map(|record| record.unwrap().slug().clone()));
            at = batch.next;
            if at.is_none() {
                break;
            }
            insert(&*store, Arc::new(page("new"))).await;
            if let Some(changed) = pages.get(round) {
                let next = if round % 2 == 0 {
                    Record::Active(edited(changed, "changed"))
                } else {
                    Record::Deleted(changed.head.tombstone(UnixMillis::new(CREATED + 9)))
                };
                replace(&*store, &changed.head, next).await;
            }
        }
        for page in &pages {
            let times = found.iter().filter(|slug| **slug == page.head.slug).count();
            assert_eq!(times, 1, "{name}: {}", page.head.slug);
        }
    }
}

#[tokio::test]
async fn a_tombstone_of_another_store_takes_a_free_slug_and_no_other() {
    for Started { name, backend: store, _beside } in stores().await {
        let gone = page("gone").head.tombstone(UnixMillis::new(CREATED + 5));
        let import = async |tombstone| store.put(Expected::Absent, Record::Deleted(tombstone), None).await.unwrap();
        assert_eq!(import(gone.clone()).await, PutResult::Done, "{name}");
        assert_eq!(store.lookup(&gone.slug).await.unwrap(), Some(Record::Deleted(gone.clone())), "{name}");
        assert_eq!(import(gone).await, PutResult::Refused, "{name}");

        let page = Arc::new(page("there"));
        insert(&*store, page.clone()).await;
        let late = page.head.tombstone(UnixMillis::new(CREATED + 5));
        assert_eq!(import(late).await, PutResult::Refused, "{name}");
        assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Active(page)), "{name}");
    }
}

#[tokio::test]
async fn a_write_replaces_only_the_state_it_was_compared_with() {
    for Started { name, backend: store, _beside } in stores().await {
        let there = Arc::new(page("there"));
        let at = |seconds: i64, content: &str| {
            let updated_at = UnixMillis::new(CREATED + 1000 * seconds);
            with_head(&edited(&there, content), |head| PageHead {
                version: there.head.version,
                updated_at,
                changed_at: updated_at,
                ..head
            })
        };
        let (early, late) = (at(1, "early"), at(2, "late"));
        let tombstone = there.head.tombstone(UnixMillis::new(CREATED + 3000));
        insert(&*store, there.clone()).await;
        let stored = replace(&*store, &there.head, Record::Active(late.clone())).await;
        assert_eq!(stored, PutResult::Done, "{name}");
        let hidden = turned(&there, Some(Takedown::new(TakedownReason::Spam, "desk").unwrap()), 9);
        for record in [Record::Active(early), hidden, Record::Deleted(tombstone.clone())] {
            assert_eq!(replace(&*store, &there.head, record).await, PutResult::Refused, "{name}");
        }
        assert_eq!(store.lookup(&late.head.slug).await.unwrap(), Some(Record::Active(late.clone())), "{name}");

        let newer = with_head(&late, |head| PageHead { version: PageVersion::try_from(9_u64).unwrap(), ..head });
        let stored = replace(&*store, &late.head, Record::Active(newer.clone())).await;
        assert_eq!(stored, PutResult::Done, "{name}: versions may be skipped");
        assert_eq!(store.lookup(&late.head.slug).await.unwrap(), Some(Record::Active(newer.clone())), "{name}");
        let deleted = Record::Deleted(tombstone.clone());
        assert_eq!(replace(&*store, &newer.head, deleted).await, PutResult::Done, "{name}");
        let again = Record::Active(newer.clone());
        assert_eq!(replace(&*store, &newer.head, again).await, PutResult::Refused, "{name}");
        assert_eq!(store.lookup(&late.head.slug).await.unwrap(), Some(Record::Deleted(tombstone)), "{name}");
    }
}
