//! Scans of a damaged file. The rules of all scans are in `rules/scan.rs`.

use std::sync::Arc;

use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{PageStore, Record};
use handbill_store_redb::{RecordCount, RedbStore};

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, page};

/// Store with `pages` pages.
async fn store_of(pages: usize) -> (RedbStore, Vec<Arc<Page>>) {
    let store = RedbStore::in_memory().unwrap();
    let pages: Vec<_> = (0..pages).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    for page in &pages {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    (store, pages)
}

#[tokio::test]
async fn a_batch_is_bounded_by_what_its_records_take_in_memory_and_not_compressed_in_the_file() {
    let store = RedbStore::in_memory().unwrap();
    for _ in 0..20 {
        store.insert_if_absent(Arc::new(page(&"x".repeat(100_000))), None).await.unwrap();
    }
    let batch = store.scan(None, ScanLimit { records: 20, bytes: 1024 * 1024 }).await.unwrap();
    // Source and HTML of each.
    assert_eq!(batch.records.len(), 6);
}

#[tokio::test]
async fn pages_and_tombstones_are_counted_whatever_order_they_came_in() {
    let (store, pages) = store_of(5).await;
    assert_eq!(store.count().await.unwrap(), RecordCount { pages: 5, tombstones: 0 });
    let delete = |page: &Page| {
        let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 1));
        store.compare_and_set(page.head.version, Record::Deleted(tombstone), None)
    };
    for page in [&pages[1], &pages[4], &pages[1]] {
        delete(page).await.unwrap();
    }
    let edited = edited(&pages[0], "edited");
    store.compare_and_set(pages[0].head.version, Record::Active(edited), None).await.unwrap();
    assert_eq!(store.count().await.unwrap(), RecordCount { pages: 3, tombstones: 2 });
    let elsewhere = page("elsewhere").head.tombstone(UnixMillis::new(CREATED + 1));
    store.insert_tombstone_if_absent(elsewhere, UnixMillis::new(CREATED + 1)).await.unwrap();
    assert_eq!(store.count().await.unwrap(), RecordCount { pages: 3, tombstones: 3 });
}

#[tokio::test]
async fn a_damaged_record_is_named_and_the_scan_goes_on() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let (damaged, whole) = (Arc::new(page("A page that will be damaged.")), Arc::new(page("whole")));
    for page in [&damaged, &whole] {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    drop(store);
    let mut bytes = disk.bytes();
    let text = damaged.text.content.as_str().as_bytes();
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
    assert_eq!(names, [damaged.head.slug.to_string()]);
}
