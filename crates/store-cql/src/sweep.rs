//! `handbill sweep`: deletes texts that no head points to, and takes down pages that were hidden for long enough.
//!
//! A crash between two writes leaves such a text: a create or update that stored its text and no head, or a change whose
//! old text was not deleted. No request can read it, but its bytes stay.
//!
//! The sweep reads the keys of all texts, one range of the ring after another, and never a text itself. It suspects each
//! text that its head does not name and that was inserted longer ago than a minimum age. Then it reads the head again at
//! `LOCAL_SERIAL`, which completes an interrupted write, and deletes the text by its full key if the head still does not
//! name it.
//!
//! A text that is younger may belong to a write that is under way: of an import too, whose pages are years old. A writer
//! that was stopped for longer than its deadline writes no head any more, and none whose machine stood still for longer
//! than half of [`SHORTEST_AGE`](super::write_times::SHORTEST_AGE). The time of insertion is of the writer's clock, so the
//! minimum age must be far above the difference of clocks; the default is a day.

use std::fmt;
use std::num::NonZero;
use std::time::Duration;

use futures_util::TryStreamExt;
use scylla::DeserializeRow;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use scylla::value::CqlTimestamp;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

use super::connect::ReachError;
use super::fence::Fenced;
use super::migrate::schema::server_of;
use super::nonces::TextId;
use super::ring::{PARTS, of_scan, range};
use super::rows::{HIDDEN, HeadRow};
use super::store::CqlStore;
use crate::domain::page::PageVersion;
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_store::{CasResult, Cause, Lookup, PageStore, Record};
use crate::settings::CqlSettings;

/// Keys that one page of a result holds.
const PAGE_ROWS: i32 = 500;

/// How often a part is read again from its beginning after an error.
pub(super) const REPEATS: u32 = 3;

/// Pause before a part is read again.
pub(super) const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Which texts are deleted, and how fast the table is read.
#[derive(Clone, Copy, Debug)]
pub struct SweepPlan {
    /// Whether all is only counted.
    pub dry_run: bool,
    /// Texts younger than this stay.
    pub min_age: Duration,
    pub rows_per_second: NonZero<u32>,
    pub now: UnixMillis,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Keys that were read: texts, and tombstones without a text.
    pub read: u64,
    /// Texts that no head names, in partitions with a head.
    pub unnamed: u64,
    /// Texts in partitions without a head.
    pub headless: u64,
    /// Pages whose time of being hidden is over.
    pub hidden: u64,
    /// Whether all was only counted.
    pub dry_run: bool,
}

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, unnamed, headless, hidden, dry_run } = self;
        let (deleted, took) = if *dry_run { ("Would delete", "Would take") } else { ("Deleted", "Took") };
        write!(
            f,
            "Read {read} keys. {deleted} {unnamed} texts that no page shows and {headless} texts without a page. \
             {took} down {hidden} hidden pages whose time was over."
        )
    }
}

/// Why a sweep ended early. Running it again is safe.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The cluster cannot be used.
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("texts are swept only where pages are written: {0}")]
    Fenced(#[from] Fenced),
    #[error("the database refused or did not answer ({0}): run it again")]
    Database(Cause),
}

#[derive(DeserializeRow)]
struct KeyRow {
    slug: String,
    text_version: Option<i64>,
    text_nonce: Option<Vec<u8>>,
    current_text_version: Option<i64>,
    current_text_nonce: Option<Vec<u8>>,
    inserted_at: Option<CqlTimestamp>,
    /// The database's timestamp of the text, in microseconds, which is made from the time of its page.
    written_at: Option<i64>,
    state: Option<String>,
    deleted_at: Option<CqlTimestamp>,
}

impl KeyRow {
    /// Whether this is the text of a page that is hidden until `now` at the latest.
    fn is_hidden_until(&self, now: UnixMillis) -> bool {
        let is_over = self.deleted_at.is_some_and(|CqlTimestamp(until)| until <= now.get());
        self.state.as_deref() == Some(HIDDEN) && is_over && self.is_named()
    }

    fn is_named(&self) -> bool {
        self.current_text_version == self.text_version && self.current_text_nonce == self.text_nonce
    }

    /// The text in this row if its head does not name it and it was inserted before `inserted_before`, with its timestamp.
    fn suspect(self, inserted_before: UnixMillis) -> Option<(String, TextId, i64)> {
        let is_named = self.is_named();
        let (version, nonce, written_at) = (self.text_version?, self.text_nonce?, self.written_at?);
        let CqlTimestamp(inserted_at) = self.inserted_at?;
        let id = TextId { version: PageVersion::new(version.cast_unsigned()), nonce: nonce.try_into().ok()? };
        (!is_named && inserted_at < inserted_before.get()).then_some((self.slug, id, written_at))
    }
}

/// Sweeps the keyspace of `settings`. Calls `progress` with the percentage that is done and what was found until then.
pub async fn sweep(
    settings: &CqlSettings,
    plan: SweepPlan,
    progress: impl Fn(u8, &SweepReport) + Send,
) -> Result<SweepReport, SweepError> {
    let store = CqlStore::reach(settings).await?;
    store.sweep(&settings.keyspace, plan, progress).await
}

impl CqlStore {
    /// Sweeps `keyspace`, which must be that of this store.
    pub async fn sweep(
        &self,
        keyspace: &str,
        plan: SweepPlan,
        progress: impl Fn(u8, &SweepReport) + Send,
    ) -> Result<SweepReport, SweepError> {
        // In a datacentre that does not write, the newest heads may be missing, and then their texts look as if no head
        // named them.
        self.fence.check()?;
        let columns = "slug, text_version, text_nonce, current_text_version, current_text_nonce, inserted_at, \
                       writetime(html) AS written_at, state, deleted_at";
        let keys = prepare(&self.session, keyspace, columns).await.map_err(failed)?;
        let mut report = SweepReport { dry_run: plan.dry_run, ..SweepReport::default() };
        for part in 0..PARTS {
            let mut repeats = 0;
            loop {
                let before = report;
                match self.sweep_part(&keys, range(part), plan, &mut report).await {
                    Ok(()) => break,
                    Err(error @ SweepError::Fenced(_)) => return Err(error),
                    Err(error) if repeats == REPEATS => return Err(error),
                    Err(error) => tracing::warn!(%error, "a part of the sweep is read again"),
                }
                // Texts that were deleted already are not found again; those that were only counted are.
                report = if plan.dry_run { before } else { SweepReport { read: before.read, ..report } };
                repeats += 1;
                tokio::time::sleep(REPEAT_PAUSE).await;
            }
            progress(u8::try_from(u32::from(part + 1) * 100 / u32::from(PARTS)).unwrap_or(100), &report);
        }
        Ok(report)
    }

    async fn sweep_part(
        &self,
        keys: &PreparedStatement,
        (after, until): (i64, i64),
        plan: SweepPlan,
        report: &mut SweepReport,
    ) -> Result<(), SweepError> {
        let age = i64::try_from(plan.min_age.as_millis()).unwrap_or(i64::MAX);
        let inserted_before = UnixMillis::new(plan.now.get().saturating_sub(age));
        let rows = self.session.execute_iter(keys.clone(), (after, until)).await.map_err(failed)?;
        let mut rows = rows.rows_stream::<KeyRow>().map_err(failed)?;
        let (began, mut read) = (Instant::now(), 0_u32);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            report.read += 1;
            read += 1;
            if row.is_hidden_until(plan.now) {
                self.end_hiding(&row.slug, plan, report).await?;
            } else if let Some((slug, text, written_at)) = row.suspect(inserted_before) {
                self.sweep_text(&slug, text, written_at, plan.dry_run, report).await?;
            }
            if read.is_multiple_of(100) {
                sleep_until(began + Duration::from_secs(read.into()) / plan.rows_per_second.get()).await;
            }
        }
        Ok(())
    }

    /// Takes the page down if its time of being hidden is still over.
    async fn end_hiding(&self, slug: &str, plan: SweepPlan, report: &mut SweepReport) -> Result<(), SweepError> {
        let Ok(slug) = Slug::parse(slug) else { return Ok(()) };
        self.fence.check()?;
        let Lookup::Hidden(head) = self.head(&slug).await.map_err(failed)? else { return Ok(()) };
        let Some(hiding) = head.hidden.as_ref().filter(|hiding| hiding.until <= plan.now) else { return Ok(()) };
        let tombstone = head.taken_down(hiding.takedown.clone(), plan.now);
        let is_done = plan.dry_run
            || self.compare_and_set(head.version, Record::Deleted(tombstone), None).await.map_err(failed)?
                == CasResult::Swapped;
        report.hidden += u64::from(is_done);
        Ok(())
    }

    /// Deletes the text unless its head names it now.
    async fn sweep_text(
        &self,
        slug: &str,
        text: TextId,
        written_at: i64,
        dry_run: bool,
        report: &mut SweepReport,
    ) -> Result<(), SweepError> {
        // A name that is no slug was written by hand. Nobody can read it, and nothing here knows what it is for.
        let Ok(parsed) = Slug::parse(slug) else { return Ok(()) };
        // The serial read completes interrupted writes, which only the side that writes may do.
        self.fence.check()?;
        let answer =
            self.session.execute_unpaged(&self.statements.read_head_serially, (slug,)).await.map_err(failed)?;
        let row = answer.into_rows_result().map_err(failed)?.maybe_first_row::<HeadRow>().map_err(failed)?;
        let head = row.map_or(Ok(Lookup::Absent), |row| row.into_base(&parsed)).map_err(failed)?;
        match head {
            Lookup::Active(base) if base.text == text => return Ok(()),
            Lookup::Active(_) | Lookup::Hidden(_) | Lookup::Deleted(_) => report.unnamed += 1,
            Lookup::Absent => report.headless += 1,
        }
        if !dry_run {
            // A sweep takes days, and the fence may have moved.
            self.fence.check()?;
            let values = (written_at.saturating_add(1), slug, text.version.get().cast_signed(), text.nonce.as_slice());
            self.session.execute_unpaged(&self.statements.delete_text, values).await.map_err(failed)?;
        }
        Ok(())
    }
}

/// The statement that reads `columns` of one part of the ring.
pub(super) async fn prepare(
    session: &Session,
    keyspace: &str,
    columns: &str,
) -> Result<PreparedStatement, PrepareError> {
    let cql = format!("SELECT {columns} FROM {keyspace}.pages WHERE token(slug) > ? AND token(slug) <= ?");
    let cql = of_scan(cql, server_of(session));
    let mut statement = session.prepare(Statement::new(cql).with_page_size(PAGE_ROWS)).await?;
    statement.set_consistency(Consistency::LocalQuorum);
    statement.set_is_idempotent(true);
    Ok(statement)
}

fn failed(cause: impl Into<Cause>) -> SweepError {
    SweepError::Database(cause.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(current: Option<(i64, u8)>) -> KeyRow {
        KeyRow {
            slug: "page-22222222".to_owned(),
            text_version: Some(2),
            text_nonce: Some(vec![7; 16]),
            current_text_version: current.map(|(version, _)| version),
            current_text_nonce: current.map(|(_, nonce)| vec![nonce; 16]),
            inserted_at: Some(CqlTimestamp(1000)),
            written_at: Some(5),
            state: Some("active".to_owned()),
            deleted_at: None,
        }
    }

    #[test]
    fn a_text_is_suspected_if_it_is_old_and_its_head_names_another_or_none() {
        assert!(row(Some((2, 7))).suspect(UnixMillis::new(2000)).is_none());
        for other in [None, Some((2, 8)), Some((3, 7))] {
            assert!(row(other).suspect(UnixMillis::new(2000)).is_some(), "{other:?}");
            assert!(row(other).suspect(UnixMillis::new(1000)).is_none(), "{other:?}: it is young");
        }
        let tombstone =
            KeyRow { text_version: None, text_nonce: None, inserted_at: None, written_at: None, ..row(None) };
        assert!(tombstone.suspect(UnixMillis::new(2000)).is_none());
    }
}
