//! [`PageImport`]: tombstones of pages that this keyspace never had, and records that replace pages.

use async_trait::async_trait;

use super::lwt::{Verdict, Write};
use super::nonces::Nonces;
use super::rows::{HeadParameters, NonceRow, Over};
use super::store::CqlStore;
use crate::domain::page::{PageState, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_import::PageImport;
use crate::ports::page_store::{CasResult, Record, StoreError};

#[async_trait]
impl PageImport for CqlStore {
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone, now: UnixMillis) -> Result<bool, StoreError> {
        let permit = self.permit(&self.writes, &tombstone.slug, None).await?;
        self.begin_deletion(&permit, &tombstone).await?;
        let nonce = self.random_nonce();
        let classify = |row: Option<&NonceRow>| match row {
            None => Verdict::NotYet,
            // Nothing follows a tombstone, so its nonce stays the newest.
            Some(row) if row.carries(tombstone.version, &nonce) => Verdict::Done,
            Some(_) => Verdict::Refused,
        };
        let write = Write {
            slug: &tombstone.slug,
            statement: &self.statements.create_head,
            values: HeadParameters::of_tombstone(&tombstone, &Nonces::first(nonce), Over::Nothing),
            text_inserted_at: None,
            classify: &classify,
        };
        let is_done = self.run(&permit, write).await?;
        // A crash may have left a text that never got a head.
        let texts_until = tombstone.deleted_at.max(now);
        self.end_deletion(&permit, &tombstone, texts_until, is_done).await?;
        Ok(is_done)
    }

    async fn replace(&self, expected: PageState, next: Record, now: UnixMillis) -> Result<CasResult, StoreError> {
        self.swap(expected.version, Some(expected.updated_at), next, now, None).await
    }

    async fn visibility(&self, slug: &Slug) -> Result<Option<Visibility>, StoreError> {
        self.noted_visibility(slug).await
    }

    async fn keep_visibility(&self, visibility: Visibility) -> Result<bool, StoreError> {
        self.note_visibility(&visibility).await
    }
}
