//! Imports an export, beside clients and other imports.

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
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult};
use handbill_pages::ports::renderer::{ContentChecks, Purpose, RenderOutcome, Renderer};
use handbill_pages::service::ServiceError;
use handbill_pages::values::archive::{ArchivedPage, Decoder, MAX_LINE_BYTES, Precedence, precedence};
use handbill_pages::values::counted::counted;
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;

/// Records at the same time, enough to share the store's commits.
const AT_ONCE: usize = 32;

/// The answer of `POST /import`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    pub pages: u64,
    /// Also in place of a page.
    pub deletions: u64,
    pub same: u64,
    /// The store's version is newer.
    pub older: u64,
    pub deleted: u64,
    pub hidden: u64,
    /// Unreadable when exported.
    pub missing: u64,
    /// Records counted above are stored nevertheless.
    pub error: Option<String>,
}

/// `POST /import`: a line whose checksum does not match ends the import.
pub(super) async fn receive(State(api): State<Arc<AdminApi>>, body: Body) -> Result<Json<ImportReport>, Refusal> {
    let bytes = body.into_data_stream().map_err(std::io::Error::other);
    let mut lines = BufReader::new(StreamReader::new(bytes));
    let mut decoder = Decoder::default();
    let mut report = ImportReport::default();
    let mut under_way = stream::FuturesUnordered::new();
    let read = loop {
        let mut line = Vec::new();
        // The decoder refuses a line that is cut here.
        match (&mut lines).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line).await {
            Ok(0) => break decoder.end().map_err(|error| error.to_string()),
            Ok(_) => {}
            Err(error) => break Err(error.to_string()),
        }
        match decoder.line(&line) {
            Ok(Some(record)) => under_way.push(api.importer.import(record)),
            Ok(None) => {}
            Err(error) => break Err(error.to_string()),
        }
        if under_way.len() == AT_ONCE
            && let Some(done) = under_way.next().await
            && let Err(error) = report.count(done)
        {
            break Err(error);
        }
    };
    report.error = read.map(|trailer| report.missing = trailer.unreadable).err();
    while let Some(done) = under_way.next().await {
        let error = report.count(done).err();
        report.error = report.error.take().or(error);
    }
    // The command reads the answer once it has sent everything.
    let _ = tokio::io::copy(&mut lines, &mut tokio::io::sink()).await;
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
        *match done.map_err(|error| failure(&error).1)? {
            (Precedence::Import, true) => &mut self.pages,
            (Precedence::Import, false) => &mut self.deletions,
            (Precedence::Same, _) => &mut self.same,
            (Precedence::NewerStays, _) => &mut self.older,
            (Precedence::StaysDeleted, _) => &mut self.deleted,
            (Precedence::StaysHidden, _) => &mut self.hidden,
        } += 1;
        Ok(())
    }
}

/// The decision about one record, as it was carried out, and whether the record is a page.
type Done = (Precedence, bool);

/// Imports records while others use the store.
#[derive(Clone)]
pub struct Importer {
    pub store: Arc<dyn PageStore>,
    pub renderer: Arc<dyn Renderer>,
}

impl Importer {
    /// Decides by [`precedence`]; importing twice changes nothing more.
    pub async fn import(&self, imported: Record<ArchivedPage>) -> Result<Done, ServiceError> {
        let (head, is_page) = (imported.head(), imported.page().is_some());
        // Made at the first attempt that stores it.
        let mut made = None;
        loop {
            let found = self.store.lookup(&head.slug).await?.head();
            let precedence = precedence(found.as_ref(), &head);
            if precedence != Precedence::Import {
                return Ok((precedence, is_page));
            }
            let record = match made.take() {
                Some(record) => record,
                None => self.record(&imported).await?,
            };
            made = Some(record.clone());
            // Otherwise another request changed the page after the lookup.
            if self.put(Expected::found(found.as_ref()), record).await? {
                return Ok((precedence, is_page));
            }
        }
    }

    async fn record(&self, imported: &Record<ArchivedPage>) -> Result<Record, ServiceError> {
        Ok(match imported {
            Record::Active(page) => Record::Active(self.page(page).await?),
            Record::Hidden(page, takedown) => Record::Hidden(self.page(page).await?, takedown.clone()),
            Record::Deleted(tombstone) => Record::Deleted(tombstone.clone()),
        })
    }

    async fn page(&self, ArchivedPage { head, content }: &ArchivedPage) -> Result<Arc<Page>, ServiceError> {
        let RenderOutcome { rendered, .. } =
            self.renderer.render(content, Purpose::Upkeep, ContentChecks::default()).await?;
        Ok(Arc::new(Page::new(head.clone(), content.clone(), rendered)))
    }

    pub(super) async fn put(&self, expected: Expected, record: Record) -> Result<bool, ServiceError> {
        Ok(self.store.put(expected, record, None).await? == PutResult::Done)
    }
}
