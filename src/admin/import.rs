//! Imports an export, beside clients and other imports.

use std::{fmt, mem, sync::Arc};

use axum::extract::{RawQuery, State};
use axum::{Json, body::Body};
use futures_util::{StreamExt, TryStreamExt, stream::FuturesOrdered};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio_util::io::StreamReader;

use super::api::{AdminApi, Refusal, failure};
use handbill_pages::service::{Imported, Precedence, ServiceError};
use handbill_pages::values::archive::{ArchivedPage, Decoder, MAX_LINE_BYTES};
use handbill_pages::values::{counted::counted, record::Record};

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
    /// All records until this line are done.
    pub line: u64,
    /// Records counted above are stored nevertheless.
    pub error: Option<String>,
}

/// `POST /import?after=LINE`: a line whose checksum does not match ends the import. Lines until `after` are only checked.
pub(super) async fn receive(
    State(api): State<Arc<AdminApi>>,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Json<ImportReport>, Refusal> {
    let after = query.as_deref().map_or(Some(0), |query| query.strip_prefix("after=")?.parse().ok());
    let after = after.ok_or_else(|| Refusal::invalid("--after is no number of a line."))?;
    let bytes = body.into_data_stream().map_err(std::io::Error::other);
    let lines = BufReader::new(StreamReader::new(bytes));
    let mut archive = Archive { lines, line: Vec::new(), number: 0, after, decoder: Decoder::default() };
    let mut report = ImportReport { line: after, ..ImportReport::default() };
    let mut under_way = FuturesOrdered::new();
    let (mut is_read, mut has_failed) = (false, false);
    loop {
        tokio::select! {
            record = archive.next(), if !is_read && under_way.len() < AT_ONCE => match record {
                Ok(Some((line, record))) => {
                    let importer = &api.importer;
                    under_way.push_back(async move { (line, importer.import(record).await) });
                }
                Ok(None) => is_read = true,
                Err(error) => (is_read, report.error) = (true, Some(error)),
            },
            Some((line, done)) = under_way.next(), if !under_way.is_empty() => match report.count(done) {
                Ok(()) if has_failed => {}
                Ok(()) => report.line = line,
                Err(error) => {
                    (is_read, has_failed) = (true, true);
                    report.error.get_or_insert(error);
                }
            },
            else => break,
        }
    }
    if report.error.is_none() {
        match mem::take(&mut archive.decoder).end() {
            Ok(trailer) => report.missing = trailer.unreadable,
            Err(error) => report.error = Some(error.to_string()),
        }
    }
    // The command reads the answer once it has sent everything.
    let _ = tokio::io::copy(&mut archive.lines, &mut tokio::io::sink()).await;
    tracing::info!(report.pages, report.deletions, error = report.error, "an import ended");
    Ok(Json(report))
}

/// The records of an archive, while it is sent.
struct Archive<R> {
    lines: R,
    /// As far as it was read.
    line: Vec<u8>,
    number: u64,
    after: u64,
    decoder: Decoder,
}

impl<R: AsyncBufRead + Unpin> Archive<R> {
    /// The next record and the number of its line. Dropped, it loses nothing.
    async fn next(&mut self) -> Result<Option<(u64, Record<ArchivedPage>)>, String> {
        loop {
            // The decoder refuses a line that is cut here.
            let room = (MAX_LINE_BYTES + 1 - self.line.len()) as u64;
            let read = (&mut self.lines).take(room).read_until(b'\n', &mut self.line).await;
            read.map_err(|error| error.to_string())?;
            if self.line.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            let record = self.decoder.line(&mem::take(&mut self.line)).map_err(|error| error.to_string())?;
            if let Some(record) = record.filter(|_| self.number > self.after) {
                return Ok(Some((self.number, record)));
            }
        }
    }
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
    fn count(&mut self, done: Result<Imported, ServiceError>) -> Result<(), String> {
        *match done.map_err(|error| failure(&error).1)? {
            Imported { precedence: Precedence::Import, is_page: true } => &mut self.pages,
            Imported { precedence: Precedence::Import, is_page: false } => &mut self.deletions,
            Imported { precedence: Precedence::Same, .. } => &mut self.same,
            Imported { precedence: Precedence::NewerStays, .. } => &mut self.older,
            Imported { precedence: Precedence::StaysDeleted, .. } => &mut self.deleted,
            Imported { precedence: Precedence::StaysHidden, .. } => &mut self.hidden,
        } += 1;
        Ok(())
    }
}
