//! Stores the records of an export, beside clients and other imports.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio_util::io::StreamReader;

use super::api::{AdminApi, Refusal, failure};
use handbill_core::domain::archive::{Decoded, Decoder, Entry, MAX_LINE_BYTES, Precedence, Stored, precedence};
use handbill_core::domain::content::Content;
use handbill_core::domain::counted::counted;
use handbill_core::domain::page::{Page, PageHead, PageState, Tombstone};
use handbill_core::domain::takedown::Visibility;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, Record};
use handbill_core::ports::renderer::{Checks, Purpose, Renderer};
use handbill_core::service::ServiceError;

/// Records that are imported at the same time: enough to share the store's commits.
const AT_ONCE: usize = 32;

/// What became of the records, as the answer of `POST /import`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Pages that are now in the store as they were exported.
    pub pages: u64,
    /// Tombstones that are now in the store, also in place of a page.
    pub deletions: u64,
    /// Records that the store had already.
    pub same: u64,
    /// Pages of which the store has a newer version.
    pub older: u64,
    /// Pages that are deleted in the store.
    pub deleted: u64,
    /// Pages that are hidden in the store.
    pub hidden: u64,
    /// Records that the exported store had and could not read.
    pub missing: u64,
    /// Why the import ended early. What is counted above is stored all the same.
    pub error: Option<String>,
}

/// `POST /import`: reads the lines of an export to their end. A line whose checksum does not match ends the import.
pub(super) async fn receive(State(api): State<Arc<AdminApi>>, body: Body) -> Result<Json<ImportReport>, Refusal> {
    let bytes = body.into_data_stream().map_err(std::io::Error::other);
    let mut lines = BufReader::new(StreamReader::new(bytes));
    let (mut decoder, mut report) = (Decoder::default(), ImportReport::default());
    let mut under_way = stream::FuturesUnordered::new();
    let read = loop {
        let mut line = Vec::new();
        // A line that is too long is cut after the bound, and the decoder refuses it.
        match (&mut lines).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line).await {
            Ok(0) => break decoder.end().map_err(|error| error.to_string()),
            Ok(_) => {}
            Err(error) => break Err(error.to_string()),
        }
        match decoder.line(&line) {
            Ok(Decoded::Entry(entry)) => under_way.push(api.importer.import(entry)),
            Ok(Decoded::Header(_) | Decoded::Trailer(_)) => {}
            Err(error) => break Err(error.to_string()),
        }
        if under_way.len() == AT_ONCE
            && let Some(done) = under_way.next().await
            && let Err(error) = report.count(done)
        {
            break Err(error);
        }
    };
    report.error = read.map(|summary| report.missing = summary.unreadable).err();
    while let Some(done) = under_way.next().await {
        let error = report.count(done).err();
        report.error = report.error.take().or(error);
    }
    tracing::info!(report.pages, report.deletions, error = report.error, "an import ended");
    Ok(Json(report))
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, deletions, same, older, deleted, hidden, .. } = self;
        write!(
            f,
            "stored: {}, {}; left as they were: {same} already there, {older} older than the page in the store, {deleted} deleted in the store, \
             {hidden} hidden in the store",
            counted(*pages, "page"),
            counted(*deletions, "deletion"),
        )
    }
}

impl ImportReport {
    fn count(&mut self, done: Result<Done, ServiceError>) -> Result<(), String> {
        let Done { precedence, kind } = done.map_err(|error| failure(&error).1)?;
        *match (precedence, kind) {
            (Precedence::Import, Kind::Page) => &mut self.pages,
            (Precedence::Import, Kind::Tombstone | Kind::Visibility) => &mut self.deletions,
            (Precedence::Same, _) => &mut self.same,
            (Precedence::NewerStays, _) => &mut self.older,
            (Precedence::StaysDeleted, _) => &mut self.deleted,
            (Precedence::StaysHidden, _) => &mut self.hidden,
        } += 1;
        Ok(())
    }
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
    pub async fn import(&self, entry: Entry) -> Result<Done, ServiceError> {
        match entry {
            Entry::Page(head, content) => self.import_page(head, content).await,
            Entry::Tombstone(tombstone) => self.import_tombstone(tombstone).await,
            Entry::Visibility(visibility) => self.import_visibility(visibility).await,
        }
    }

    async fn import_page(&self, head: PageHead, content: Content) -> Result<Done, ServiceError> {
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

    async fn import_tombstone(&self, tombstone: Tombstone) -> Result<Done, ServiceError> {
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

    async fn import_visibility(&self, visibility: Visibility) -> Result<Done, ServiceError> {
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
    async fn turn(&self, visibility: &Visibility) -> Result<Option<Precedence>, ServiceError> {
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

    async fn replace(&self, state: PageState, record: Record) -> Result<bool, ServiceError> {
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
