//! The journal: a row for each deletion, takedown, hiding and showing, partitioned by day and shard (contract, decision
//! 18).
//!
//! The row is written after its act's condition was found true, and before the act. A refused act makes it void. It has
//! the id of its write, so it affects no other writer's act.

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt};
use handbill_pages::ports::operated_store::{Journal, OperatedStore};
use handbill_pages::ports::page_store::{Cause, StoreError};
use handbill_pages::values::hex;
use handbill_pages::values::journal::{Kind, Line};
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::timestamp::UnixMillis;
use scylla::DeserializeRow;
use scylla::value::{CqlDate, CqlTimestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::conditional_write::WriteId;
use super::store::ScyllaStore;

/// Partitions of one day.
const SHARDS: u64 = 16;

const MILLIS_OF_A_DAY: i64 = 24 * 60 * 60 * 1000;

type Key = (CqlDate, i8, CqlTimestamp, String, Vec<u8>);

pub(super) struct JournalEntry {
    key: Key,
    line: Line,
}

#[derive(DeserializeRow)]
struct JournalRow {
    #[expect(dead_code, reason = "read with the others, so that a repair misses none")]
    day: CqlDate,
    #[expect(dead_code, reason = "read with the others, so that a repair misses none")]
    shard: i8,
    at: CqlTimestamp,
    slug: String,
    id: Vec<u8>,
    kind: Option<String>,
    version: Option<i64>,
    reason: Option<String>,
    done_by: Option<String>,
    is_void: Option<bool>,
}

impl JournalEntry {
    pub(super) fn of(next: &Record, was_hidden: bool, id: WriteId, now: UnixMillis) -> Option<Self> {
        let line = Line::of(&next.head(), was_hidden)?;
        let (slug, at) = (next.slug(), next.changed_at());
        let key = (day(now), shard(slug), CqlTimestamp(at.get()), slug.to_string(), id.to_vec());
        Some(Self { key, line })
    }
}

impl ScyllaStore {
    pub(super) async fn write_journal(&self, entry: &JournalEntry) -> Result<(), StoreError> {
        let JournalEntry { key: (day, shard, at, slug, id), line: Line { kind, version, reason, by, .. }, .. } = entry;
        let reason = reason.map_or("", |reason| reason.code());
        let by = by.as_deref().unwrap_or_default();
        let values = (day, shard, at, slug, id, kind.name(), version.cast_signed(), reason, by);
        self.execute(&self.connected()?.statements.write_journal, values).await
    }

    /// If this fails, the log says that a restore may repeat the refused act.
    pub(super) async fn void_journal(&self, entry: &JournalEntry) {
        let voided = async { self.execute(&self.connected()?.statements.void_journal, &entry.key).await };
        if let Err(error) = voided.await {
            let slug = &entry.line.slug;
            let error = error.causes();
            tracing::warn!(slug, error, "the journal has an act that was not done, and it could not be made void");
        }
    }
}

#[async_trait]
impl OperatedStore for ScyllaStore {
    async fn journal(&self) -> Result<Journal, StoreError> {
        let unavailable = |error: Cause| StoreError::Unavailable(error);
        let connected = self.connected()?;
        let rows = Box::pin(connected.session.execute_iter(connected.statements.read_journal.clone(), ())).await;
        let rows = rows.map_err(|error| unavailable(error.into()))?;
        let rows = rows.rows_stream::<JournalRow>().map_err(|error| unavailable(error.into()))?;
        let rows = rows.map_err(move |error| unavailable(error.into()));
        Ok(Journal::Lines(rows.try_filter_map(async |row| Ok(row.act())).boxed()))
    }
}

impl JournalRow {
    fn act(self) -> Option<Line> {
        if self.is_void == Some(true) {
            return None;
        }
        let slug = self.slug.clone();
        let id = hex::encode(&self.id);
        let line = self.line();
        if line.is_none() {
            tracing::error!(slug, id, "a row of the journal makes no sense, and is left out");
        }
        line
    }

    fn line(self) -> Option<Line> {
        let reason = self.reason.filter(|code| !code.is_empty());
        Some(Line {
            kind: Kind::of_act(self.kind.as_deref()?)?,
            slug: self.slug,
            version: self.version?.cast_unsigned(),
            at: UnixMillis::new(self.at.0).to_string(),
            reason: reason.map(|code| code.parse()).transpose().ok()?,
            by: self.done_by.filter(|by| !by.is_empty()),
        })
    }
}

/// In UTC. The database counts days from 2³¹ before 1970-01-01.
fn day(now: UnixMillis) -> CqlDate {
    let days = u32::try_from(now.get().div_euclid(MILLIS_OF_A_DAY)).unwrap_or(0);
    CqlDate((1 << 31) + days)
}

fn shard(slug: &Slug) -> i8 {
    i8::try_from(xxh3_64(slug.as_str().as_bytes()) % SHARDS).unwrap_or(0)
}
