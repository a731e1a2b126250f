//! [`PageImport`]: tombstones of pages that this keyspace never had.

use async_trait::async_trait;

use super::lwt::{Verdict, Write};
use super::nonces::Nonces;
use super::rows::{HeadImage, NonceRow};
use super::store::CqlStore;
use crate::domain::page::Tombstone;
use crate::ports::page_import::PageImport;
use crate::ports::page_store::{InsertResult, StoreError};

#[async_trait]
impl PageImport for CqlStore {
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone) -> Result<InsertResult, StoreError> {
        let permit = self.permit(&self.writes, &tombstone.slug).await?;
        let note = self.begin_deletion(&permit, &tombstone).await?;
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
            values: HeadImage::of_tombstone(&tombstone, &Nonces::first(nonce)),
            classify: &classify,
        };
        let is_done = self.run(&permit, write).await?;
        // A crash may have left a text that never got a head.
        self.end_deletion(&permit, &tombstone, note, is_done).await;
        Ok(if is_done { InsertResult::Inserted } else { InsertResult::SlugTaken })
    }
}
