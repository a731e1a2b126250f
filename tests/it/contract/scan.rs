//! Scans of the embedded store: every record once, in bounded batches, also while pages change.

use std::collections::BTreeMap;
use std::sync::Arc;

use handbill::backends::redb::{RecordCount, RedbStore};
use handbill::domain::page::Page;
use handbill::domain::timestamp::UnixMillis;
use handbill::ports::page_import::PageImport;
use handbill::ports::page_scan::{PageScan, ScanLimit};
use handbill::ports::page_store::{PageStore, Record};

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, page};

/// Batches of at most this many records.
fn of(records: usize) -> ScanLimit {
    ScanLimit { records, ..ScanLimit::DEFAULT }
}

async fn store_of(pages: usize) -> (RedbStore, Vec<Arc<Page>>) {
    let store = RedbStore::in_memory().unwrap();
    let pages: Vec<_> = (0..pages).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    for page in &pages {
        store.insert_if_absent(page.clone()).await.unwrap();
    }
    (store, pages)
}

/// All records, by slug. No slug comes twice.
async fn all(store: &dyn PageScan, limit: ScanLimit) -> BTreeMap<String, Record> {
    let (mut found, mut at) = (BTreeMap::new(), None);
    loop {
        let batch = store.scan(at.as_ref(), limit).await.unwrap();
        assert!(batch.records.len() <= limit.records);
        for record in batch.records {
            let record = record.unwrap();
            assert!(found.insert(record.slug().to_string(), record).is_none());
        }
        at = batch.next;
        if at.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn a_scan_returns_every_record_once_in_batches_of_any_size() {
    let (store, pages) = store_of(23).await;
    let tombstone = pages[7].tombstone(UnixMillis::new(CREATED + 1));
    store.compare_and_set(pages[7].version, Record::Deleted(tombstone.clone())).await.unwrap();
    let mut expected: BTreeMap<_, _> =
        pages.iter().map(|page| (page.slug.to_string(), Record::Active(page.clone()))).collect();
    expected.insert(tombstone.slug.to_string(), Record::Deleted(tombstone));
    for records in [1, 2, 22, 23, 24, 1000] {
        assert_eq!(all(&store, of(records)).await, expected, "{records}");
    }
    assert_eq!(store.estimated_records().await.unwrap(), Some(23));
}

#[tokio::test]
async fn pages_and_tombstones_are_counted_whatever_order_they_came_in() {
    let (store, pages) = store_of(5).await;
    assert_eq!(store.count().await.unwrap(), RecordCount { pages: 5, tombstones: 0 });
    let delete = |page: &Page| {
        let tombstone = page.tombstone(UnixMillis::new(CREATED + 1));
        store.compare_and_set(page.version, Record::Deleted(tombstone))
    };
    for page in [&pages[1], &pages[4], &pages[1]] {
        delete(page).await.unwrap();
    }
    let edited = edited(&pages[0], "edited");
    store.compare_and_set(pages[0].version, Record::Active(edited)).await.unwrap();
    assert_eq!(store.count().await.unwrap(), RecordCount { pages: 3, tombstones: 2 });
    store.insert_tombstone_if_absent(page("elsewhere").tombstone(UnixMillis::new(CREATED + 1))).await.unwrap();
    assert_eq!(store.count().await.unwrap(), RecordCount { pages: 3, tombstones: 3 });
}

#[tokio::test]
async fn an_empty_store_has_nothing_to_scan() {
    let (store, _) = store_of(0).await;
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    assert!(batch.records.is_empty() && batch.next.is_none());
}

#[tokio::test]
async fn a_batch_ends_with_the_record_that_reaches_its_bytes() {
    let (store, _) = store_of(5).await;
    let batch = store.scan(None, ScanLimit { records: 5, bytes: 1 }).await.unwrap();
    assert_eq!(batch.records.len(), 1);
    assert!(batch.next.is_some());
}

#[tokio::test]
async fn pages_that_are_there_all_the_time_are_found_once_however_others_change() {
    let (store, pages) = store_of(40).await;
    let (mut found, mut at) = (Vec::new(), None);
    for round in 0.. {
        let batch = store.scan(at.as_ref(), of(3)).await.unwrap();
        found.extend(batch.records.into_iter().map(|record| record.unwrap().slug().clone()));
        at = batch.next;
        if at.is_none() {
            break;
        }
        store.insert_if_absent(Arc::new(page("new"))).await.unwrap();
        if let Some(changed) = pages.get(round) {
            let next = if round % 2 == 0 {
                Record::Active(edited(changed, "changed"))
            } else {
                Record::Deleted(changed.tombstone(UnixMillis::new(CREATED + 9)))
            };
            store.compare_and_set(changed.version, next).await.unwrap();
        }
    }
    for page in &pages {
        assert_eq!(found.iter().filter(|slug| **slug == page.slug).count(), 1, "{}", page.slug);
    }
}

#[tokio::test]
async fn a_damaged_record_is_named_and_the_scan_goes_on() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let (damaged, whole) = (Arc::new(page("A page that will be damaged.")), Arc::new(page("whole")));
    for page in [&damaged, &whole] {
        store.insert_if_absent(page.clone()).await.unwrap();
    }
    drop(store);
    let mut bytes = disk.bytes();
    let text = damaged.content.as_str().as_bytes();
    for at in 0..bytes.len() - text.len() {
        if bytes[at..].starts_with(text) {
            bytes[at] ^= 1;
        }
    }
    let store = RedbStore::on(Disk::with(bytes).storage()).unwrap();
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = batch.records.into_iter().partition(Result::is_ok);
    assert_eq!(good.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Record::Active(whole)]);
    let names: Vec<_> = bad.into_iter().map(|record| record.unwrap_err().name).collect();
    assert_eq!(names, [damaged.slug.to_string()]);
}
