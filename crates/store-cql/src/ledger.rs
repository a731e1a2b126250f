//! The ledger of deletions, in a table of its own: a restore may take the table of pages back in time, but not this one.
//!
//! A deletion writes three times: that it was begun, then the page's head, then the tombstone into the ledger. Only then
//! it is acknowledged. If a process ends after the head was written, the row without a tombstone remains, and whoever
//! reads the ledger finds the tombstone under the page's slug. So no deletion is missing, and none is in it that did not
//! happen.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use scylla::DeserializeRow;
use scylla::value::CqlTimestamp;

use super::audit::TakedownNote;
use super::permit::Permit;
use super::recent::Base;
use super::rows::{HeadRow, takedown};
use super::scan::{BEGINNING, MAX_KEYS, cursor_at, token_of};
use super::store::{CqlStore, unreadable};
use crate::domain::page::{PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use crate::ports::page_store::{Lookup, Record, StoreError};

#[derive(DeserializeRow)]
struct LedgerRow {
    place: i64,
    slug: String,
    version: Option<i64>,
    created_at: Option<CqlTimestamp>,
    deleted_at: Option<CqlTimestamp>,
    takedown_reason: Option<String>,
    takedown_by: Option<String>,
}

pub struct CqlLedger(Arc<CqlStore>);

impl LedgerRow {
    /// The tombstone, if it was written.
    fn tombstone(&self, slug: &Slug) -> Option<Tombstone> {
        let time = |column: Option<CqlTimestamp>| column.map(|CqlTimestamp(millis)| UnixMillis::new(millis));
        Some(Tombstone {
            slug: slug.clone(),
            version: PageVersion::new(self.version?.cast_unsigned()),
            created_at: time(self.created_at)?,
            deleted_at: time(self.deleted_at)?,
            takedown: takedown(self.takedown_reason.as_deref(), self.takedown_by.clone()),
        })
    }
}

impl CqlStore {
    /// Notes, before its head is written, that the page of `tombstone` is about to be deleted.
    pub(super) async fn begin_deletion(
        &self,
        permit: &Permit<'_>,
        tombstone: &Tombstone,
    ) -> Result<Option<TakedownNote>, StoreError> {
        self.fence.check()?;
        let both = tokio::join!(self.note_deletion(permit, tombstone), self.note_takedown(permit, tombstone));
        both.0?;
        both.1
    }

    /// Ends a deletion after the write of the page's head: nothing of the page's text remains, and the ledger and the
    /// audit have it. Without its entry in the ledger the deletion is not confirmed, because a restore would bring the page
    /// back; whatever else fails is done later. `texts_until` is the time of the newest text that may be there.
    pub(super) async fn end_deletion(
        &self,
        permit: &Permit<'_>,
        tombstone: &Tombstone,
        texts_until: UnixMillis,
        note: Option<TakedownNote>,
        was_done: bool,
    ) -> Result<(), StoreError> {
        let mut entered = Ok(());
        if was_done {
            let deleting = self.delete_texts(permit, &tombstone.slug, texts_until);
            ((), entered) = tokio::join!(deleting, self.enter_deletion(permit, tombstone));
        }
        self.close_takedown(permit, note, was_done).await;
        entered.map_err(|error| StoreError::OutcomeUnknown(Box::new(error)))
    }

    /// Ends a deletion that may not be in the ledger yet. If it is, nothing is written, so a standby answers too.
    pub(super) async fn complete_deletion(&self, permit: &Permit<'_>, tombstone: &Tombstone) -> Result<(), StoreError> {
        let request = async || {
            let answer = self.session.execute_unpaged(&self.operated.read_deletion, (tombstone.slug.as_str(),)).await?;
            let row = answer.into_rows_result().map_err(unreadable)?.maybe_first_row::<(Option<i64>,)>();
            Ok(row.map_err(unreadable)?.is_some_and(|(version,)| version.is_some()))
        };
        if self.repeat(permit, request).await? {
            return Ok(());
        }
        self.fence.check()?;
        self.delete_texts(permit, &tombstone.slug, tombstone.deleted_at).await;
        self.enter_deletion(permit, tombstone).await
    }

    async fn note_deletion(&self, permit: &Permit<'_>, tombstone: &Tombstone) -> Result<(), StoreError> {
        let values = (tombstone.slug.as_str(), CqlTimestamp(tombstone.deleted_at.get()));
        let request = async || {
            self.session.execute_unpaged(&self.operated.begin_deletion, values).await?;
            Ok(())
        };
        self.repeat(permit, request).await
    }

    /// Enters `tombstone`, which is now the page's head. Doing it again changes nothing.
    pub(super) async fn enter_deletion(&self, permit: &Permit<'_>, tombstone: &Tombstone) -> Result<(), StoreError> {
        let takedown = tombstone.takedown.as_ref();
        let values = (
            tombstone.slug.as_str(),
            tombstone.version.get().cast_signed(),
            CqlTimestamp(tombstone.created_at.get()),
            CqlTimestamp(tombstone.deleted_at.get()),
            takedown.map(|takedown| takedown.reason.code()),
            takedown.map(|takedown| takedown.by.as_str()),
        );
        let request = async || {
            self.session.execute_unpaged(&self.operated.enter_deletion, values).await?;
            Ok(())
        };
        self.repeat(permit, request).await
    }

    /// The head of `slug`. Every interrupted write of it is completed first.
    pub(super) async fn settled_head(&self, permit: &Permit<'_>, slug: &Slug) -> Result<Lookup<Base>, StoreError> {
        let request = async || {
            let answer = self.session.execute_unpaged(&self.statements.read_head_serially, (slug.as_str(),)).await?;
            let row = answer.into_rows_result().map_err(unreadable)?.maybe_first_row::<HeadRow>();
            row.map_err(unreadable)?.map_or(Ok(Lookup::Absent), |row| row.into_base(slug)).map_err(unreadable)
        };
        self.repeat(permit, request).await
    }

    /// The deletion that a row of the ledger stands for; `None` if the page was not deleted after all.
    async fn deletion_in(&self, row: &LedgerRow) -> Result<Option<Tombstone>, StoreError> {
        // A name that is no slug was written by hand.
        let Ok(slug) = Slug::parse(&row.slug) else { return Ok(None) };
        if let Some(tombstone) = row.tombstone(&slug) {
            return Ok(Some(tombstone));
        }
        let permit = self.background_permit().await?;
        // A side that may not write completes no write either.
        let may_write = self.fence.check().is_ok();
        let head =
            if may_write { self.settled_head(&permit, &slug).await } else { self.read_head(&permit, &slug).await };
        match head? {
            Lookup::Deleted(tombstone) => {
                if may_write {
                    report_missing(self.enter_deletion(&permit, &tombstone).await);
                }
                Ok(Some(tombstone))
            }
            Lookup::Active(_) | Lookup::Hidden(_) | Lookup::Absent => Ok(None),
        }
    }
}

fn report_missing(entered: Result<(), StoreError>) {
    if let Err(error) = entered {
        tracing::warn!(%error, "a deletion is not in the ledger yet; an export finds it by the page");
    }
}

impl CqlLedger {
    pub fn of(store: Arc<CqlStore>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl PageScan for CqlLedger {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let Self(store) = self;
        let mut after = after.map_or(Ok(BEGINNING), token_of)?;
        // One slug has one row, and two slugs with one token are never cut apart: a batch ends before the last token.
        let count = limit.records.clamp(1, MAX_KEYS) + 1;
        loop {
            let bound = i32::try_from(count).unwrap_or(i32::MAX);
            let request = async || {
                let answer = store.session.execute_unpaged(&store.operated.read_ledger, (after, bound)).await?;
                let rows = answer.into_rows_result().map_err(unreadable)?;
                rows.rows::<LedgerRow>().map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
            };
            let permit = store.background_permit().await?;
            let mut rows: VecDeque<LedgerRow> = store.repeat(&permit, request).await?;
            drop(permit);
            let has_more = rows.len() == count;
            if has_more {
                let last = rows.back().map(|row| row.place);
                while rows.len() > 1 && rows.back().map(|row| row.place) == last {
                    rows.pop_back();
                }
            }
            let Some(last) = rows.back().map(|row| row.place) else { break };
            let mut records = Vec::new();
            for row in rows {
                match store.deletion_in(&row).await {
                    Ok(tombstone) => records.extend(tombstone.map(|tombstone| Ok(Record::Deleted(tombstone)))),
                    Err(StoreError::Unreadable(cause)) => records.push(Err(UnreadableRecord { name: row.slug, cause })),
                    Err(error) => return Err(error),
                }
            }
            if !has_more || !records.is_empty() {
                return Ok(ScanBatch { records, next: has_more.then(|| cursor_at(last)) });
            }
            after = last;
        }
        Ok(ScanBatch { records: Vec::new(), next: None })
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }
}
