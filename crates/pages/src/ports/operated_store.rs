//! What operators need of a store besides its pages.

use std::{fs::File, path::PathBuf};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use super::page_scan::PageScan;
use super::page_store::{CreatesSwitch, PageStore, StoreError};
use crate::values::{journal::Line, timestamp::UnixMillis};

#[async_trait]
pub trait OperatedStore: PageStore + PageScan + CreatesSwitch {
    /// All of it, or at least what was written `since` then.
    async fn journal(&self, since: Option<UnixMillis>) -> Result<ExportedJournal, StoreError>;

    /// A nameless file with the store as it was at the call. Reads and writes continue. `None` if the store is on
    /// servers that have backups of their own.
    async fn copy(&self) -> Result<Option<File>, StoreError> {
        Ok(None)
    }

    /// Keeps the time of the last copy that was taken away.
    async fn note_backup(&self, _at: UnixMillis) -> Result<(), StoreError> {
        Ok(())
    }

    /// Completes writes that were begun. Later calls fail with [`StoreError::Unavailable`] if only this process has the
    /// store.
    async fn close(&self) {}
}

pub enum ExportedJournal {
    /// Of JSON lines.
    File(PathBuf),
    Lines(BoxStream<'static, Result<Line, StoreError>>),
}
