//! Scans of a keyspace, and tombstones that come from another store.

use std::collections::BTreeMap;
use std::sync::Arc;

use handbill::backends::cql::{CqlStore, migrate};
use handbill::domain::page::Page;
use handbill::domain::timestamp::UnixMillis;
use handbill::ports::page_import::PageImport;
use handbill::ports::page_scan::{PageScan, ScanLimit};
use handbill::ports::page_store::{InsertResult, Lookup, PageStore, Record};
use handbill::ports::random::Random;
use scylla::client::session::Session;

use super::server::{PATIENT, drop_keyspace, fresh_keyspace, session, settings, store};
use crate::support::pages::{CREATED, edited, page, slug};

/// Batches of at most this many records.
fn of(records: usize) -> ScanLimit {
    ScanLimit { records, ..ScanLimit::DEFAULT }
}

/// A store in a keyspace of its own.
pub(super) async fn fresh_store() -> (Arc<CqlStore>, Arc<Session>, String) {
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    migrate(&settings, &Random::System).await.unwrap();
    let store = CqlStore::connect(&settings, PATIENT, Random::System, |_| {}).await.unwrap();
    (Arc::new(store), session().await, keyspace)
}

async fn filled(store: &CqlStore, pages: usize) -> Vec<Arc<Page>> {
    let pages: Vec<_> = (0..pages).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    for page in &pages {
        store.insert_if_absent(page.clone()).await.unwrap();
    }
    pages
}

/// All records, by slug. No slug comes twice.
pub(super) async fn all(store: &dyn PageScan, limit: ScanLimit) -> BTreeMap<String, Record> {
    let (mut found, mut at) = (BTreeMap::new(), None);
    loop {
        let batch = store.scan(at.as_ref(), limit).await.unwrap();
        assert!(batch.records.len() <= limit.records && (batch.next.is_none() || !batch.records.is_empty()));
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
async fn a_scan_returns_every_record_once_in_batches_of_any_size_and_a_damaged_one_by_its_name() {
    let (store, session, keyspace) = fresh_store().await;
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    assert!(batch.records.is_empty() && batch.next.is_none(), "an empty keyspace has nothing to scan");

    let pages = filled(&store, 23).await;
    let tombstone = pages[7].tombstone(UnixMillis::new(CREATED + 1));
    store.compare_and_set(pages[7].version, Record::Deleted(tombstone.clone())).await.unwrap();
    // A create that died before its head is no record.
    let orphan = format!(
        "INSERT INTO {keyspace}.pages (slug, text_version, text_nonce, content, html, text_renderer_version) \
         VALUES (?, 1, 0x00112233445566778899aabbccddeeff, 'orphan', '', 1)"
    );
    session.query_unpaged(orphan, (slug().as_str(),)).await.unwrap();
    let mut expected: BTreeMap<_, _> =
        pages.iter().map(|page| (page.slug.to_string(), Record::Active(page.clone()))).collect();
    expected.insert(tombstone.slug.to_string(), Record::Deleted(tombstone));
    for records in [1, 2, 22, 23, 24, 1000] {
        assert_eq!(all(&*store, of(records)).await, expected, "{records}");
    }
    let few_bytes = store.scan(None, ScanLimit { records: 5, bytes: 1 }).await.unwrap();
    assert_eq!(few_bytes.records.len(), 1, "a batch ends with the record that reaches its bytes");
    assert!(few_bytes.next.is_some());
    // The orphan is counted too.
    assert_eq!(store.estimated_records().await.unwrap(), Some(24));

    let damage = format!("UPDATE {keyspace}.pages SET key_hash = 0x00 WHERE slug = ? IF state = 'active'");
    session.query_unpaged(damage, (pages[3].slug.as_str(),)).await.unwrap();
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    let names: Vec<_> = batch.records.into_iter().filter_map(|record| Some(record.err()?.name)).collect();
    assert_eq!(names, [pages[3].slug.to_string()]);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn pages_that_are_there_all_the_time_are_found_once_however_others_change() {
    let (store, session, keyspace) = fresh_store().await;
    let pages = filled(&store, 40).await;
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
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_tombstone_of_another_store_takes_a_free_slug_and_no_other() {
    let store = store().await;
    let gone = page("gone").tombstone(UnixMillis::new(CREATED + 5));
    let import = async |tombstone| store.insert_tombstone_if_absent(tombstone).await.unwrap();
    assert_eq!(import(gone.clone()).await, InsertResult::Inserted);
    assert_eq!(store.lookup(&gone.slug).await.unwrap(), Lookup::Deleted(gone.clone()));
    assert_eq!(import(gone).await, InsertResult::SlugTaken);

    let page = Arc::new(page("there"));
    store.insert_if_absent(page.clone()).await.unwrap();
    assert_eq!(import(page.tombstone(UnixMillis::new(CREATED + 5))).await, InsertResult::SlugTaken);
    assert_eq!(store.lookup(&page.slug).await.unwrap(), Lookup::Active(page));
}
