//! A page or tombstone as a row of `pages`, and every statement on pages, journal and settings.
//!
//! Statements name keyspace and columns, so later columns change nothing. The driver must not cache a conditional
//! write's answer columns: Cassandra adds some to a refusal.

use std::sync::Arc;

use handbill_pages::ports::page_store::StoreError;
use handbill_pages::values::head::{Head, HeadError, PageHead};
use handbill_pages::values::packed_text::{self, PackedTextError};
use handbill_pages::values::page::Page;
use handbill_pages::values::record::{Lookup, Record};
use handbill_pages::values::slug::Slug;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use scylla::{DeserializeRow, SerializeRow};
use thiserror::Error;

use super::conditional_write::{WriteId, WriteIds};
use super::session::Limits;
use super::settings::ScyllaConsistency;

/// The two lists of columns that reads at a quorum select, and nothing else: Cassandra repairs only selected columns, and other lists
/// would leave rows that no write has made.
const HEAD: &str = "revision, write_ids, head";
const WHOLE: &str = "token(slug) AS \"token\", slug, revision, write_ids, head, text";

#[derive(Debug, Error)]
pub(super) enum RowError {
    #[error("the column {0} is missing")]
    Column(&'static str),
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error("the head is of the page {0}")]
    OtherPage(Slug),
    #[error("the row's columns belong to different revisions of the page, also after a serial read")]
    Torn,
    #[error(transparent)]
    Text(#[from] PackedTextError),
}

impl From<RowError> for StoreError {
    fn from(error: RowError) -> Self {
        Self::Unreadable(Box::new(error))
    }
}

/// A cell with the revision of the write that made it.
type Revised<T> = (i64, T);

#[derive(Debug, DeserializeRow)]
pub(super) struct HeadRow {
    pub(super) revision: Option<i64>,
    pub(super) write_ids: Option<Vec<u8>>,
    head: Option<Revised<String>>,
}

#[derive(Debug, DeserializeRow)]
pub(super) struct WholeRow {
    pub(super) token: i64,
    pub(super) slug: String,
    revision: Option<i64>,
    write_ids: Option<Vec<u8>>,
    head: Option<Revised<String>>,
    text: Option<Revised<Vec<u8>>>,
}

impl HeadRow {
    /// Whether all cells are of one write. If not, a repair has copied some of them alone.
    pub(super) fn is_whole(&self) -> bool {
        self.head.as_ref().map(|(revision, _)| *revision) == self.revision
    }

    /// `None` if no write was ever done.
    pub(super) fn head(&self, slug: &Slug) -> Result<Option<Head>, RowError> {
        if !self.is_whole() {
            return Err(RowError::Torn);
        }
        let Some((_, json)) = &self.head else { return Ok(None) };
        let head = Head::from_json(json.as_bytes())?;
        if head.slug == *slug { Ok(Some(head)) } else { Err(RowError::OtherPage(head.slug)) }
    }

    pub(super) fn lookup(&self, slug: &Slug) -> Result<Lookup<PageHead>, RowError> {
        Ok(self.head(slug)?.map(Record::from).into())
    }
}

impl WholeRow {
    pub(super) fn into_head(self) -> HeadRow {
        let Self { token: _, slug: _, revision, write_ids, head, text: _ } = self;
        HeadRow { revision, write_ids, head }
    }

    pub(super) fn is_whole(&self) -> bool {
        let revisions =
            [self.head.as_ref().map(|(revision, _)| *revision), self.text.as_ref().map(|(revision, _)| *revision)];
        revisions.iter().all(|revision| *revision == self.revision)
    }

    /// `None` if no write was ever done.
    pub(super) fn into_record(self, slug: &Slug) -> Result<Option<Record>, RowError> {
        if !self.is_whole() {
            return Err(RowError::Torn);
        }
        let Self { token: _, slug: _, revision, write_ids, head, text } = self;
        let Some(head) = (HeadRow { revision, write_ids, head }).head(slug)? else { return Ok(None) };
        let (_, packed) = text.ok_or(RowError::Column("text"))?;
        let page = |head| Ok::<_, RowError>(Arc::new(Page { head, text: packed_text::unpack(&packed)? }));
        Record::from(head).try_map(page).map(Some)
    }
}

/// A row to write in place of the row with the expected values, or of no row if they are null. It sets every cell: a cell that a
/// write leaves out would keep a value that no later write may have.
#[derive(SerializeRow)]
pub(super) struct WritePage {
    slug: String,
    revision: i64,
    write_ids: Vec<u8>,
    head: Revised<String>,
    text: Revised<Vec<u8>>,
    pub(super) expected_revision: Option<i64>,
    expected_write_ids: Option<Vec<u8>>,
}

impl WritePage {
    /// The write `id` of `record` in place of `base`.
    pub(super) fn new(record: &Record, base: Option<&HeadRow>, id: WriteId) -> Result<Self, RowError> {
        let expected_revision = base.and_then(|base| base.revision);
        let expected_write_ids = base.and_then(|base| base.write_ids.clone());
        let revision = expected_revision.unwrap_or(0) + 1;
        let ids = WriteIds::of_bytes(expected_write_ids.as_deref().unwrap_or_default()).with(id);
        let head = record.head();
        let text = match record.page() {
            Some(page) => packed_text::pack(&[], &packed_text::encode(&page.text)?)?,
            None => Vec::new(),
        };
        Ok(Self {
            slug: head.slug.to_string(),
            revision,
            write_ids: ids.to_bytes(),
            head: (revision, head.to_json()),
            text: (revision, text),
            expected_revision,
            expected_write_ids,
        })
    }
}

/// Rows that a scan gets at once, a few megabytes with the largest texts.
const SCAN_ROWS: i32 = 16;

const JOURNAL_ROWS: i32 = 1000;

pub(super) struct Statements {
    pub(super) read_head: PreparedStatement,
    pub(super) read_all: PreparedStatement,
    /// Also completes interrupted writes.
    pub(super) read_all_serially: PreparedStatement,
    /// Two tokens and a number → `WholeRow`s.
    pub(super) scan: PreparedStatement,
    /// Binds a `WritePage`.
    pub(super) write_page: PreparedStatement,
    pub(super) write_journal: PreparedStatement,
    pub(super) settle_journal: PreparedStatement,
    pub(super) read_journal: PreparedStatement,
    /// One partition, by day and shard.
    pub(super) read_journal_of: PreparedStatement,
    pub(super) read_setting: PreparedStatement,
    /// Binds value and name; the setting must exist.
    pub(super) change_setting: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        keyspace: &str,
        consistency: ScyllaConsistency,
        limits: &Limits,
    ) -> Result<Self, PrepareError> {
        let (quorum, serial, serial_read) = consistency.levels();
        let plain = async |cql: String, at: Consistency| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(at);
            statement.set_request_timeout(Some(limits.operation));
            statement.set_is_idempotent(true);
            statement.set_use_cached_result_metadata(true);
            Ok::<_, PrepareError>(statement)
        };
        let conditional = async |cql: String| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(quorum);
            statement.set_serial_consistency(Some(serial));
            statement.set_request_timeout(Some(limits.operation));
            statement.set_is_idempotent(false);
            // After a retry, the last error does not say what the first attempt did.
            statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
            Ok::<_, PrepareError>(statement)
        };
        let [pages, journal, settings] = ["pages", "journal", "settings"].map(|table| format!("{keyspace}.{table}"));
        let mut scan =
            plain(format!("SELECT {WHOLE} FROM {pages} WHERE token(slug) > ? AND token(slug) <= ? LIMIT ?"), quorum)
                .await?;
        scan.set_page_size(SCAN_ROWS);
        let rows = format!("SELECT day, shard, at, slug, id, kind, version, reason, done_by, is_done FROM {journal}");
        let mut read_journal_of = plain(format!("{rows} WHERE day = ? AND shard = ?"), quorum).await?;
        read_journal_of.set_page_size(JOURNAL_ROWS);
        let mut read_journal = plain(rows, quorum).await?;
        read_journal.set_page_size(JOURNAL_ROWS);
        Ok(Self {
            read_head: plain(format!("SELECT {HEAD} FROM {pages} WHERE slug = ?"), quorum).await?,
            read_all: plain(format!("SELECT {WHOLE} FROM {pages} WHERE slug = ?"), quorum).await?,
            read_all_serially: plain(format!("SELECT {WHOLE} FROM {pages} WHERE slug = ?"), serial_read).await?,
            scan,
            write_page: conditional(format!(
                "UPDATE {pages} SET revision = :revision, write_ids = :write_ids, head = :head, text = :text \
                 WHERE slug = :slug IF revision = :expected_revision AND write_ids = :expected_write_ids"
            ))
            .await?,
            write_journal: plain(
                format!(
                    "INSERT INTO {journal} (day, shard, at, slug, id, kind, version, reason, done_by) \
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                ),
                quorum,
            )
            .await?,
            settle_journal: plain(
                format!(
                    "UPDATE {journal} SET is_done = ? WHERE day = ? AND shard = ? AND at = ? AND slug = ? AND id = ?"
                ),
                quorum,
            )
            .await?,
            read_journal,
            read_journal_of,
            read_setting: plain(format!("SELECT value FROM {settings} WHERE name = ?"), quorum).await?,
            change_setting: conditional(format!("UPDATE {settings} SET value = ? WHERE name = ? IF EXISTS")).await?,
        })
    }
}
