//! The replacement of a page's head by a new page or a tombstone, for requests and for imports.

use tokio::time::Instant;

use super::lwt::{Verdict, Write};
use super::nonces::{Nonce, Nonces, TextId};
use super::permit::Permit;
use super::recent::Base;
use super::rows::{HeadParameters, NonceRow, Over};
use super::store::CqlStore;
use crate::domain::page::{Page, PageHead, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_store::{CasResult, Lookup, Record, StoreError};

impl CqlStore {
    /// The head of `slug` at the version `expected`, and at `updated_at` if that is given.
    async fn base(
        &self,
        permit: &Permit<'_>,
        slug: &Slug,
        expected: PageVersion,
        updated_at: Option<UnixMillis>,
    ) -> Result<Option<Base>, StoreError> {
        let is_expected = |base: &Base| updated_at.is_none_or(|time| base.head.updated_at == time);
        if let Some(base) = self.recent.at(slug, expected).filter(is_expected) {
            return Ok(Some(base));
        }
        let read = self.read_head(permit, slug).await?;
        let Lookup::Active(base) = read else { return Ok(None) };
        Ok(Some(base).filter(|base| base.head.version == expected && is_expected(base)))
    }

    /// Stores `next` in place of the page with the version `expected`, and the time `updated_at` if that is given. `now` is as
    /// for an import.
    pub(super) async fn swap(
        &self,
        expected: PageVersion,
        updated_at: Option<UnixMillis>,
        next: Record,
        now: UnixMillis,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        let permit = self.permit(&self.writes, next.slug(), needed_by).await?;
        let base = self.base(&permit, next.slug(), expected, updated_at).await?;
        let Some(base) = base else { return Ok(CasResult::Stale) };
        let done = match &next {
            Record::Active(page) if page.head.hidden != base.head.hidden => self.turn(&permit, base, page).await?,
            Record::Active(page) => self.replace_page(&permit, base, page).await?,
            Record::Deleted(tombstone) => self.bury(&permit, base, tombstone, now).await?,
        };
        Ok(if done { CasResult::Swapped } else { CasResult::Stale })
    }

    /// Replaces the head of `base` by `image`, which makes the version `made` with `nonce`.
    async fn replace_head(
        &self,
        permit: &Permit<'_>,
        base: &Base,
        image: HeadParameters,
        made: PageVersion,
        nonce: &Nonce,
        text_inserted_at: Option<UnixMillis>,
    ) -> Result<bool, StoreError> {
        let expected = base.head.version;
        let classify = |row: Option<&NonceRow>| Verdict::of_replacement(row, expected, made, nonce);
        let write = Write {
            slug: &base.head.slug,
            statement: &self.statements.replace_head,
            values: image.replacing(&base.head),
            text_inserted_at,
            classify: &classify,
        };
        let done = self.run(permit, write).await;
        if !matches!(done, Ok(true)) {
            self.recent.forget(&base.head.slug);
        }
        done
    }

    async fn replace_page(&self, permit: &Permit<'_>, base: Base, page: &Page) -> Result<bool, StoreError> {
        let nonce = self.random_nonce();
        let digest = Some(self.recent.digest(page));
        let keeps_text = base.digest == digest;
        let text = if keeps_text { base.text } else { TextId { version: page.head.version, nonce } };
        let inserted_at = if keeps_text { None } else { Some(self.insert_text(permit, page, &text).await?) };
        let nonces = nonces_after(&base, page.head.version, nonce);
        let head = page.head.clone();
        let image = HeadParameters::of_page(&head, text, &nonces, over(&base.head));
        let done = self.replace_head(permit, &base, image, page.head.version, &nonce, inserted_at).await?;
        let slug = &page.head.slug;
        if done {
            self.recent.keep(Base { head, text, digest, nonces });
        }
        match (keeps_text, done) {
            (true, _) => {}
            (false, true) => self.delete_text(permit, slug, base.text, base.head.updated_at).await,
            (false, false) => self.delete_text(permit, slug, text, page.head.updated_at).await,
        }
        Ok(done)
    }

    /// Replaces the page by one that operators have hidden, or shown again, and enters that in the ledger.
    async fn turn(&self, permit: &Permit<'_>, base: Base, page: &Page) -> Result<bool, StoreError> {
        self.begin_turn(permit, &page.head).await?;
        let done = self.replace_page(permit, base, page).await?;
        if done {
            self.end_turn(permit, &page.head).await?;
        }
        Ok(done)
    }

    /// Enters in the ledger that `head`, which is stored, hides or shows its page.
    pub(super) async fn end_turn(&self, permit: &Permit<'_>, head: &PageHead) -> Result<(), StoreError> {
        let entered = self.enter_visibility(permit, &head.visibility()).await;
        entered.map_err(|error| StoreError::OutcomeUnknown(Box::new(error)))
    }

    async fn bury(
        &self,
        permit: &Permit<'_>,
        base: Base,
        tombstone: &Tombstone,
        now: UnixMillis,
    ) -> Result<bool, StoreError> {
        self.begin_deletion(permit, tombstone).await?;
        let nonce = self.random_nonce();
        let nonces = nonces_after(&base, tombstone.version, nonce);
        let image = HeadParameters::of_tombstone(tombstone, &nonces, over(&base.head));
        let done = self.replace_head(permit, &base, image, tombstone.version, &nonce, None).await?;
        if done {
            self.recent.forget(&tombstone.slug);
        }
        let texts_until = tombstone.deleted_at.max(base.head.updated_at).max(now);
        self.end_deletion(permit, tombstone, texts_until, done).await?;
        Ok(done)
    }
}

fn over(head: &PageHead) -> Over {
    if head.hidden.is_some() { Over::AHiddenHead } else { Over::AHead }
}

/// The nonces of the head that follows `base` at the version `made`. Their positions stand for versions, so a head that
/// skips versions begins a new list. An import can replace a head by another of the same version. Then the list is empty:
/// with another nonce in its place, the write that was replaced would seem never to have been done.
fn nonces_after(base: &Base, made: PageVersion, nonce: Nonce) -> Nonces {
    if made == base.head.version.next() {
        base.nonces.and_then(nonce)
    } else if made == base.head.version {
        Nonces::none()
    } else {
        Nonces::first(nonce)
    }
}
