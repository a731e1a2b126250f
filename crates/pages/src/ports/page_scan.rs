//! Reads every record of a store in bounded batches.
//!
//! The contract (`tests/it/contract/`):
//!
//! * A record is the whole state of its slug at some moment during the call.
//! * A whole scan returns each slug that was used before it began exactly once; newer slugs may be missing.
//! * The store holds nothing between batches, so a scan may pause for any time.
//! * A damaged record is an item, and does not end a scan.

use async_trait::async_trait;
use thiserror::Error;

use super::page_store::{Cause, StoreError};
use crate::values::{hex, record::Record};

#[async_trait]
pub trait PageScan: Send + Sync {
    /// Reads after `after` in the store's own order, or from the beginning. A cursor that is not of this store is
    /// [`StoreError::Unavailable`].
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError>;
}

/// A batch, or each range of one, ends with the record that reaches one of these bounds. So a bound of 0 allows one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    pub records: usize,
    /// In memory.
    pub bytes: usize,
}

/// A place between two records, for the store that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor(Vec<u8>);

impl ScanCursor {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    pub fn from_hex(digits: &str) -> Option<Self> {
        hex::decode(digits).map(Self)
    }
}

#[derive(Debug)]
pub struct ScanBatch {
    pub records: Vec<Result<Record, UnreadableRecord>>,
    pub next: Option<ScanCursor>,
}

/// A record that this version of Handbill cannot read.
#[derive(Debug, Error)]
#[error("the record of {name:?} cannot be read")]
pub struct UnreadableRecord {
    /// The slug, unless its bytes are damaged.
    pub name: String,
    #[source]
    pub cause: Cause,
}
