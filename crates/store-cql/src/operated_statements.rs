//! Every CQL statement for operators: scans, the ledger and the switch of creates.
//!
//! | statement | consistency | serial | driver may send it twice |
//! |---|---|---|---|
//! | `read_slugs`, `scan_heads`, `scan_texts`, `read_entry`, `read_ledger`, `read_switch` | `LOCAL_QUORUM` | | yes |
//! | `read_switch_serially` | `LOCAL_SERIAL` | | yes |
//! | `begin_deletion`, `enter_deletion`, `begin_turn`, `enter_visibility` | `LOCAL_QUORUM` | | yes |
//! | `change_switch` | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |

use scylla::errors::PrepareError;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::migrate::schema::COMPONENT;
use super::statements::{HEAD, Preparing, TEXT};

/// The columns of a tombstone in the ledger.
const TOMBSTONE: &str = "version, created_at, deleted_at, takedown_reason, takedown_by";

/// All columns of a row of the ledger.
const LEDGER: &str = "version, created_at, deleted_at, takedown_reason, takedown_by, begun_at, turning_at, visibility";

pub(super) struct OperatedStatements {
    /// Binds a token and a number, yields that many slugs after the token, each with its token.
    pub(super) read_slugs: PreparedStatement,
    /// Binds tokens and a number, yields that many heads at most between the tokens, each with its place.
    pub(super) scan_heads: PreparedStatement,
    /// Binds tokens, yields the texts between them, each with its place.
    pub(super) scan_texts: PreparedStatement,
    /// Binds a slug and the time of an attempt to delete its page.
    pub(super) begin_deletion: PreparedStatement,
    /// Binds a slug, yields its row of the ledger.
    pub(super) read_entry: PreparedStatement,
    /// Binds a slug and [`TOMBSTONE`].
    pub(super) enter_deletion: PreparedStatement,
    /// Binds a slug, the time of an attempt to hide or show its page, and that time in microseconds.
    pub(super) begin_turn: PreparedStatement,
    /// Binds a slug, whether its page is hidden, and since when in microseconds.
    pub(super) enter_visibility: PreparedStatement,
    /// Binds tokens and a number, yields that many rows of the ledger at most between the tokens, each with its place.
    pub(super) read_ledger: PreparedStatement,
    /// Yields the row of the switch.
    pub(super) read_switch: PreparedStatement,
    /// The same, and completes writes that were interrupted.
    pub(super) read_switch_serially: PreparedStatement,
    /// Binds the revision that it makes, the pause and the revision that it replaces.
    pub(super) change_switch: PreparedStatement,
}

impl OperatedStatements {
    /// Prepares all statements for `keyspace`, which must have the current schema.
    pub(super) async fn prepare(preparing: &Preparing<'_>, keyspace: &str) -> Result<Self, PrepareError> {
        let quorum = async |cql| preparing.repeatable(cql, Consistency::LocalQuorum).await;
        let serial = async |cql| preparing.repeatable(cql, Consistency::LocalSerial).await;
        let conditional = async |cql| preparing.conditional(cql).await;
        let switch = format!("SELECT revision, paused FROM {keyspace}.creates WHERE component = '{COMPONENT}'");
        let between = async |columns: &str, table: &str, limit: &str| {
            let tokens = "token(slug) > ? AND token(slug) <= ?";
            let cql =
                format!("SELECT token(slug) AS place, slug, {columns} FROM {keyspace}.{table} WHERE {tokens}{limit}");
            quorum(preparing.of_scan(cql)).await
        };
        Ok(Self {
            read_slugs: quorum(
                preparing
                    .of_scan(format!("SELECT token(slug), slug FROM {keyspace}.pages WHERE token(slug) > ? LIMIT ?")),
            )
            .await?,
            scan_heads: between(HEAD, "pages", " LIMIT ?").await?,
            scan_texts: between(TEXT, "texts", "").await?,
            begin_deletion: quorum(format!("INSERT INTO {keyspace}.deletions (slug, begun_at) VALUES (?, ?)")).await?,
            read_entry: quorum(format!("SELECT {LEDGER} FROM {keyspace}.deletions WHERE slug = ?")).await?,
            enter_deletion: quorum(format!(
                "INSERT INTO {keyspace}.deletions (slug, {TOMBSTONE}) VALUES (?, ?, ?, ?, ?, ?)"
            ))
            .await?,
            begin_turn: quorum(format!(
                "INSERT INTO {keyspace}.deletions (slug, turning_at) VALUES (?, ?) USING TIMESTAMP ?"
            ))
            .await?,
            enter_visibility: quorum(format!(
                "INSERT INTO {keyspace}.deletions (slug, visibility) VALUES (?, ?) USING TIMESTAMP ?"
            ))
            .await?,
            read_ledger: between(LEDGER, "deletions", " LIMIT ?").await?,
            read_switch: quorum(switch.clone()).await?,
            read_switch_serially: serial(switch).await?,
            change_switch: conditional(format!(
                "UPDATE {keyspace}.creates SET revision = ?, paused = ? WHERE component = '{COMPONENT}' IF revision = ?"
            ))
            .await?,
        })
    }
}
