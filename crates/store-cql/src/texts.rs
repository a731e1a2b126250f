//! The texts of pages: immutable rows that heads point to. `mod` says when each is written and deleted.

use std::sync::Arc;

use scylla::DeserializeRow;

use super::nonces::TextId;
use super::permit::Permit;
use super::rows::{TextParameters, UnreadableRow};
use super::statements::Statements;
use super::store::CqlStore;
use super::write_times;
use crate::domain::content::Content;
use crate::domain::language::Language;
use crate::domain::page::{Page, PageHead, PageText};
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_store::StoreError;

/// A text as CQL returns it, with what names it under its slug. Any other column may be missing.
#[derive(DeserializeRow)]
pub(super) struct TextRow {
    pub(super) text_version: i64,
    pub(super) text_nonce: Vec<u8>,
    pub(super) content: Option<String>,
    pub(super) html: Option<String>,
    pub(super) excerpt: Option<String>,
    pub(super) code_blocks: Option<Vec<i32>>,
    pub(super) language: Option<String>,
}

impl TextRow {
    pub(super) fn is(&self, text: TextId) -> bool {
        self.text_version == text.version.get().cast_signed() && self.text_nonce == text.nonce
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.content, &self.html, &self.excerpt].into_iter().flatten().map(String::len).sum()
    }

    pub(super) fn into_page(self, head: PageHead) -> Result<Arc<Page>, UnreadableRow> {
        let missing = UnreadableRow::Column;
        let text = PageText {
            content: self.content.map(Content::from_stored).ok_or(missing("content"))?,
            html: self.html.ok_or(missing("html"))?,
            excerpt: self.excerpt.unwrap_or_default(),
            code_blocks: self.code_blocks.unwrap_or_default().into_iter().map(i32::cast_unsigned).collect(),
            language: self.language.as_deref().and_then(Language::from_code),
        };
        Ok(Arc::new(Page { head, text }))
    }
}

impl CqlStore {
    /// The page of `head`; `None` if its text is gone.
    pub(super) async fn read_text(
        &self,
        permit: &Permit<'_>,
        head: &PageHead,
        text: TextId,
    ) -> Result<Option<Arc<Page>>, StoreError> {
        let key = (head.slug.as_str(), text.version.get().cast_signed(), text.nonce.as_slice());
        let Statements { read_text, scan_text, .. } = &self.statements;
        let read = if permit.is_of_operator() { scan_text } else { read_text };
        let row: Option<TextRow> = self.first_row(permit, read, key).await?;
        let page = row.map(|row| row.into_page(head.clone())).transpose()?;
        if let Some(page) = &page {
            self.recent.learn_text(page, text);
        }
        Ok(page)
    }

    /// Stores the text of `page` under `text`, where nobody sees it before a head points to it. Returns when it was inserted.
    pub(super) async fn insert_text(
        &self,
        permit: &Permit<'_>,
        page: &Page,
        text: &TextId,
    ) -> Result<UnixMillis, StoreError> {
        let now = self.clock.now();
        let values = TextParameters::of(page, text, now, write_times::of_text(page.head.updated_at));
        self.write(permit, &self.statements.insert_text, values).await?;
        Ok(now)
    }

    /// Deletes a text of `slug` that no head points to any more, or never will. `updated_at` is a time of the page that
    /// is not before the text's.
    pub(super) async fn delete_text(&self, permit: &Permit<'_>, slug: &Slug, text: TextId, updated_at: UnixMillis) {
        let (version, nonce) = (text.version.get().cast_signed(), text.nonce);
        let values = (write_times::above_text(updated_at), slug.as_str(), version, nonce.as_slice());
        log_failure(self.write(permit, &self.statements.delete_text, values).await);
    }

    /// Deletes all texts of a deleted page that were written until `until`.
    pub(super) async fn delete_texts(&self, permit: &Permit<'_>, slug: &Slug, until: UnixMillis) {
        let values = (write_times::above_text(until), slug.as_str());
        log_failure(self.write(permit, &self.statements.delete_texts, values).await);
    }
}

/// A text that nothing points to stays until somebody deletes it. No request can read it.
fn log_failure(deleted: Result<(), StoreError>) {
    if let Err(error) = deleted {
        tracing::warn!(%error, "a text that no page shows any more was not deleted: run `handbill sweep`");
    }
}
