//! Every statement on pages and the journal, with its consistency and whether the driver may repeat it.
//!
//! Statements name keyspace and columns, so later columns change nothing. The driver must not cache a conditional
//! write's answer columns: Cassandra adds some to a refusal.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};

use super::row::{ALL, HEAD};
use super::session::Limits;
use super::settings::ScyllaConsistency;

/// A few megabytes with the largest texts.
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
            format!("SELECT token(slug), slug, {ALL} FROM {pages} WHERE token(slug) > ? AND token(slug) <= ? LIMIT ?"),
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
            read_all: plain(format!("SELECT {ALL} FROM {pages} WHERE slug = ?"), quorum).await?,
            read_all_serially: plain(format!("SELECT {ALL} FROM {pages} WHERE slug = ?"), serial_read).await?,
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
