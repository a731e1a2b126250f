//! Scans of a keyspace that has parts of records. The rules of all scans are in `tests/it/contract/rules/scan.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{PageStore, Record};

use super::server::{drop_keyspace, fresh_store};
use crate::support::pages::{page, slug};
use crate::support::scans::all;

#[tokio::test]
async fn a_text_without_a_head_is_no_record_and_a_damaged_record_is_named_and_the_scan_goes_on() {
    let (store, session, keyspace) = fresh_store().await;
    let pages = ["first", "damaged", "last"].map(|content| Arc::new(page(content)));
    for page in &pages {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    // A create that died before its head.
    let orphan = format!(
        "INSERT INTO {keyspace}.texts (slug, text_version, text_nonce, content, html) \
         VALUES (?, 1, 0x00112233445566778899aabbccddeeff, 'orphan', '')"
    );
    session.query_unpaged(orphan, (slug().as_str(),)).await.unwrap();
    let mut expected: BTreeMap<_, _> =
        pages.iter().map(|page| (page.head.slug.to_string(), Record::Active(page.clone()))).collect();
    assert_eq!(all(&*store, ScanLimit::DEFAULT).await, expected);
    assert_eq!(store.estimated_records().await.unwrap(), Some(3));

    let damage = format!("UPDATE {keyspace}.pages SET key_hash = 0x00 WHERE slug = ? IF state = 'active'");
    session.query_unpaged(damage, (pages[1].head.slug.as_str(),)).await.unwrap();
    expected.remove(pages[1].head.slug.as_str());
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = batch.records.into_iter().partition(Result::is_ok);
    let good: BTreeMap<_, _> =
        good.into_iter().map(Result::unwrap).map(|record| (record.slug().to_string(), record)).collect();
    assert_eq!(good, expected);
    let names: Vec<_> = bad.into_iter().map(|record| record.unwrap_err().name).collect();
    assert_eq!(names, [pages[1].head.slug.to_string()]);
    drop_keyspace(&session, &keyspace).await;
}
