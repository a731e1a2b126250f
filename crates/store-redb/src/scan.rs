//! [`PageScan`]: batches of records from read transactions, in the order of the slugs.

use std::ops::Bound;

use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTableMetadata};
use thiserror::Error;

use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use crate::ports::page_store::{Cause, Record, StoreError};

use super::reading::on_database;
use super::record;
use super::store::RedbStore;
use super::tables::PAGES;
use super::visibility;

/// A cursor that this store did not make.
#[derive(Debug, Error)]
#[error("the cursor belongs to another store")]
struct ForeignCursorError;

#[async_trait]
impl PageScan for RedbStore {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let after = after.map(key_of).transpose()?;
        self.read_blocking(move |shared| {
            on_database(shared, |database| batch(&database.begin_read()?, after.as_deref(), limit))
        })
        .await
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        let count = |database: &Database| Ok(database.begin_read()?.open_table(PAGES)?.len()?);
        Ok(Some(self.read_blocking(move |shared| on_database(shared, count)).await?))
    }
}

fn key_of(cursor: &ScanCursor) -> Result<String, StoreError> {
    let key = String::from_utf8(cursor.as_bytes().to_vec());
    key.map_err(|_| StoreError::Unavailable(Box::new(ForeignCursorError)))
}

/// The records of `transaction` after the key `after`, within `limit`.
pub(super) fn batch(
    transaction: &ReadTransaction,
    after: Option<&str>,
    limit: ScanLimit,
) -> Result<ScanBatch, redb::Error> {
    let pages = transaction.open_table(PAGES)?;
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut entries = pages.range::<&str>((start, Bound::Unbounded))?;
    let (mut records, mut bytes, mut last) = (Vec::new(), 0, None);
    while records.len() < limit.records && bytes < limit.bytes {
        let Some(entry) = entries.next() else {
            let visibilities = noted(transaction, (start, Bound::Unbounded))?;
            return Ok(ScanBatch { records, visibilities, next: None });
        };
        let (key, value) = entry?;
        let (key, value) = (key.value(), value.value());
        let unreadable = |cause: Cause| UnreadableRecord { name: key.to_owned(), cause };
        let record = match Slug::parse(key) {
            Ok(slug) => record::decode(&slug, value).map_err(|error| unreadable(error.into())),
            Err(error) => Err(unreadable(error.into())),
        };
        // A text may take far more in memory than compressed in the file.
        let text = match &record {
            Ok(Record::Active(page)) => page.text.content.as_str().len() + page.text.html.len(),
            _ => 0,
        };
        bytes += key.len() + value.len() + text;
        records.push(record);
        last = Some(key.to_owned());
    }
    // If the limit allows no record, the scan stays where it is.
    let Some(last) = last else {
        return Ok(ScanBatch { records, visibilities: Vec::new(), next: after.map(ScanCursor::new) });
    };
    let visibilities = noted(transaction, (start, Bound::Included(last.as_str())))?;
    Ok(ScanBatch { records, visibilities, next: Some(ScanCursor::new(last)) })
}

/// The last acts of operators on the pages with slugs in `range`.
fn noted(transaction: &ReadTransaction, range: (Bound<&str>, Bound<&str>)) -> Result<Vec<Visibility>, redb::Error> {
    let noted = visibility::in_range(transaction, range)?;
    Ok(noted.into_iter().flatten().collect())
}
