//! Reads everything that a store has.

use std::collections::BTreeMap;

use handbill_pages::ports::page_scan::{PageScan, ScanLimit};
use handbill_pages::values::record::Record;

/// Batches of at most this many records.
pub fn of(records: usize) -> ScanLimit {
    ScanLimit { records, bytes: 4 << 20 }
}

/// All records, by slug. No slug comes twice, and no batch is too long.
pub async fn all(store: &dyn PageScan, limit: ScanLimit) -> BTreeMap<String, Record> {
    all_at_once(store, limit, 1).await
}

/// The same of a scan that reads so many `ranges` at once.
pub async fn all_at_once(store: &dyn PageScan, limit: ScanLimit, ranges: usize) -> BTreeMap<String, Record> {
    let (mut found, mut at) = (BTreeMap::new(), None);
    loop {
        let batch = store.scan(at.as_ref(), limit).await.unwrap();
        assert!(batch.records.len() <= ranges * limit.records && (batch.next.is_none() || !batch.records.is_empty()));
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
