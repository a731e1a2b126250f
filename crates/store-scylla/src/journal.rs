//! The journal: a row for each deletion, takedown, hiding and showing, partitioned by day and shard (contract, decision
//! 18).
//!
//! The row is written after its act's condition was found true, and before the act. Then it is settled: done, or void. It
//! has the id of its write, so it affects no other writer's act. A row that a crash or an unknown outcome leaves open is
//! settled by each export, which looks at the page.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use handbill_pages::ports::{operated_store::ExportedJournal, page_store::StoreError};
use handbill_pages::values::{hex, journal::Line, record::Record, slug::Slug, timestamp::UnixMillis};
use scylla::value::{CqlDate, CqlTimestamp};
use scylla::{DeserializeRow, serialize::row::SerializeRow, statement::prepared::PreparedStatement};
use tokio::time::sleep;
use xxhash_rust::xxh3::xxh3_64;

use super::connected::{Connected, unavailable};
use super::row::WriteId;

/// Partitions of one day.
const SHARDS: u8 = 16;

const MILLIS_OF_A_DAY: i64 = 24 * 60 * 60 * 1000;

/// Younger lines may be of acts that are being done, by a process with another clock.
const IN_FLIGHT_MILLIS: i64 = 10_000;

/// How often a line is settled if the database fails, and how soon again.
const SETTLING_ATTEMPTS: u32 = 30;
const SETTLE_AGAIN: Duration = Duration::from_secs(1);

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
    is_done: Option<bool>,
}

impl JournalEntry {
    pub(super) fn of(next: &Record, was_hidden: bool, id: WriteId, now: UnixMillis) -> Option<Self> {
        let line = Line::of(next, was_hidden)?;
        let (slug, at) = (next.slug(), next.changed_at());
        let key = (day(now), shard(slug), CqlTimestamp(at.get()), slug.to_string(), id.to_vec());
        Some(Self { key, line })
    }
}

impl Connected {
    pub(super) async fn write_journal(&self, entry: &JournalEntry) -> Result<(), StoreError> {
        let JournalEntry { key: (day, shard, at, slug, id), line: Line { kind, version, reason, by, .. } } = entry;
        let kind: &str = kind.into();
        let reason = reason.map_or("", |reason| reason.code());
        let by = by.as_deref().unwrap_or_default();
        let values = (day, shard, at, slug, id, kind, version.cast_signed(), reason, by);
        self.send(&self.statements.write_journal, values).await.map(drop)
    }

    /// A line that stays open costs each export a look at its page.
    pub(super) async fn settle(&self, entry: &JournalEntry, is_done: bool) {
        let (day, shard, at, slug, id) = &entry.key;
        for _ in 0..SETTLING_ATTEMPTS {
            match self.send(&self.statements.settle_journal, (is_done, day, shard, at, slug, id)).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(slug, %error, is_done, "a line of the journal is not settled yet"),
            }
            sleep(SETTLE_AGAIN).await;
        }
    }

    async fn rows(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<BoxStream<'static, Result<JournalRow, StoreError>>, StoreError> {
        let rows = Box::pin(self.session.execute_iter(statement.clone(), values)).await.map_err(unavailable)?;
        Ok(rows.rows_stream::<JournalRow>().map_err(unavailable)?.map_err(unavailable).boxed())
    }

    /// Whether the act of an open line was done, by a read that completes interrupted writes first. A page that nobody can read may
    /// have been deleted.
    async fn was_done(&self, line: &Line) -> Result<bool, StoreError> {
        let Some(slug) = Slug::parse(&line.slug).ok() else { return Ok(true) };
        let head = match self.settled_row(&slug).await {
            Ok(row) => row.map_or(Ok(None), |row| row.into_head().head(&slug)),
            Err(StoreError::Unreadable(cause)) => Err(cause),
            Err(error) => return Err(error),
        };
        Ok(head.map_or(true, |head| line.was_done(head.as_ref())))
    }

    pub(super) async fn journal(
        self: &Arc<Self>,
        since: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<ExportedJournal, StoreError> {
        let rows = match since {
            None => self.rows(&self.statements.read_journal, ()).await?,
            Some(since) => {
                // The clock of another process may be a day ahead.
                let days = day(since).0..=day(now).0 + 1;
                let parts = days.flat_map(|day| (0..SHARDS.cast_signed()).map(move |shard| (CqlDate(day), shard)));
                let reading = Arc::clone(self);
                let parts = stream::iter(parts).then(move |part| {
                    let connected = Arc::clone(&reading);
                    async move { connected.rows(&connected.statements.read_journal_of, part).await }
                });
                parts.try_flatten().boxed()
            }
        };
        let connected = Arc::clone(self);
        let lines = rows.try_filter_map(move |row| {
            let connected = Arc::clone(&connected);
            async move {
                let is_old = row.at.0 < now.get() - IN_FLIGHT_MILLIS;
                let is_open = row.is_done.is_none() && is_old;
                let Some(line) = row.act() else { return Ok(None) };
                Ok(if !is_open || connected.was_done(&line).await? { Some(line) } else { None })
            }
        });
        Ok(ExportedJournal::Lines(lines.boxed()))
    }
}

impl JournalRow {
    fn act(self) -> Option<Line> {
        if self.is_done == Some(false) {
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
            kind: self.kind?.parse().ok()?,
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
    i8::try_from(xxh3_64(slug.as_str().as_bytes()) % u64::from(SHARDS)).unwrap_or(0)
}
