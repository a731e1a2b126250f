//! A page or tombstone as a row of `pages`, and every statement on pages, journal and settings.
//!
//! Statements name keyspace and columns, so later columns change nothing.

use std::sync::Arc;

use handbill_pages::ports::page_store::Cause;
use handbill_pages::values::page::{PackedTextError, pack, unpack};
use handbill_pages::values::{head::Head, page::Page, record::Record, slug::Slug};
use scylla::{
    DeserializeRow, SerializeRow, client::session::Session, errors::PrepareError,
    policies::retry::FallthroughRetryPolicy, statement::prepared::PreparedStatement,
};

use super::{session::Limits, settings::ScyllaConsistency};

/// The two lists of columns that reads at a quorum select, and nothing else: Cassandra repairs only selected columns, and other lists
/// would leave rows that no write has made.
const HEAD: &str = "revision, write_ids, head";
const WHOLE: &str = "token(slug) AS \"token\", slug, revision, write_ids, head, text";

const TORN: &str = "the row's columns belong to different revisions of the page, also after a serial read";

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

/// Whether `cell` is of the write that made `revision`. If not, a repair has copied some cells alone.
fn is_of<T>(revision: Option<i64>, cell: Option<&Revised<T>>) -> bool {
    cell.map(|(revision, _)| *revision) == revision
}

impl HeadRow {
    pub(super) fn is_whole(&self) -> bool {
        is_of(self.revision, self.head.as_ref())
    }

    /// `None` if no write was ever done.
    pub(super) fn head(&self, slug: &Slug) -> Result<Option<Head>, Cause> {
        if !self.is_whole() {
            return Err(TORN.into());
        }
        let Some((_, json)) = &self.head else { return Ok(None) };
        let head = Head::from_json(json.as_bytes())?;
        if head.slug == *slug { Ok(Some(head)) } else { Err(format!("the head is of the page {}", head.slug).into()) }
    }
}

impl WholeRow {
    pub(super) fn into_head(self) -> HeadRow {
        let Self { token: _, slug: _, revision, write_ids, head, text: _ } = self;
        HeadRow { revision, write_ids, head }
    }

    pub(super) fn is_whole(&self) -> bool {
        is_of(self.revision, self.head.as_ref()) && is_of(self.revision, self.text.as_ref())
    }

    /// `None` if no write was ever done.
    pub(super) fn into_record(mut self, slug: &Slug) -> Result<Option<Record>, Cause> {
        if !self.is_whole() {
            return Err(TORN.into());
        }
        let (_, packed) = self.text.take().unwrap_or_default();
        let Some(head) = self.into_head().head(slug)? else { return Ok(None) };
        Record::from(head).try_map(|head| Ok(Arc::new(Page { head, text: unpack(&packed)? }))).map(Some)
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

/// Random bytes by which a writer recognises its own write.
pub(super) type WriteId = [u8; 16];

/// How many ids of its last writes a row keeps, besides the id of its first.
pub(super) const KEPT_IDS: u8 = 8;

/// The ids of a row's writes, after another one: the last eight, newest first, then the first, which decides whether a create was done
/// however many writes followed.
pub(super) fn with_id(ids: &[u8], id: &WriteId) -> Vec<u8> {
    let oldest = usize::from(KEPT_IDS) * id.len();
    let mut ids = [id, ids].concat();
    if ids.len() > oldest + id.len() {
        ids.drain(oldest..oldest + id.len());
    }
    ids
}

impl WritePage {
    /// The write `id` of `record` in place of `base`.
    pub(super) fn new(record: &Record, base: Option<HeadRow>, id: WriteId) -> Result<Self, PackedTextError> {
        let (expected_revision, expected_write_ids) = base.map_or((None, None), |base| (base.revision, base.write_ids));
        let revision = expected_revision.unwrap_or(0) + 1;
        let text = record.page().map_or_else(|| Ok(Vec::new()), |page| pack(&page.text))?;
        Ok(Self {
            slug: record.slug().to_string(),
            revision,
            write_ids: with_id(expected_write_ids.as_deref().unwrap_or_default(), &id),
            head: (revision, record.head().to_json()),
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
    /// Two tokens → `WholeRow`s.
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
        let prepared = async |cql: String| {
            let mut statement = session.prepare(cql).await?;
            statement.set_consistency(quorum);
            statement.set_request_timeout(Some(limits.operation));
            statement.set_is_idempotent(true);
            statement.set_use_cached_result_metadata(true);
            Ok::<_, PrepareError>(statement)
        };
        let [pages, journal, settings] = ["pages", "journal", "settings"].map(|table| format!("{keyspace}.{table}"));
        let heads = format!("SELECT {HEAD} FROM {pages} WHERE slug = ?");
        let rows = format!("SELECT {WHOLE} FROM {pages} WHERE slug = ?");
        let scan = format!("SELECT {WHOLE} FROM {pages} WHERE token(slug) > ? AND token(slug) <= ?");
        let write_page = format!(
            "UPDATE {pages} SET revision = :revision, write_ids = :write_ids, head = :head, text = :text \
             WHERE slug = :slug IF revision = :expected_revision AND write_ids = :expected_write_ids"
        );
        let columns = "day, shard, at, slug, id, kind, version, reason, done_by";
        let lines = format!("SELECT {columns}, is_done FROM {journal}");
        let write_line = format!("INSERT INTO {journal} ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
        let key = "day = ? AND shard = ? AND at = ? AND slug = ? AND id = ?";
        let mut statements = Self {
            read_head: prepared(heads).await?,
            read_all: prepared(rows.clone()).await?,
            read_all_serially: prepared(rows).await?,
            scan: prepared(scan).await?,
            write_page: prepared(write_page).await?,
            write_journal: prepared(write_line).await?,
            settle_journal: prepared(format!("UPDATE {journal} SET is_done = ? WHERE {key}")).await?,
            read_journal_of: prepared(format!("{lines} WHERE day = ? AND shard = ?")).await?,
            read_journal: prepared(lines).await?,
            read_setting: prepared(format!("SELECT value FROM {settings} WHERE name = ?")).await?,
            change_setting: prepared(format!("UPDATE {settings} SET value = ? WHERE name = ? IF EXISTS")).await?,
        };
        for conditional in [&mut statements.write_page, &mut statements.change_setting] {
            conditional.set_serial_consistency(Some(serial));
            conditional.set_is_idempotent(false);
            // Cassandra adds columns to a refusal.
            conditional.set_use_cached_result_metadata(false);
            // After a retry, the last error does not say what the first attempt did.
            conditional.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        }
        statements.read_all_serially.set_consistency(serial_read);
        statements.scan.set_page_size(SCAN_ROWS);
        statements.read_journal.set_page_size(JOURNAL_ROWS);
        statements.read_journal_of.set_page_size(JOURNAL_ROWS);
        Ok(statements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_the_last_eight_writes_and_of_the_first_are_kept() {
        let ids = (1..=12).fold(Vec::new(), |ids, number| with_id(&ids, &[number; 16]));
        let kept: Vec<_> = ids.chunks(16).map(|id| id[0]).collect();
        assert_eq!(kept, [12, 11, 10, 9, 8, 7, 6, 5, 1]);
    }
}
