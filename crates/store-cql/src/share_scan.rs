//! Every record of a share of the ring, for commands that run for days: they read a batch from several ranges at once, and their cursor
//! has what is left of each.
//!
//! A command waits for a database that does not answer, and then goes on where it was. If the nodes answer that they cannot read a range,
//! it reads the halves apart, and so on: a partition that no node can read is left out by its token, and all others are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::ring::{RANGES_AT_ONCE, REPEAT_PAUSE, Share, Tokens};
use super::scan::{cursor_at, ended, ranges_of};
use super::session::is_read_failure;
use super::store::CqlStore;
use crate::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use crate::ports::page_store::{Cause, StoreError};

/// How often a command asks a database again that does not answer.
const MOST_REPEATS: u32 = 300;

/// How often a command halves a range that the nodes cannot read: 63 times for each partition that is damaged. With more of them,
/// somebody has to look at the nodes.
const MOST_HALVED: u32 = 6400;

/// The table of a share that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    Pages,
    Ledger,
}

/// A share of the ring, for a command that runs for days: it reads several ranges at once, waits for a database that does not answer,
/// and then goes on where it was. A partition that no node can read is left out, as a record that cannot be read.
pub struct ShareScan {
    store: Arc<CqlStore>,
    share: Share,
    scanned: Scanned,
    halved: AtomicU32,
}

impl ShareScan {
    pub fn of(store: Arc<CqlStore>, share: Share, scanned: Scanned) -> Self {
        Self { store, share, scanned, halved: AtomicU32::new(0) }
    }

    /// Some records of one range.
    async fn batch_of(&self, tokens: Tokens, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let mut repeats = 0;
        loop {
            let batch = match self.scanned {
                Scanned::Pages => self.store.pages_between(tokens, limit).await,
                Scanned::Ledger => self.store.ledger_between(tokens, limit).await,
            };
            match batch {
                Err(StoreError::Unavailable(cause))
                    if is_read_failure(&*cause) && self.halved.fetch_add(1, Ordering::Relaxed) < MOST_HALVED =>
                {
                    return Ok(halved(tokens, cause));
                }
                Err(error @ StoreError::Unavailable(_)) if repeats < MOST_REPEATS => {
                    if repeats == 0 {
                        tracing::warn!(%error, "the database does not answer: it is asked again for some minutes");
                    }
                    repeats += 1;
                    sleep(REPEAT_PAUSE).await;
                }
                batch => return batch,
            }
        }
    }
}

#[async_trait]
impl PageScan for ShareScan {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let mut ranges = after.map_or_else(|| Ok(self.share.ranges()), ranges_of)?;
        let mut batch = ended(Vec::new());
        while !ranges.is_empty() && batch.records.is_empty() && batch.visibilities.is_empty() {
            let later = ranges.split_off(ranges.len().min(RANGES_AT_ONCE.into()));
            let read = try_join_all(ranges.iter().map(|&tokens| self.batch_of(tokens, limit))).await?;
            ranges.clear();
            for ScanBatch { records, visibilities, next } in read {
                batch.records.extend(records);
                batch.visibilities.extend(visibilities);
                ranges.extend(next.as_ref().map(ranges_of).transpose()?.into_iter().flatten());
            }
            ranges.extend(later);
        }
        batch.next = (!ranges.is_empty()).then(|| cursor_at(&ranges));
        Ok(batch)
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        let Self { store, share, scanned, .. } = self;
        Ok(match scanned {
            Scanned::Pages => store.estimated_records().await?.map(|all| share.of_all(all)),
            Scanned::Ledger => None,
        })
    }
}

/// The batch of a range that the nodes cannot read because of `cause`: its halves are next, and a single token is left out.
fn halved((after, until): Tokens, cause: Cause) -> ScanBatch {
    if after.abs_diff(until) == 1 {
        return ended(vec![Err(UnreadableRecord { name: format!("token {until}"), cause })]);
    }
    let middle = i64::midpoint(after, until);
    ScanBatch { next: Some(cursor_at(&[(after, middle), (middle, until)])), ..ended(Vec::new()) }
}
