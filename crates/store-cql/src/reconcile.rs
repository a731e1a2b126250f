//! `handbill reconcile`: settles what both sides of a forced move did, where pages are written, once a repair has merged the
//! copies of both and before the replicas of the lost side start.
//!
//! * A page that one side deleted and the other changed later can be read again. The deletion wins if it was confirmed: a
//!   page that the ledger has is deleted once more, above its present version. So a page that operators have hidden on one side
//!   is hidden once more.
//! * A head can name a text that the other side deleted after an edit. Nothing brings that text back, so the page is listed.
//!
//! Entries of the audit need nothing: their key has the datacentre.

use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use thiserror::Error;

use super::connect::ReachError;
use super::keys::ReadKeys;
use super::ring::{Share, read_parts};
use super::share_scan::{Scanned, ShareScan};
use super::store::CqlStore;
use super::sweep::REPEATS;
use crate::domain::page::{Page, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_import::PageImport;
use crate::ports::page_scan::{PageScan, ScanLimit};
use crate::ports::page_store::{CasResult, Cause, Lookup, Record, StoreError};
use crate::settings::CqlSettings;

/// Pages that are deleted again at the same time.
const SETTLED_AT_ONCE: usize = 8;

/// The pages that were settled. Running it again changes nothing more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Pages that could be read although their deletion was confirmed.
    pub deleted: u64,
    /// Pages that could be read although operators have hidden them.
    pub hidden: u64,
    /// Pages whose text is missing.
    pub without_text: u64,
}

impl fmt::Display for Reconciled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deleted, hidden, without_text } = self;
        write!(f, "Deleted {deleted} pages and hid {hidden} again. The text of {without_text} pages is missing.")
    }
}

/// Why it ended early. Running it again is safe.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The cluster cannot be used.
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("what both sides did is settled only where pages are written: {0}")]
    Fenced(Cause),
    #[error("the database refused or did not answer ({0}): run it again")]
    Database(Cause),
}

impl From<StoreError> for ReconcileError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced(cause) => Self::Fenced(cause),
            error => Self::Database(Box::new(error)),
        }
    }
}

/// Settles the keyspace of `settings` at `now`. A line for each page goes to `say`.
pub async fn reconcile(
    settings: &CqlSettings,
    now: UnixMillis,
    say: impl Fn(&str) + Send + Sync,
) -> Result<Reconciled, ReconcileError> {
    let store = Arc::new(CqlStore::reach(settings).await?);
    store.fence.check().map_err(StoreError::from)?;
    let (deleted, hidden) = store.settle_ledger(now, &say).await?;
    let without_text = store.list_without_text(&settings.keyspace, &say).await?;
    Ok(Reconciled { deleted, hidden, without_text })
}

impl CqlStore {
    /// Deletes and hides each page of which the ledger says so. Returns how many of each could be read.
    async fn settle_ledger(
        self: &Arc<Self>,
        now: UnixMillis,
        say: &impl Fn(&str),
    ) -> Result<(u64, u64), ReconcileError> {
        let ledger = ShareScan::of(Arc::clone(self), Share::WHOLE, Scanned::Ledger);
        let (mut cursor, mut deleted, mut hidden) = (None, 0, 0);
        loop {
            let batch = ledger.scan(cursor.as_ref(), ScanLimit::DEFAULT).await?;
            // A row that cannot be read is no confirmed deletion.
            let deletions = batch.records.into_iter().filter_map(|record| match record {
                Ok(Record::Deleted(tombstone)) => Some(self.delete_confirmed(tombstone, now)),
                _ => None,
            });
            let mut settling = stream::iter(deletions.collect::<Vec<_>>()).buffer_unordered(SETTLED_AT_ONCE);
            while let Some(settled) = settling.try_next().await? {
                if let Some(slug) = settled {
                    say(&format!("deleted again: {slug}"));
                    deleted += 1;
                }
            }
            drop(settling);
            for visibility in batch.visibilities {
                if let Some(slug) = self.hide_confirmed(visibility, now).await? {
                    say(&format!("hidden again: {slug}"));
                    hidden += 1;
                }
            }
            cursor = batch.next;
            if cursor.is_none() {
                return Ok((deleted, hidden));
            }
        }
    }

    /// Deletes the page of `deletion` unless it is deleted, and returns its slug if that was needed.
    async fn delete_confirmed(&self, deletion: Tombstone, now: UnixMillis) -> Result<Option<Slug>, StoreError> {
        loop {
            let permit = self.background_permit().await?;
            let found = self.read_head(&permit, &deletion.slug).await?;
            drop(permit);
            let head = match found {
                Lookup::Active(base) => Some(base.head),
                Lookup::Hidden(head) => Some(*head),
                Lookup::Absent => None,
                Lookup::Deleted(_) => return Ok(None),
            };
            let is_done = match head {
                None => self.insert_tombstone_if_absent(deletion.clone(), now).await?,
                Some(head) => {
                    let takedown = deletion.takedown.clone();
                    let tombstone = Tombstone { takedown, ..head.tombstone(deletion.deleted_at) };
                    self.replace(head.state(), Record::Deleted(tombstone), now).await? == CasResult::Swapped
                }
            };
            if is_done {
                return Ok(Some(deletion.slug));
            }
            // Another request changed the page between the read and the write.
        }
    }

    /// Hides the page of `visibility` if that says so and the page can be read, and returns its slug if that was needed.
    async fn hide_confirmed(&self, visibility: Visibility, now: UnixMillis) -> Result<Option<Slug>, StoreError> {
        let Some(hiding) = visibility.hidden else { return Ok(None) };
        loop {
            let permit = self.background_permit().await?;
            let found = match self.record_under(&visibility.slug, &permit).await {
                // Nobody can read a page without its text. It is listed below.
                Err(StoreError::Unreadable(_)) => return Ok(None),
                found => found?,
            };
            let Lookup::Active(page) = found else { return Ok(None) };
            drop(permit);
            let head = page.head.turned(Some(hiding.clone()), now);
            let next = Record::Active(Arc::new(Page { head, text: page.text.clone() }));
            if self.replace(page.head.state(), next, now).await? == CasResult::Swapped {
                return Ok(Some(visibility.slug));
            }
            // Another request changed the page between the read and the write.
        }
    }

    /// Lists each page whose text is missing, and returns how many there are.
    async fn list_without_text(&self, keyspace: &str, say: &impl Fn(&str)) -> Result<u64, ReconcileError> {
        let keys = ReadKeys::prepare(&self.session, keyspace).await.map_err(failed)?;
        let mut missing = 0;
        read_parts(
            Share::WHOLE,
            REPEATS,
            async |tokens| self.without_text(&keys, tokens).await,
            |_, _, found| {
                let found = found?;
                missing += found.len() as u64;
                for slug in found {
                    say(&format!("the text is missing: {slug}"));
                }
                Ok(())
            },
        )
        .await?;
        Ok(missing)
    }

    /// The pages between these tokens whose text is missing.
    async fn without_text(&self, keys: &ReadKeys, tokens: (i64, i64)) -> Result<Vec<String>, ReconcileError> {
        let mut part = keys.between(&self.session, tokens).await.map_err(failed)?;
        let mut missing = Vec::new();
        while let Some(page) = part.next().await.map_err(failed)? {
            if !page.is_whole() && self.has_no_text(&page.slug).await? {
                missing.push(page.slug);
            }
        }
        Ok(missing)
    }
}

fn failed(cause: impl Into<Cause>) -> ReconcileError {
    ReconcileError::Database(cause.into())
}
