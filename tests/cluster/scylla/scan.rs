//! Scans of a keyspace with damaged rows, and of several ranges. The rules of all scans are in `tests/it/contract/rules/scan.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use handbill_pages::ports::page_scan::PageScan;
use handbill_pages::ports::page_store::{PageStore, StoreError};
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_store_scylla::{Limits, ScyllaStore};
use handbill_test_support::pages::{insert, page};
use handbill_test_support::scans::{all_at_once, of};

use super::server::{PATIENT, drop_keyspace, fresh_store, store_in};

async fn filled(store: &ScyllaStore, count: usize) -> BTreeMap<String, Record> {
    let mut records = BTreeMap::new();
    for number in 0..count {
        let page = Arc::new(page(&format!("page {number}")));
        insert(store, page.clone()).await;
        records.insert(page.head.slug.to_string(), Record::Active(page));
    }
    records
}

#[tokio::test]
async fn a_damaged_record_is_named_and_the_scan_goes_on() {
    let (store, session, keyspace) = fresh_store().await;
    let mut expected = filled(&store, 4).await;
    let names: Vec<_> = expected.keys().cloned().collect();
    // A head that is none, and a text that cannot be unpacked.
    let damaged = &names[1..3];
    for (name, damage) in damaged.iter().zip(["head = (1, '{}')", "text = (1, 0x01)"]) {
        let cql = format!("UPDATE {keyspace}.pages SET {damage} WHERE slug = ? IF revision = 1");
        session.query_unpaged(cql, (name,)).await.unwrap();
        let found = store.lookup(&Slug::parse(name).unwrap()).await;
        assert!(matches!(found, Err(StoreError::Unreadable(_))), "{found:?}");
        expected.remove(name);
    }
    let batch = store.scan(None, of(256)).await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = batch.records.into_iter().partition(Result::is_ok);
    let good: BTreeMap<_, _> =
        good.into_iter().map(Result::unwrap).map(|record| (record.slug().to_string(), record)).collect();
    assert_eq!(good, expected);
    let mut found_damaged: Vec<_> = bad.into_iter().map(|record| record.unwrap_err().name).collect();
    found_damaged.sort();
    assert_eq!(found_damaged, damaged);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn several_ranges_at_once_have_each_record_once() {
    let (store, session, keyspace) = fresh_store().await;
    let expected = filled(&store, 40).await;
    let command = store_in(Arc::clone(&session), &keyspace, Limits { ranges: 8, ..PATIENT }).await;
    for records in [1, 3, 100] {
        let found = all_at_once(&*command, of(records), 8).await;
        assert_eq!(found, expected, "{records}");
    }
    drop_keyspace(&session, &keyspace).await;
}
