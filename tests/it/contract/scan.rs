//! Scans of a damaged file. The rules of all scans are in `rules/scan.rs`.

use std::sync::Arc;

use handbill::backends::redb::RedbStore;
use handbill::ports::page_scan::{PageScan, ScanLimit};
use handbill::ports::page_store::{PageStore, Record};

use super::disk::Disk;
use crate::support::pages::page;

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
