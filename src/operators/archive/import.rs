//! Stores the records of an archive.

use std::sync::Arc;

use thiserror::Error;

use handbill_core::domain::archive::{Entry, Precedence, Stored, precedence};
use handbill_core::domain::content::Content;
use handbill_core::domain::page::{Page, PageHead, PageState, Tombstone};
use handbill_core::domain::takedown::Visibility;
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
    /// Pages that operators hid or showed, and that are so now.
    pub turned: u64,
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
        self.pages + self.tombstones + self.turned + self.same + self.older + self.deleted + self.hidden
    }

    pub fn count(&mut self, done: Done) {
        let field = match (done.precedence, done.kind) {
            (Precedence::Import, Kind::Page) => &mut self.pages,
            (Precedence::Import, Kind::Tombstone) => &mut self.tombstones,
            (Precedence::Import, Kind::Visibility) => &mut self.turned,
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
}

/// The decision about one record, as it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    precedence: Precedence,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Page,
    Tombstone,
    Visibility,
}

impl Done {
    fn of(precedence: Precedence, entry: &Entry) -> Self {
        let kind = match entry {
            Entry::Page(..) => Kind::Page,
            Entry::Tombstone(_) => Kind::Tombstone,
            Entry::Visibility(_) => Kind::Visibility,
        };
        Self { precedence, kind }
    }
}

/// Stores records in a store that others may use meanwhile.
#[derive(Clone)]
pub struct Importer {
    pub store: Arc<dyn PageImport>,
    pub renderer: Arc<dyn Renderer>,
    pub clock: SharedClock,
}

impl Importer {
    /// Stores `entry`, or leaves what the store has, by [`precedence`]. After a tombstone was imported, or that operators
    /// hid or showed a page, the ledger has it. Storing an entry twice has the same effect as storing it once.
    pub async fn import(&self, entry: Entry) -> Result<Done, ImportError> {
        match entry {
            Entry::Page(head, content) => self.import_page(head, content).await,
            Entry::Tombstone(tombstone) => self.import_tombstone(tombstone).await,
            Entry::Visibility(visibility) => self.import_visibility(visibility).await,
        }
    }

    async fn import_page(&self, head: PageHead, content: Content) -> Result<Done, ImportError> {
        // Made at the first attempt that stores the page.
        let mut rendered = None;
        loop {
            let slug = &head.slug;
            let noted = self.store.visibility(slug).await?;
            let head = noted.iter().fold(head.clone(), PageHead::seen_by);
            let found = self.store.lookup(slug).await?;
            let entry = Entry::Page(head.clone(), content.clone());
            let precedence = precedence(stored(&found), &entry);
            if precedence != Precedence::Import {
                return Ok(Done::of(precedence, &entry));
            }
            let rendered = if let Some(rendered) = &rendered {
                rendered
            } else {
                let made = self.renderer.render(&content, Purpose::Upkeep, Checks::default()).await?;
                rendered.insert(made.rendered)
            };
            let page = Arc::new(Page::new(head, content.clone(), rendered.clone()));
            let is_stored = match found.head() {
                Some(head) => self.replace(head.state(), Record::Active(page)).await?,
                None => self.store.insert_if_absent(page, None).await? == InsertResult::Inserted,
            };
            if is_stored {
                // Another import may have entered what operators did since, before it could find the page.
                if let Some(since) = self.store.visibility(slug).await?.filter(|since| noted.as_ref() != Some(since)) {
                    self.turn(&since).await?;
                }
                return Ok(Done::of(precedence, &entry));
            }
            // Somebody else changed the page between the lookup and the write, so there is something new to compare with.
        }
    }

    async fn import_tombstone(&self, tombstone: Tombstone) -> Result<Done, ImportError> {
        let (record, entry) = (Record::Deleted(tombstone.clone()), Entry::Tombstone(tombstone.clone()));
        loop {
            let found = self.store.lookup(&tombstone.slug).await?;
            let precedence = precedence(stored(&found), &entry);
            if precedence != Precedence::Import {
                return Ok(Done::of(precedence, &entry));
            }
            let is_stored = match found.head() {
                Some(head) => self.replace(head.state(), record.clone()).await?,
                None => self.store.insert_tombstone_if_absent(tombstone.clone(), self.clock.now()).await?,
            };
            if is_stored {
                return Ok(Done::of(precedence, &entry));
            }
        }
    }

    async fn import_visibility(&self, visibility: Visibility) -> Result<Done, ImportError> {
        // First in the ledger: so an import of the page at the same time finds it, or this finds the page.
        let is_new = self.store.keep_visibility(visibility.clone()).await?;
        let precedence = match self.turn(&visibility).await? {
            Some(precedence) => precedence,
            None if is_new => Precedence::Import,
            None => Precedence::Same,
        };
        Ok(Done::of(precedence, &Entry::Visibility(visibility)))
    }

    /// Hides or shows the page of `visibility`; `None` if it is not there.
    async fn turn(&self, visibility: &Visibility) -> Result<Option<Precedence>, ImportError> {
        loop {
            let found = self.store.lookup(&visibility.slug).await?;
            let precedence = precedence(stored(&found), &Entry::Visibility(visibility.clone()));
            let page = match found {
                Lookup::Absent => return Ok(None),
                Lookup::Active(page) if precedence == Precedence::Import => Some(page),
                Lookup::Hidden(head) if precedence == Precedence::Import => self.store.page(&head).await?,
                _ => return Ok(Some(precedence)),
            };
            // Without a page, somebody else has changed it since.
            let Some(page) = page else { continue };
            let head = page.head.clone().seen_by(visibility);
            let next = Record::Active(Arc::new(Page { head, text: page.text.clone() }));
            if self.replace(page.head.state(), next).await? {
                return Ok(Some(precedence));
            }
        }
    }

    async fn replace(&self, state: PageState, record: Record) -> Result<bool, ImportError> {
        Ok(self.store.replace(state, record, self.clock.now()).await? == CasResult::Swapped)
    }
}

/// The state of the record that was found, as it counts against another.
fn stored(found: &Lookup) -> Stored {
    match found {
        Lookup::Active(page) => Stored::Active(page.head.state()),
        Lookup::Hidden(head) => Stored::Hidden(head.state()),
        Lookup::Deleted(_) => Stored::Deleted,
        Lookup::Absent => Stored::Absent,
    }
}
