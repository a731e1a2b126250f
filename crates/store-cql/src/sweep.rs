//! `handbill sweep`: deletes texts that no head points to.
//!
//! A crash between two writes leaves such a text: a create or update that stored its text and no head, or a change whose
//! old text was not deleted. No request can read it, but its bytes stay.
//!
//! The sweep reads the keys of all texts beside those of all heads, one range of the ring after another, and never a text itself. It
//! suspects each text that its head does not name and that was inserted longer ago than a minimum age. Then it reads the head again at
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

use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

use super::connect::ReachError;
use super::keys::ReadKeys;
use super::nonces::TextId;
use super::ring::{RANGES_AT_ONCE, Share, Tokens, read_parts};
use super::store::CqlStore;
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_store::{Cause, Lookup};
use crate::settings::CqlSettings;

/// How often a part is read again from its beginning after an error.
pub(super) const REPEATS: u32 = 3;

/// Parts that may be left out because they cannot be read. With more, the database does not answer.
const MOST_UNREAD: u64 = 8;

/// Which texts are deleted, and how fast the table is read.
#[derive(Clone, Copy, Debug)]
pub struct SweepPlan {
    /// Whether all is only counted.
    pub dry_run: bool,
    /// Texts younger than this stay.
    pub min_age: Duration,
    /// The share of the ring that is read.
    pub share: Share,
    pub rows_per_second: NonZero<u32>,
    pub now: UnixMillis,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Keys that were read, of heads and of texts.
    pub read: u64,
    /// Texts that their head does not name.
    pub unnamed: u64,
    /// Texts without a head.
    pub headless: u64,
    /// Pages whose text is missing.
    pub without_text: u64,
    /// Parts of the ring that could not be read and were left out.
    pub unread: u64,
    /// Whether all was only counted.
    pub dry_run: bool,
}

impl SweepReport {
    fn add(&mut self, part: Self) {
        self.read += part.read;
        self.unnamed += part.unnamed;
        self.headless += part.headless;
        self.without_text += part.without_text;
        self.unread += part.unread;
    }
}

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, unnamed, headless, without_text, unread, dry_run } = self;
        let deleted = if *dry_run { "Would delete" } else { "Deleted" };
        write!(
            f,
            "Read {read} keys. {deleted} {unnamed} texts that no page shows and {headless} texts without a page. \
             The text of {without_text} pages is missing."
        )?;
        if *unread > 0 { write!(f, " {unread} parts could not be read: the log names them.") } else { Ok(()) }
    }
}

/// Why a sweep ended early. Running it again is safe.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The cluster cannot be used.
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("the database refused or did not answer ({0}): run it again")]
    Database(Cause),
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
        let missing = |slug: &str| tracing::error!(slug, "the text of the page is missing");
        self.sweep_naming(keyspace, plan, progress, missing).await
    }

    /// The same, and names each page whose text is missing to `missing`.
    pub(super) async fn sweep_naming(
        &self,
        keyspace: &str,
        plan: SweepPlan,
        progress: impl Fn(u8, &SweepReport) + Send,
        missing: impl Fn(&str) + Send + Sync,
    ) -> Result<SweepReport, SweepError> {
        let keys = ReadKeys::prepare(&self.session, keyspace).await.map_err(failed)?;
        let all = Mutex::new(SweepReport { dry_run: plan.dry_run, ..SweepReport::default() });
        let add = |part| {
            let mut all = all.lock();
            all.add(part);
            *all
        };
        let read = async |tokens| {
            let mut part = SweepReport::default();
            match self.sweep_part(&keys, tokens, plan, &mut part, &missing).await {
                Ok(()) => Ok(part),
                Err(error) => {
                    // Texts that were deleted already are not found again; those that were only counted are.
                    if !plan.dry_run {
                        add(SweepReport { read: 0, without_text: 0, ..part });
                    }
                    Err(error)
                }
            }
        };
        read_parts(plan.share, REPEATS, read, |percent, tokens, part| {
            let part = match part {
                Ok(swept) => swept,
                Err(error) => left_out(tokens, error, add(SweepReport::default()).unread)?,
            };
            progress(percent, &add(part));
            Ok(())
        })
        .await?;
        Ok(add(SweepReport::default()))
    }

    async fn sweep_part(
        &self,
        keys: &ReadKeys,
        tokens: Tokens,
        plan: SweepPlan,
        report: &mut SweepReport,
        missing: &(impl Fn(&str) + Sync),
    ) -> Result<(), SweepError> {
        let age = i64::try_from(plan.min_age.as_millis()).unwrap_or(i64::MAX);
        let inserted_before = UnixMillis::new(plan.now.get().saturating_sub(age));
        let mut part = keys.between(&self.session, tokens).await.map_err(failed)?;
        let pace = Duration::from_secs(RANGES_AT_ONCE.into()) / plan.rows_per_second.get();
        let (began, mut read) = (Instant::now(), 0_u32);
        while let Some(page) = part.next().await.map_err(failed)? {
            let (count, before) = (page.count(), read);
            report.read += u64::from(count);
            read = read.saturating_add(count);
            if !page.is_whole() && self.has_no_text(&page.slug).await.map_err(failed)? {
                missing(&page.slug);
                report.without_text += 1;
            }
            for (text, written_at) in page.suspects(inserted_before) {
                self.sweep_text(&page.slug, text, written_at, plan.dry_run, report).await?;
            }
            if read / 100 > before / 100 {
                sleep_until(began + pace * read).await;
            }
        }
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
        let permit = self.background_permit().await.map_err(failed)?;
        match self.settled_head(&permit, &parsed).await.map_err(failed)? {
            Lookup::Active(base) if base.text == text => return Ok(()),
            Lookup::Active(_) | Lookup::Hidden(_) | Lookup::Deleted(_) => report.unnamed += 1,
            Lookup::Absent => report.headless += 1,
        }
        if !dry_run {
            let values = (written_at.saturating_add(1), slug, text.version.get().cast_signed(), text.nonce.as_slice());
            self.session.execute_unpaged(&self.statements.delete_text, values).await.map_err(failed)?;
        }
        Ok(())
    }
}

/// The report of the part between `tokens`, which could not be read, beside `unread` others.
pub(super) fn left_out(tokens: Tokens, error: SweepError, unread: u64) -> Result<SweepReport, SweepError> {
    if unread == MOST_UNREAD {
        return Err(error);
    }
    tracing::error!(%error, above = tokens.0, until = tokens.1, "the part between these tokens cannot be read and is left out");
    Ok(SweepReport { unread: 1, ..SweepReport::default() })
}

fn failed(cause: impl Into<Cause>) -> SweepError {
    SweepError::Database(cause.into())
}
