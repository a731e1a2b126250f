//! A page or tombstone as a row of `pages`, and every statement on pages, journal and settings.
//!
//! Statements name keyspace and columns, so later columns change nothing. The driver must not cache a conditional
//! write's answer columns: Cassandra adds some to a refusal.

use std::sync::Arc;

use handbill_pages::ports::page_store::{Lookup, Record, StoreError};
use handbill_pages::values::edit_key::EditKeyHash;
use handbill_pages::values::packed_text::{self, PackedTextError};
use handbill_pages::values::page::{Page, PageHead, PageVersion, Tombstone};
use handbill_pages::values::slug::Slug;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;
use scylla::client::session::Session;
use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::deserialize::value::DeserializeValue;
use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::errors::PrepareError;
use scylla::frame::response::result::ColumnSpec;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use scylla::value::CqlTimestamp;
use scylla::{DeserializeRow, SerializeRow};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_128;

use super::conditional_write::{WriteId, WriteIds};
use super::session::Limits;
use super::settings::ScyllaConsistency;

/// All columns but `slug` and `text`. Reads at a quorum select these, or `text` and these, and nothing else: Cassandra
/// repairs only selected columns, and other lists would leave rows that no write has made.
const HEAD: &str = "revision, write_ids, state, version, created_at, updated_at, title, key_hash, link_origins, \
     renderer_version, takedown_reason, takedown_by, text_revision, text_digest";

const ACTIVE: &str = "active";
const HIDDEN: &str = "hidden";
const DELETED: &str = "deleted";

#[derive(Debug, Error)]
pub(super) enum RowError {
    #[error("the column {0} is missing or out of range")]
    Column(&'static str),
    #[error("the state is {0:?}, which this version does not know")]
    State(String),
    #[error("the text belongs to another revision of the page, also after a serial read")]
    OtherText,
    #[error(transparent)]
    Text(#[from] PackedTextError),
}

impl From<RowError> for StoreError {
    fn from(error: RowError) -> Self {
        Self::Unreadable(Box::new(error))
    }
}

#[derive(Debug, DeserializeRow)]
pub(super) struct HeadRow {
    pub(super) revision: Option<i64>,
    pub(super) write_ids: Option<Vec<u8>>,
    state: Option<String>,
    version: Option<i64>,
    created_at: Option<CqlTimestamp>,
    updated_at: Option<CqlTimestamp>,
    title: Option<String>,
    key_hash: Option<Vec<u8>>,
    link_origins: Option<Vec<String>>,
    renderer_version: Option<i32>,
    takedown_reason: Option<String>,
    takedown_by: Option<String>,
    text_revision: Option<i64>,
    text_digest: Option<Vec<u8>>,
}

/// One column, then the columns of `R`.
#[derive(Debug)]
pub(super) struct After<C, R>(pub(super) C, pub(super) R);

pub(super) type WholeRow = After<Option<Vec<u8>>, HeadRow>;

impl<'frame, 'metadata, C, R> DeserializeRow<'frame, 'metadata> for After<C, R>
where
    C: DeserializeValue<'frame, 'metadata>,
    R: DeserializeRow<'frame, 'metadata>,
{
    fn type_check(specs: &[ColumnSpec<'_>]) -> Result<(), TypeCheckError> {
        let (first, others) = specs.split_at(specs.len().min(1));
        <(C,) as DeserializeRow>::type_check(first)?;
        R::type_check(others)
    }

    fn deserialize(mut columns: ColumnIterator<'frame, 'metadata>) -> Result<Self, DeserializationError> {
        let missing = || DeserializationError::new(RowError::Column("first"));
        let first = columns.next().ok_or_else(missing)??;
        Ok(Self(C::deserialize(first.spec.typ(), first.slice)?, R::deserialize(columns)?))
    }
}

impl HeadRow {
    pub(super) fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, RowError> {
        let Some(state) = self.state.as_deref() else { return Ok(Lookup::Absent) };
        let version = PageVersion::new(self.version.ok_or(RowError::Column("version"))?.cast_unsigned());
        let created_at = time(self.created_at, "created_at")?;
        let updated_at = time(self.updated_at, "updated_at")?;
        let takedown = self.takedown()?;
        if state == DELETED {
            let tombstone = Tombstone { slug: slug.clone(), version, created_at, deleted_at: updated_at, takedown };
            return Ok(Lookup::Deleted(tombstone));
        }
        if ![ACTIVE, HIDDEN].contains(&state) {
            return Err(RowError::State(state.to_owned()));
        }
        let hidden = if state == HIDDEN { Some(takedown.ok_or(RowError::Column("takedown_reason"))?) } else { None };
        let key_hash = self.key_hash.as_deref().and_then(|hash| hash.try_into().ok());
        let renderer_version = self.renderer_version.and_then(|version| u16::try_from(version).ok());
        let title = self.title.as_deref().filter(|title| !title.is_empty());
        Ok(PageHead {
            slug: slug.clone(),
            title: title.map(|title| Title::from_stored(title.to_owned())),
            key_hash: EditKeyHash::from_bytes(key_hash.ok_or(RowError::Column("key_hash"))?),
            version,
            created_at,
            updated_at,
            link_origins: self.link_origins.clone().unwrap_or_default(),
            renderer_version: renderer_version.ok_or(RowError::Column("renderer_version"))?,
            hidden: hidden.map(Box::new),
        }
        .into())
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.state.as_deref() == Some(HIDDEN)
    }

    fn takedown(&self) -> Result<Option<Takedown>, RowError> {
        let Some(code) = self.takedown_reason.as_deref().filter(|code| !code.is_empty()) else { return Ok(None) };
        let reason: TakedownReason = code.parse().map_err(|_| RowError::Column("takedown_reason"))?;
        Ok(Some(Takedown { reason, by: self.takedown_by.clone().unwrap_or_default() }))
    }
}

impl WholeRow {
    /// Whether text and head belong together. If not, a repair has copied the head without its text.
    pub(super) fn is_whole(&self) -> bool {
        let Self(text, head) = self;
        let made_by = text.as_deref().and_then(|text| text.first_chunk()).map(|made| i64::from_be_bytes(*made));
        made_by == head.text_revision
    }

    pub(super) fn page(&self, head: PageHead) -> Result<Arc<Page>, RowError> {
        let Some((_, packed)) =
            self.0.as_deref().filter(|_| self.is_whole()).and_then(|text| text.split_first_chunk::<8>())
        else {
            return Err(RowError::OtherText);
        };
        Ok(Arc::new(Page { head, text: packed_text::unpack(packed)? }))
    }

    pub(super) fn record(&self, slug: &Slug) -> Result<Option<Record>, RowError> {
        Ok(match self.1.head(slug)? {
            Lookup::Active(head) | Lookup::Hidden(head) => Some(Record::Active(self.page(head)?)),
            Lookup::Deleted(tombstone) => Some(Record::Deleted(tombstone)),
            Lookup::Absent => None,
        })
    }
}

#[derive(SerializeRow)]
pub(super) struct HeadValues<'a> {
    slug: &'a str,
    pub(super) revision: i64,
    write_ids: Vec<u8>,
    state: &'static str,
    version: i64,
    created_at: CqlTimestamp,
    updated_at: CqlTimestamp,
    title: &'a str,
    key_hash: &'a [u8],
    link_origins: &'a [String],
    renderer_version: i32,
    takedown_reason: &'static str,
    takedown_by: &'a str,
    text_revision: i64,
    text_digest: Vec<u8>,
}

/// A text that is not packed yet; empty for a tombstone. An author who forges a digest can only lose their own change.
pub(super) struct Text {
    encoded: Vec<u8>,
    digest: Vec<u8>,
}

impl Text {
    pub(super) fn of(record: &Record) -> Result<Self, RowError> {
        let Record::Active(page) = record else { return Ok(Self { encoded: Vec::new(), digest: Vec::new() }) };
        let encoded = packed_text::encode(&page.text)?;
        let digest = xxh3_128(&encoded).to_be_bytes().to_vec();
        Ok(Self { encoded, digest })
    }

    pub(super) fn is_in(&self, row: &HeadRow) -> bool {
        row.text_digest.as_deref() == Some(&self.digest)
    }

    pub(super) fn cell(&self, revision: i64) -> Result<Vec<u8>, RowError> {
        let prefix = revision.to_be_bytes();
        Ok(if self.encoded.is_empty() { prefix.to_vec() } else { packed_text::pack(&prefix, &self.encoded)? })
    }
}

impl<'a> HeadValues<'a> {
    /// The values that the write `id` puts in the place of `base`, and whether the text must be written.
    pub(super) fn new(record: &'a Record, text: &Text, base: Option<&HeadRow>, id: WriteId) -> (Self, bool) {
        let revision = base.and_then(|base| base.revision).unwrap_or(0) + 1;
        let ids = WriteIds::of_bytes(base.and_then(|base| base.write_ids.as_deref()).unwrap_or_default()).with(id);
        let kept = base.filter(|base| text.is_in(base)).and_then(|base| base.text_revision);
        let common = |slug: &'a Slug, version: PageVersion, times: [UnixMillis; 2], takedown: Option<&'a Takedown>| {
            let [created_at, updated_at] = times.map(|time| CqlTimestamp(time.get()));
            Self {
                slug: slug.as_str(),
                revision,
                write_ids: ids.to_bytes(),
                state: DELETED,
                version: version.get().cast_signed(),
                created_at,
                updated_at,
                title: "",
                key_hash: &[],
                link_origins: &[],
                renderer_version: 0,
                takedown_reason: takedown.map_or("", |takedown| takedown.reason.code()),
                takedown_by: takedown.map_or("", |takedown| takedown.by.as_str()),
                text_revision: kept.unwrap_or(revision),
                text_digest: text.digest.clone(),
            }
        };
        let values = match record {
            Record::Deleted(Tombstone { slug, version, created_at, deleted_at, takedown }) => {
                common(slug, *version, [*created_at, *deleted_at], takedown.as_ref())
            }
            Record::Active(page) => {
                let head = &page.head;
                let times = [head.created_at, head.updated_at];
                Self {
                    state: if head.hidden.is_some() { HIDDEN } else { ACTIVE },
                    title: head.title.as_ref().map_or("", Title::as_str),
                    key_hash: head.key_hash.as_bytes(),
                    link_origins: &head.link_origins,
                    renderer_version: head.renderer_version.into(),
                    ..common(&head.slug, head.version, times, head.hidden.as_deref())
                }
            }
        };
        (values, kept.is_none())
    }
}

fn time(column: Option<CqlTimestamp>, name: &'static str) -> Result<UnixMillis, RowError> {
    column.map(|CqlTimestamp(millis)| UnixMillis::new(millis)).ok_or(RowError::Column(name))
}

/// Rows that a scan gets at once, a few megabytes with the largest texts.
const SCAN_ROWS: i32 = 16;

const JOURNAL_ROWS: i32 = 1000;

pub(super) struct Statements {
    pub(super) read_head: PreparedStatement,
    pub(super) read_all: PreparedStatement,
    /// Also completes interrupted writes.
    pub(super) read_all_serially: PreparedStatement,
    /// Two tokens and a number → tokens, slugs and `WholeRow`s.
    pub(super) scan: PreparedStatement,
    /// Binds a `WritePage`.
    pub(super) write_page: PreparedStatement,
    pub(super) write_journal: PreparedStatement,
    pub(super) void_journal: PreparedStatement,
    pub(super) read_journal: PreparedStatement,
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
        let set = HEAD.split(", ").map(|column| format!("{column} = :{column}")).collect::<Vec<_>>().join(", ");
        let mut scan = plain(
            format!(
                "SELECT token(slug), slug, text, {HEAD} FROM {pages} WHERE token(slug) > ? AND token(slug) <= ? LIMIT ?"
            ),
            quorum,
        )
        .await?;
        scan.set_page_size(SCAN_ROWS);
        let mut read_journal = plain(
            format!("SELECT day, shard, at, slug, id, kind, version, reason, done_by, is_void FROM {journal}"),
            quorum,
        )
        .await?;
        read_journal.set_page_size(JOURNAL_ROWS);
        Ok(Self {
            read_head: plain(format!("SELECT {HEAD} FROM {pages} WHERE slug = ?"), quorum).await?,
            read_all: plain(format!("SELECT text, {HEAD} FROM {pages} WHERE slug = ?"), quorum).await?,
            read_all_serially: plain(format!("SELECT text, {HEAD} FROM {pages} WHERE slug = ?"), serial_read).await?,
            scan,
            write_page: conditional(format!(
                "UPDATE {pages} SET {set}, text = :text WHERE slug = :slug \
                 IF revision = :expected_revision AND write_ids = :expected_write_ids"
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
            void_journal: plain(
                format!(
                    "UPDATE {journal} SET is_void = true WHERE day = ? AND shard = ? AND at = ? AND slug = ? AND id = ?"
                ),
                quorum,
            )
            .await?,
            read_journal,
            read_setting: plain(format!("SELECT value FROM {settings} WHERE name = ?"), quorum).await?,
            change_setting: conditional(format!("UPDATE {settings} SET value = ? WHERE name = ? IF EXISTS")).await?,
        })
    }
}
