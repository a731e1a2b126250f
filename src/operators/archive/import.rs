//! Stores the records of an archive or a ledger.

use std::sync::Arc;

use thiserror::Error;

use handbill_core::domain::archive::{Entry, Precedence, Stored, precedence};
use handbill_core::domain::page::{Page, PageState, Tombstone};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, Record, StoreError};
use handbill_core::ports::renderer::{Checks, Purpose, RenderError, Renderer};

/// How many records were stored, and how many were not and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pages: u64,
    /// Tombstones that are now in the store, also in place of a page.
    pub tombstones: u64,
    /// Records that the store had already.
    pub same: u64,
    /// Records that were older than the page in the store.
    pub older: u64,
    /// Pages that the store knows as deleted.
    pub deleted: u64,
    /// Pages that operators have hidden in the store.
    pub hidden: u64,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.pages + self.tombstones + self.same + self.older + self.deleted + self.hidden
    }

    pub fn count(&mut self, done: Done) {
        let field = match (done.precedence, done.is_tombstone) {
            (Precedence::Import, false) => &mut self.pages,
            (Precedence::Import, true) => &mut self.tombstones,
            (Precedence::Same, _) => &mut self.same,
            (Precedence::NewerStays, _) => &mut self.older,
            (Precedence::StaysDeleted, _) => &mut self.deleted,
            (Precedence::StaysHidden, _) => &mut self.hidden,
        };
        *field += 1;
    }
}

/// Why a record is not stored, or not for good. Importing it again is safe.
#[derive(Debug, Error)]
pub enum ImportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page's HTML could not be made.
    #[error(transparent)]
    Rendering(#[from] RenderError),
    /// The tombstone is stored, but the ledger of deletions could not be written, so a restore could bring the page back.
    #[error("a deletion is stored, but it is not in the ledger of deletions")]
    NotInLedger(#[source] StoreError),
}

/// The decision about one record, as it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    precedence: Precedence,
    is_tombstone: bool,
}

/// Stores records in a store that others may use meanwhile.
#[derive(Clone)]
pub struct Importer {
    pub store: Arc<dyn PageImport>,
    pub renderer: Arc<dyn Renderer>,
    pub clock: SharedClock,
}

impl Importer {
    /// Stores `entry`, or leaves what the store has, by [`precedence`]. After a tombstone was imported, the ledger of
    /// deletions has it. Storing an entry twice has the same effect as storing it once.
    pub async fn import(&self, entry: Entry) -> Result<Done, ImportError> {
        let is_tombstone = matches!(entry, Entry::Tombstone(_));
        // Made at the first attempt that stores the page.
        let mut record = None;
        loop {
            let found = self.store.lookup(entry.slug()).await?;
            let stored = match &found {
                Lookup::Active(page) => Stored::Active(page.head.state()),
                Lookup::Hidden(head) => Stored::Hidden(head.state()),
                Lookup::Deleted(_) => Stored::Deleted,
                Lookup::Absent => Stored::Absent,
            };
            let precedence = precedence(stored, &entry);
            if precedence != Precedence::Import {
                // An earlier attempt may have ended before the ledger had the deletion.
                if let (true, Lookup::Deleted(tombstone)) = (is_tombstone, &found) {
                    self.ensure_in_ledger(tombstone).await?;
                }
                return Ok(Done { precedence, is_tombstone });
            }
            let record = match &record {
                Some(record) => record,
                None => record.insert(self.record_of(&entry).await?),
            };
            let now = self.clock.now();
            let is_stored = match (found, record.clone()) {
                (Lookup::Active(page), record) => self.replace(page.head.state(), record, now).await?,
                (Lookup::Hidden(head), record) => self.replace(head.state(), record, now).await?,
                (_, Record::Active(page)) => self.store.insert_if_absent(page, None).await? == InsertResult::Inserted,
                (_, Record::Deleted(tombstone)) => self.store.insert_tombstone_if_absent(tombstone, now).await?,
            };
            if is_stored {
                if let Entry::Tombstone(tombstone) = &entry {
                    self.ensure_in_ledger(tombstone).await?;
                }
                return Ok(Done { precedence, is_tombstone });
            }
            // Somebody else changed the page between the lookup and the write, so there is something new to compare
            // with.
        }
    }

    async fn replace(&self, state: PageState, record: Record, now: UnixMillis) -> Result<bool, ImportError> {
        Ok(self.store.replace(state, record, now).await? == CasResult::Swapped)
    }

    async fn ensure_in_ledger(&self, tombstone: &Tombstone) -> Result<(), ImportError> {
        self.store.ensure_in_ledger(tombstone).await.map_err(ImportError::NotInLedger)
    }

    async fn record_of(&self, entry: &Entry) -> Result<Record, RenderError> {
        Ok(match entry {
            Entry::Page(head, content) => {
                let rendered = self.renderer.render(content, Purpose::Upkeep, Checks::default()).await?.rendered;
                Record::Active(Arc::new(Page::new(head.clone(), content.clone(), rendered)))
            }
            Entry::Tombstone(tombstone) => Record::Deleted(tombstone.clone()),
        })
    }
}
