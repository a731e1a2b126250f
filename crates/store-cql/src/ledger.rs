//! The ledger of what was deleted and hidden, in a table of its own: a restore may take the table of pages back in time, but
//! not this one.
//!
//! A deletion writes three times: that it was begun, then the page's head, then the tombstone into the ledger. Only then
//! it is acknowledged. If a process ends after the head was written, the row without a tombstone remains, and whoever
//! reads the ledger finds the tombstone under the page's slug. So no deletion is missing, and none is in it that did not
//! happen. So it is when operators hide or show a page: a page that is later than what the ledger says was shown only if that
//! was begun, because an import brings later pages too.

use scylla::DeserializeRow;
use scylla::value::CqlTimestamp;

use super::permit::Permit;
use super::recent::Base;
use super::ring::{Placed, Tokens};
use super::rows::{HeadRow, hiding, millis, takedown};
use super::scan::{MAX_KEYS, cursor_at, cut, ended};
use super::store::CqlStore;
use crate::domain::archive::Entry;
use crate::domain::page::{PageHead, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_scan::{ScanBatch, ScanLimit, UnreadableRecord};
use crate::ports::page_store::{Lookup, Record, StoreError};

#[derive(DeserializeRow)]
pub(super) struct LedgerRow {
    version: Option<i64>,
    created_at: Option<CqlTimestamp>,
    deleted_at: Option<CqlTimestamp>,
    takedown_reason: Option<String>,
    takedown_by: Option<String>,
    begun_at: Option<CqlTimestamp>,
    turning_at: Option<CqlTimestamp>,
    visibility: Option<VisibilityColumn>,
}

/// When operators hid or showed the page, and, if they hid it, why and who.
type VisibilityColumn = (CqlTimestamp, Option<String>, Option<String>);

impl LedgerRow {
    /// The tombstone, if it was written.
    fn tombstone(&self, slug: &Slug) -> Option<Tombstone> {
        Some(Tombstone {
            slug: slug.clone(),
            version: PageVersion::new(self.version?.cast_unsigned()),
            created_at: self.created_at.map(millis)?,
            deleted_at: self.deleted_at.map(millis)?,
            takedown: takedown(self.takedown_reason.as_deref(), self.takedown_by.clone()),
        })
    }

    /// The last act of operators, if it was written.
    fn visibility(&self, slug: &Slug) -> Option<Visibility> {
        let (at, reason, by) = self.visibility.clone()?;
        let hidden = reason.map(|reason| hiding(Some(&reason), by));
        Some(Visibility { slug: slug.clone(), at: millis(at), hidden })
    }

    /// The last act of operators, if this row is of a page that has `head` and that nobody deleted.
    fn visibility_with(&self, head: &PageHead) -> Option<Visibility> {
        let noted = self.visibility(&head.slug);
        let is_begun = self.turning_at.map(millis) > noted.as_ref().map(|noted| noted.at);
        let is_later = noted.as_ref().is_none_or(|noted| noted.at < head.updated_at);
        let is_turned = noted.as_ref().is_some_and(|noted| noted.hidden.is_some()) != head.hidden.is_some();
        if is_later && is_turned && (is_begun || head.hidden.is_some()) { Some(head.visibility()) } else { noted }
    }
}

/// The database's timestamp of what was done at `at`, in microseconds.
fn micros(at: UnixMillis) -> i64 {
    at.get().saturating_mul(1000)
}

impl CqlStore {
    /// Notes, before its head is written, that the page of `tombstone` is about to be deleted.
    pub(super) async fn begin_deletion(&self, permit: &Permit<'_>, tombstone: &Tombstone) -> Result<(), StoreError> {
        let values = (tombstone.slug.as_str(), CqlTimestamp(tombstone.deleted_at.get()));
        self.write(permit, &self.operated.begin_deletion, values).await
    }

    /// Ends a deletion after the write of the page's head: nothing of the page's text remains, and the ledger
    /// has it. Without its entry in the ledger the deletion is not confirmed, because a restore would bring the page
    /// back; whatever else fails is done later. `texts_until` is the time of the newest text that may be there.
    pub(super) async fn end_deletion(
        &self,
        permit: &Permit<'_>,
        tombstone: &Tombstone,
        texts_until: UnixMillis,
        was_done: bool,
    ) -> Result<(), StoreError> {
        let mut entered = Ok(());
        if was_done {
            let deleting = self.delete_texts(permit, &tombstone.slug, texts_until);
            ((), entered) = tokio::join!(deleting, self.enter_deletion(permit, tombstone));
        }
        entered.map_err(|error| StoreError::OutcomeUnknown(Box::new(error)))
    }

    pub(super) async fn entry_of(&self, permit: &Permit<'_>, slug: &Slug) -> Result<Option<LedgerRow>, StoreError> {
        self.first_row(permit, &self.operated.read_entry, (slug.as_str(),)).await
    }

    /// Notes, before `head` is written, that it hides or shows its page.
    pub(super) async fn begin_turn(&self, permit: &Permit<'_>, head: &PageHead) -> Result<(), StoreError> {
        let at = head.updated_at;
        let values = (head.slug.as_str(), CqlTimestamp(at.get()), micros(at));
        self.write(permit, &self.operated.begin_turn, values).await
    }

    /// Enters that operators have hidden or shown a page. Without this it is not confirmed, as a deletion is not.
    pub(super) async fn enter_visibility(
        &self,
        permit: &Permit<'_>,
        visibility: &Visibility,
    ) -> Result<(), StoreError> {
        let takedown = visibility.hidden.as_ref().map(|hidden| (hidden.reason.code(), hidden.by.as_str()));
        let (reason, by) = takedown.unzip();
        let column = (CqlTimestamp(visibility.at.get()), reason, by);
        let values = (visibility.slug.as_str(), column, micros(visibility.at));
        self.write(permit, &self.operated.enter_visibility, values).await
    }

    /// The last act of operators on the page under `slug`, as far as the ledger has it.
    pub(super) async fn noted_visibility(&self, slug: &Slug) -> Result<Option<Visibility>, StoreError> {
        let permit = self.permit(&self.reads, slug, None).await?;
        Ok(self.entry_of(&permit, slug).await?.and_then(|row| row.visibility(slug)))
    }

    /// Enters `visibility` unless the page was deleted or operators did something later. Says whether that is new.
    pub(super) async fn note_visibility(&self, visibility: &Visibility) -> Result<bool, StoreError> {
        let permit = self.permit(&self.writes, &visibility.slug, None).await?;
        let is_known = |row: LedgerRow| {
            let noted = row.visibility(&visibility.slug);
            row.version.is_some() || noted.is_some_and(|noted| noted.at >= visibility.at)
        };
        if self.entry_of(&permit, &visibility.slug).await?.is_some_and(is_known) {
            return Ok(false);
        }
        self.enter_visibility(&permit, visibility).await?;
        Ok(true)
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
        self.write(permit, &self.operated.enter_deletion, values).await
    }

    /// The head of `slug`. Every interrupted write of it is completed first.
    pub(super) async fn settled_head(&self, permit: &Permit<'_>, slug: &Slug) -> Result<Lookup<Base>, StoreError> {
        let row: Option<HeadRow> =
            self.first_row(permit, &self.statements.read_head_serially, (slug.as_str(),)).await?;
        Ok(row.map_or(Ok(Lookup::Absent), |row| row.into_base(slug))?)
    }

    /// The entry that a row of the ledger stands for; `None` if it was not done after all.
    pub(super) async fn entry_in(&self, name: &str, row: &LedgerRow) -> Result<Option<Entry>, StoreError> {
        // A name that is no slug was written by hand.
        let Ok(slug) = Slug::parse(name) else { return Ok(None) };
        if let Some(tombstone) = row.tombstone(&slug) {
            return Ok(Some(Entry::Tombstone(tombstone)));
        }
        let permit = self.background_permit().await?;
        let head = match self.settled_head(&permit, &slug).await? {
            Lookup::Deleted(tombstone) => {
                report_missing(self.enter_deletion(&permit, &tombstone).await);
                return Ok(Some(Entry::Tombstone(tombstone)));
            }
            Lookup::Active(base) => base.head,
            Lookup::Hidden(head) => *head,
            Lookup::Absent => return Ok(row.visibility(&slug).map(Entry::Visibility)),
        };
        let visibility = row.visibility_with(&head);
        if let Some(visibility) = &visibility
            && row.visibility(&slug).as_ref() != Some(visibility)
        {
            report_missing(self.enter_visibility(&permit, visibility).await);
        }
        Ok(visibility.map(Entry::Visibility))
    }

    /// The rows between `tokens` that lack what their page shows to be done. Nothing is changed. The token is that after which the
    /// next begin, if there are any.
    pub(super) async fn unended_between(
        &self,
        (after, until): Tokens,
    ) -> Result<(Vec<String>, Option<i64>), StoreError> {
        let mut rows = self.rows_between::<LedgerRow>(&self.operated.read_ledger, (after, until), MAX_KEYS + 1).await?;
        let next = if cut(&mut rows, MAX_KEYS) { rows.back().map(|row| row.place) } else { None };
        let mut unended = Vec::new();
        for Placed { slug: name, row, .. } in rows {
            let is_begun = row.begun_at.is_some() || row.turning_at.is_some();
            let (None, true, Ok(slug)) = (row.version, is_begun, Slug::parse(&name)) else { continue };
            let lacks = match self.read_head(&self.background_permit().await?, &slug).await? {
                Lookup::Deleted(_) => true,
                Lookup::Active(Base { head, .. }) => row.visibility_with(&head) != row.visibility(&slug),
                Lookup::Hidden(_) | Lookup::Absent => false,
            };
            if lacks {
                unended.push(name);
            }
        }
        Ok((unended, next))
    }

    /// Some entries between `tokens`, and the token after which the next begin, if there are any.
    pub(super) async fn ledger_between(&self, tokens: Tokens, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let count = limit.records.clamp(1, MAX_KEYS);
        let (mut after, until) = tokens;
        loop {
            let mut rows =
                self.rows_between::<LedgerRow>(&self.operated.read_ledger, (after, until), count + 1).await?;
            let has_more = cut(&mut rows, count);
            let last = rows.back().map_or(until, |row| row.place);
            let mut batch = ended(Vec::new());
            for Placed { slug: name, row, .. } in rows {
                let entry = self.entry_in(&name, &row).await;
                add_entry(&mut batch, name, entry)?;
            }
            if !has_more || !batch.records.is_empty() || !batch.visibilities.is_empty() {
                return Ok(ScanBatch { next: has_more.then(|| cursor_at(&[(last, until)])), ..batch });
            }
            after = last;
        }
    }
}

/// Adds what the row `name` of the ledger stands for.
pub(super) fn add_entry(
    batch: &mut ScanBatch,
    name: String,
    entry: Result<Option<Entry>, StoreError>,
) -> Result<(), StoreError> {
    match entry {
        Ok(Some(Entry::Tombstone(tombstone))) => batch.records.push(Ok(Record::Deleted(tombstone))),
        Ok(Some(Entry::Visibility(visibility))) => batch.visibilities.push(visibility),
        Ok(Some(Entry::Page(..)) | None) => {}
        Err(StoreError::Unreadable(cause)) => batch.records.push(Err(UnreadableRecord { name, cause })),
        Err(error) => return Err(error),
    }
    Ok(())
}

fn report_missing(entered: Result<(), StoreError>) {
    if let Err(error) = entered {
        tracing::warn!(%error, "an entry is not in the ledger yet; an export finds it by the page");
    }
}
