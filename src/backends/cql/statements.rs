//! Every CQL statement on pages, with its consistency and idempotence, in one place.
//!
//! | statement | consistency | serial | driver may send it twice |
//! |---|---|---|---|
//! | [`Statements::lookup`] | `LOCAL_QUORUM` | | yes |
//! | [`Statements::traces`] | `LOCAL_SERIAL` | | yes |
//! | [`Statements::insert`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//! | [`Statements::replace`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//! | [`Statements::bury`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//!
//! Each names its keyspace, so that no connection has to be switched to one, and its columns, so that a column that a
//! later migration adds changes nothing here. The driver must not cache the shape of a conditional write's answer:
//! Cassandra answers with more columns when it refuses.

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
    pub(super) traces: PreparedStatement,
    /// Binds [`super::rows::inserted`].
    pub(super) insert: PreparedStatement,
    /// Binds [`super::rows::replaced`].
    pub(super) replace: PreparedStatement,
    /// Binds [`super::rows::buried`].
    pub(super) bury: PreparedStatement,
}

impl Statements {
    /// Prepares all of them in `keyspace`, whose schema is there. None is worked on for longer than an operation may take.
    pub(super) async fn prepare(session: &Session, keyspace: &str, limits: CqlTimeouts) -> Result<Self, PrepareError> {
        let read = async |cql: String, consistency| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(consistency);
            statement.set_request_timeout(Some(limits.operation));
            statement.set_is_idempotent(true);
            statement.set_retry_policy(Some(Arc::new(ReadRetries)));
            Ok::<_, PrepareError>(statement)
        };
        let write = async |cql: String| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(Consistency::LocalQuorum);
            statement.set_serial_consistency(Some(SerialConsistency::LocalSerial));
            statement.set_request_timeout(Some(limits.operation));
            statement.set_is_idempotent(false);
            // The driver's own choice sends some of them again and then shows only the last error, after which nobody
            // knows what the first attempt did.
            statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
            Ok::<_, PrepareError>(statement)
        };
        Ok(Self {
            lookup: read(
                format!(
                    "SELECT state, version, title, content, html, link_origins, language, renderer_version, key_hash, \
                     created_at, updated_at, deleted_at FROM {keyspace}.pages WHERE slug = ?"
                ),
                Consistency::LocalQuorum,
            )
            .await?,
            traces: read(
                format!("SELECT state, version, key_hash, nonces FROM {keyspace}.pages WHERE slug = ?"),
                Consistency::LocalSerial,
            )
            .await?,
            insert: write(format!(
                "INSERT INTO {keyspace}.pages (slug, state, version, title, content, html, link_origins, \
                 language, renderer_version, key_hash, created_at, updated_at, nonces) \
                 VALUES (?, 'active', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            replace: write(format!(
                "UPDATE {keyspace}.pages SET version = ?, title = ?, content = ?, html = ?, link_origins = ?, \
                 language = ?, renderer_version = ?, key_hash = ?, created_at = ?, updated_at = ?, nonces[?] = ? \
                 WHERE slug = ? IF version = ? AND state = 'active'"
            ))
            .await?,
            // No condition compares with null: such a one holds for a row that is not there, and would make one.
            bury: write(format!(
                "UPDATE {keyspace}.pages SET state = 'deleted', version = ?, title = null, content = null, \
                 html = null, link_origins = null, language = null, renderer_version = null, key_hash = null, created_at = ?, \
                 updated_at = null, deleted_at = ?, nonces[?] = ? \
                 WHERE slug = ? IF version = ? AND state = 'active'"
            ))
            .await?,
        })
    }
}
