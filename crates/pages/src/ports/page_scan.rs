//! Reads every record of a store, one bounded batch after another.
//!
//! The contract, which `tests/it/contract/` checks for every backend:
//!
//! * Each record of a batch is complete: it is the state of its slug at some moment during the call.
//! * A scan from the beginning to the end returns each slug that was used before the scan began exactly once. Slugs that
//!   are first used during the scan may be missing.
//! * A batch is bounded in records and bytes, and the store holds nothing between two batches. So a scan may pause for any
//!   time, and a caller bounds its load by pausing.
//! * A damaged record is an item of its own. It ends no scan.

use async_trait::async_trait;
use thiserror::Error;

use super::page_store::{Cause, Record, StoreError};
use crate::values::hex;

/// A store whose records can be read one after another.
#[async_trait]
pub trait PageScan: Send + Sync {
    /// The records after `after`, in the store's own order; with `None`, from the beginning.
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError>;
}

/// The size of one batch. A batch ends with the record that reaches one of the two bounds, so it has at least one record
/// unless the scan has ended. A scan that reads several ranges at once ends each of them so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    /// Maximum number of records.
    pub records: usize,
    /// Bytes of records in memory at which a batch gets no further record.
    pub bytes: usize,
}

impl ScanLimit {
    /// A batch that takes a few milliseconds and a few megabytes.
    pub const DEFAULT: Self = Self { records: 256, bytes: 4 * 1024 * 1024 };
}

/// A place between two records. Only the store that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor(Vec<u8>);

impl ScanCursor {
    /// A cursor that a store reads again as [`ScanCursor::as_bytes`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The store's own description of the place.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The cursor in hexadecimal, for answers and addresses.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// The cursor that [`ScanCursor::to_hex`] wrote; `None` if the text is none.
    pub fn from_hex(digits: &str) -> Option<Self> {
        hex::decode(digits).map(Self)
    }
}

/// Some records, and where to go on.
#[derive(Debug)]
pub struct ScanBatch {
    /// The records, or what stands in the place of a record that cannot be read.
    pub records: Vec<Result<Record, UnreadableRecord>>,
    /// The place where the next batch begins; `None` if the scan has ended.
    pub next: Option<ScanCursor>,
}

/// A record that this version of Handbill cannot read.
#[derive(Debug, Error)]
#[error("the record of {name:?} cannot be read")]
pub struct UnreadableRecord {
    /// The slug, as far as the store has it; its bytes may be what is damaged.
    pub name: String,
    /// The fault.
    #[source]
    pub cause: Cause,
}
