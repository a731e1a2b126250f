//! Every CQL statement on pages, with its consistency and idempotence.
//!
//! | statement | consistency | serial | driver may send it twice |
//! |---|---|---|---|
//! | [`Statements::lookup`] | `LOCAL_QUORUM` | | yes |
//! | [`Statements::read_nonces`] | `LOCAL_SERIAL` | | yes |
//! | [`Statements::insert`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//! | [`Statements::replace`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//! | [`Statements::delete`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//!
//! Each statement names its keyspace, so that no connection has to be switched to a keyspace. Each statement names its
//! columns, so that a column that a later migration adds changes nothing here. The driver must not cache the columns of
//! a conditional write's answer: Cassandra answers with more columns if it refuses the write.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use super::session::{CqlTimeouts, ReadRetries};

/// The statements, prepared for one keyspace.
pub(super) struct Statements {
    /// Binds the slug, yields a [`super::rows::PageRow`].
    pub(super) lookup: PreparedStatement,
    /// Binds the slug, yields a [`super::rows::NonceRow`].
    pub(super) read_nonces: PreparedStatement,
    /// Binds [`super::rows::insert_values`].
    pub(super) insert: PreparedStatement,
    /// Binds [`super::rows::replace_values`].
    pub(super) replace: PreparedStatement,
    /// Binds [`super::rows::delete_values`].
    pub(super) delete: PreparedStatement,
}

impl Statements {
    /// Prepares all statements for `keyspace`, which must have the current schema. The driver spends at most the time
    /// of one operation on each request.
    pub(super) async fn prepare(
        session: &Session,
        keyspace: &str,
        timeouts: CqlTimeouts,
    ) -> Result<Self, PrepareError> {
        let read = async |cql: String, consistency| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(consistency);
            statement.set_request_timeout(Some(timeouts.operation));
            statement.set_is_idempotent(true);
            statement.set_retry_policy(Some(Arc::new(ReadRetries)));
            Ok::<_, PrepareError>(statement)
        };
        let write = async |cql: String| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(Consistency::LocalQuorum);
            statement.set_serial_consistency(Some(SerialConsistency::LocalSerial));
            statement.set_request_timeout(Some(timeouts.operation));
            statement.set_is_idempotent(false);
            // The driver's default policy repeats some failed writes and then returns only the last error. This error
            // does not say what the first attempt did.
            statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
            Ok::<_, PrepareError>(statement)
        };
        Ok(Self {
            lookup: read(
                format!(
                    "SELECT state, version, title, content, html, excerpt, code_blocks, link_origins, language, \
                     renderer_version, key_hash, created_at, updated_at, deleted_at FROM {keyspace}.pages WHERE slug = ?"
                ),
                Consistency::LocalQuorum,
            )
            .await?,
            read_nonces: read(
                format!("SELECT state, version, key_hash, nonces FROM {keyspace}.pages WHERE slug = ?"),
                Consistency::LocalSerial,
            )
            .await?,
            insert: write(format!(
                "INSERT INTO {keyspace}.pages (slug, state, version, title, content, html, excerpt, code_blocks, \
                 link_origins, language, renderer_version, key_hash, created_at, updated_at, nonces) \
                 VALUES (?, 'active', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            replace: write(format!(
                "UPDATE {keyspace}.pages SET version = ?, title = ?, content = ?, html = ?, excerpt = ?, \
                 code_blocks = ?, link_origins = ?, language = ?, renderer_version = ?, key_hash = ?, created_at = ?, updated_at = ?, nonces[?] = ? \
                 WHERE slug = ? IF version = ? AND state = 'active'"
            ))
            .await?,
            // No condition here compares with null: such a condition also holds if there is no row, and the write would
            // then create a row.
            delete: write(format!(
                "UPDATE {keyspace}.pages SET state = 'deleted', version = ?, title = null, content = null, \
                 html = null, excerpt = null, code_blocks = null, link_origins = null, language = null, \
                 renderer_version = null, key_hash = null, created_at = ?, updated_at = null, deleted_at = ?, nonces[?] = ? \
                 WHERE slug = ? IF version = ? AND state = 'active'"
            ))
            .await?,
        })
    }
}
