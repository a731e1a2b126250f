//! The rows of the ledger that were ended since a time, for a copy of the ledger that goes on from the copy before it.
//!
//! Each row is ended by one statement at least: the entry of a deletion, or of a hiding or showing. Before it is sent, a quorum has
//! a line with the time and the slug (`deletions_by_time`). So:
//!
//! * An entry that a copy has missed was written after that copy was begun, or was not acknowledged; and its line is later than
//!   the copy, but for the difference of the two clocks.
//! * A line without its entry costs one read: the row says by the page whether it was done, as for a copy of everything.
//!
//! The time is that of the line, never that of the deletion: an import enters deletions of years ago.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use scylla::response::{PagingState, PagingStateResponse};

use super::ledger::add_entry;
use super::permit::Permit;
use super::request_error::unreadable;
use super::ring::RANGES_AT_ONCE;
use super::scan::ended;
use super::store::CqlStore;
use crate::domain::archive::Entry;
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_scan::ScanBatch;
use crate::ports::page_store::StoreError;

const TEN_MINUTES: i64 = 10 * 60 * 1000;

/// In ten minutes: what the clocks of all replicas and of the machine that copies may differ. It is far above what they do, as the
/// shortest age of a sweep is.
const CLOCKS_DIFFER: i64 = 24 * 6;

/// The most rows that are read one by one. Their slugs are held in memory, with about 200 bytes each.
const MOST_ROWS: usize = 500_000;

/// Rows that are read at the same time.
const ROWS_AT_ONCE: usize = 4 * RANGES_AT_ONCE as usize;

fn ten_minutes(at: UnixMillis) -> i64 {
    at.get().div_euclid(TEN_MINUTES)
}

impl CqlStore {
    /// Notes, before the row of `slug` in the ledger is ended, when that is.
    pub(super) async fn note_time(&self, permit: &Permit<'_>, slug: &Slug) -> Result<(), StoreError> {
        let values = (ten_minutes(self.clock.now()), slug.as_str());
        self.write(permit, &self.operated.note_time, values).await
    }

    /// The slugs of all entries of the ledger that were acknowledged between `since` and `now`, and others. `None` if there are too many:
    /// then the whole ledger has to be read.
    pub async fn ledger_since(&self, since: UnixMillis, now: UnixMillis) -> Result<Option<Vec<String>>, StoreError> {
        let times = ten_minutes(since) - CLOCKS_DIFFER..=ten_minutes(now) + CLOCKS_DIFFER;
        let mut reading = stream::iter(times).map(|time| self.ended_in(time)).buffer_unordered(RANGES_AT_ONCE.into());
        let mut names = BTreeSet::new();
        while let Some(found) = reading.try_next().await? {
            names.extend(found);
            if names.len() > MOST_ROWS {
                return Ok(None);
            }
        }
        Ok(Some(names.into_iter().collect()))
    }

    /// The entries of the ledger under `names` as they are now.
    pub async fn ledger_of(&self, names: &[String]) -> Result<ScanBatch, StoreError> {
        let read = async |name: &String| (name.clone(), self.entry_under(name).await);
        let mut batch = ended(Vec::new());
        let mut reading = stream::iter(names).map(read).buffer_unordered(ROWS_AT_ONCE);
        while let Some((name, entry)) = reading.next().await {
            add_entry(&mut batch, name, entry)?;
        }
        Ok(batch)
    }

    /// The slugs of the rows that were ended in these ten minutes.
    async fn ended_in(&self, time: i64) -> Result<Vec<String>, StoreError> {
        let (mut names, mut next) = (Vec::new(), Some(PagingState::start()));
        while let Some(from) = next.take_if(|_| names.len() <= MOST_ROWS) {
            let permit = self.background_permit().await?;
            let request = async || {
                let read = self.session.execute_single_page(&self.operated.read_times, (time,), from.clone());
                let (answer, next) = read.await?;
                let rows = answer.into_rows_result().map_err(unreadable)?;
                let rows = rows.rows::<(String,)>().map_err(unreadable)?;
                Ok((rows.collect::<Result<Vec<_>, _>>().map_err(unreadable)?, next))
            };
            let (rows, after) = self.repeat(&permit, request).await?;
            names.extend(rows.into_iter().map(|(name,)| name));
            if let PagingStateResponse::HasMorePages { state } = after {
                next = Some(state);
            }
        }
        Ok(names)
    }

    /// The entry that the row `name` of the ledger stands for.
    async fn entry_under(&self, name: &str) -> Result<Option<Entry>, StoreError> {
        let Ok(slug) = Slug::parse(name) else { return Ok(None) };
        let permit = self.background_permit().await?;
        let row = self.entry_of(&permit, &slug).await?;
        drop(permit);
        match row {
            Some(row) => self.entry_in(name, &row).await,
            None => Ok(None),
        }
    }
}
