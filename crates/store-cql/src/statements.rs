//! Every CQL statement on pages, with its consistency and idempotence.
//!
//! | statement | consistency | serial | driver may send it twice |
//! |---|---|---|---|
//! | [`Statements::read_head`], [`Statements::read_state`], [`Statements::read_text`], those of scans, [`Statements::read_slug_secret`] | `LOCAL_QUORUM` | | yes |
//! | [`Statements::read_nonces`], [`Statements::read_head_serially`] | `LOCAL_SERIAL` | | yes |
//! | [`Statements::insert_text`], [`Statements::delete_text`], [`Statements::delete_texts`] | `LOCAL_QUORUM` | | yes: each has a key and a timestamp of its own |
//! | [`Statements::create_head`], [`Statements::replace_head`] | commit `LOCAL_QUORUM` | `LOCAL_SERIAL` | no |
//!
//! Each statement names its keyspace, so that no connection has to be switched to a keyspace. Each statement names its
//! columns, so that a column that a later migration adds changes nothing here. So the driver keeps the description of the
//! columns of a read, and the database leaves it out of each answer. The driver must not keep that of a conditional
//! write's answer: Cassandra answers with more columns if it refuses the write.
//!
//! A head is created by an `UPDATE` whose condition is that there is none: Cassandra would answer a refused `INSERT … IF NOT
//! EXISTS` with every column of the head that is there.

use std::sync::Arc;

use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use super::bulkhead;
use super::migrate::schema::{COMPONENT, server_of};
use super::retry_budget::RetryBudget;
use super::ring::of_scan;
use super::session::{CqlTimeouts, Nodes, ReadRetries, SecondReads, load_balancing};
use crate::domain::slug::Slug;

/// The columns of a head.
pub(super) const HEAD: &str = "state, version, created_at, updated_at, deleted_at, title, key_hash, current_text_version, \
                    current_text_nonce, link_origins, renderer_version, takedown_reason, takedown_by, nonces";

/// The columns of a head that change whenever it does.
const STATE: &str = "state, version, updated_at, renderer_version";

/// The columns of a [`super::texts::TextRow`].
pub(super) const TEXT: &str = "text_version, text_nonce, content, html, excerpt, code_blocks, language";

pub(super) struct Statements {
    /// Binds the slug, yields a [`super::rows::HeadRow`].
    pub(super) read_head: PreparedStatement,
    /// Binds the slug, yields a [`super::rows::StateRow`].
    pub(super) read_state: PreparedStatement,
    /// The same, and completes writes that were interrupted.
    pub(super) read_head_serially: PreparedStatement,
    /// Binds the slug and the key of a text, yields a [`super::texts::TextRow`].
    pub(super) read_text: PreparedStatement,
    /// The same two, for whoever reads every page.
    pub(super) scan_head: PreparedStatement,
    pub(super) scan_text: PreparedStatement,
    /// Yields the secret for slugs.
    pub(super) read_slug_secret: PreparedStatement,
    /// Binds the slug, yields a [`super::rows::NonceRow`].
    pub(super) read_nonces: PreparedStatement,
    /// Binds a [`super::rows::TextParameters`].
    pub(super) insert_text: PreparedStatement,
    /// Binds a timestamp in microseconds, the slug and the key of a text.
    pub(super) delete_text: PreparedStatement,
    /// Binds a timestamp in microseconds and the slug.
    pub(super) delete_texts: PreparedStatement,
    /// Binds a [`super::rows::HeadParameters`].
    pub(super) create_head: PreparedStatement,
    /// Binds a [`super::rows::Replacement`].
    pub(super) replace_head: PreparedStatement,
    reads: ExecutionProfileHandle,
}

/// Prepares statements, all with the same limits.
pub(super) struct Preparing<'a> {
    session: &'a Session,
    timeouts: CqlTimeouts,
    retries: &'a RetryBudget,
    /// Sends slow requests to a second node, within the budget.
    profile: ExecutionProfileHandle,
    /// The same, for reads of heads and texts.
    reads: ExecutionProfileHandle,
}

impl<'a> Preparing<'a> {
    pub(super) fn new(session: &'a Session, timeouts: CqlTimeouts, retries: &'a RetryBudget) -> Self {
        let profile = session.get_default_execution_profile_handle().pointee_to_builder();
        let second_reads = Arc::new(SecondReads(retries.clone()));
        let profile = profile.speculative_execution_policy(Some(second_reads)).build();
        let reads = profile.clone().into_handle();
        Self { session, timeouts, retries, profile: profile.into_handle(), reads }
    }

    /// `cql` for a scan of the whole table.
    pub(super) fn of_scan(&self, cql: String) -> String {
        of_scan(cql, server_of(self.session))
    }

    /// A read of a head or text, which [`Statements::prefer_rack`] concerns.
    async fn read(&self, cql: String) -> Result<PreparedStatement, PrepareError> {
        let mut statement = self.repeatable(cql, Consistency::LocalQuorum).await?;
        statement.set_execution_profile_handle(Some(self.reads.clone()));
        Ok(statement)
    }

    /// A statement that is harmless to repeat.
    pub(super) async fn repeatable(
        &self,
        cql: String,
        consistency: Consistency,
    ) -> Result<PreparedStatement, PrepareError> {
        let mut statement = self.session.prepare(Statement::new(cql)).await?;
        statement.set_consistency(consistency);
        statement.set_request_timeout(Some(self.timeouts.operation));
        statement.set_is_idempotent(true);
        statement.set_use_cached_result_metadata(true);
        statement.set_execution_profile_handle(Some(self.profile.clone()));
        statement.set_retry_policy(Some(Arc::new(ReadRetries(self.retries.clone()))));
        Ok(statement)
    }

    /// A lightweight transaction. The driver sends it once.
    pub(super) async fn conditional(&self, cql: String) -> Result<PreparedStatement, PrepareError> {
        let mut statement = self.session.prepare(Statement::new(cql)).await?;
        statement.set_consistency(Consistency::LocalQuorum);
        statement.set_serial_consistency(Some(SerialConsistency::LocalSerial));
        statement.set_request_timeout(Some(self.timeouts.operation));
        statement.set_is_idempotent(false);
        // The driver's default policy repeats some failed writes and then returns only the last error. This error does
        // not say what the first attempt did.
        statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        Ok(statement)
    }
}

impl Statements {
    /// Prepares all statements for `keyspace`, which must have the current schema. The driver spends at most the time
    /// of one operation on each request.
    pub(super) async fn prepare(preparing: &Preparing<'_>, keyspace: &str) -> Result<Self, PrepareError> {
        let repeatable = async |cql, consistency| preparing.repeatable(cql, consistency).await;
        let conditional = async |cql| preparing.conditional(cql).await;
        let (pages, texts) = (format!("{keyspace}.pages"), format!("{keyspace}.texts"));
        // A write sets every column that the head has or had, so that nothing of the earlier head stays.
        let assignments = HEAD.split(", ").map(|column| format!("{column} = :{column}")).collect::<Vec<_>>().join(", ");
        let head = format!("SELECT {HEAD} FROM {pages} WHERE slug = ?");
        let text_key = "slug = ? AND text_version = ? AND text_nonce = ?";
        let text = format!("SELECT {TEXT} FROM {texts} WHERE {text_key}");
        Ok(Self {
            read_head: preparing.read(head.clone()).await?,
            read_state: preparing.read(format!("SELECT {STATE} FROM {pages} WHERE slug = ?")).await?,
            scan_head: preparing.read(preparing.of_scan(head.clone())).await?,
            scan_text: preparing.read(preparing.of_scan(text.clone())).await?,
            read_head_serially: repeatable(head, Consistency::LocalSerial).await?,
            read_text: preparing.read(text).await?,
            read_slug_secret: repeatable(
                format!("SELECT secret FROM {keyspace}.slug_secret WHERE component = '{COMPONENT}'"),
                Consistency::LocalQuorum,
            )
            .await?,
            read_nonces: repeatable(
                format!("SELECT state, version, created_at, key_hash, nonces FROM {pages} WHERE slug = ?"),
                Consistency::LocalSerial,
            )
            .await?,
            insert_text: repeatable(
                format!(
                    "INSERT INTO {texts} (slug, text_version, text_nonce, content, html, excerpt, code_blocks, \
                     language, inserted_at) VALUES (:slug, :text_version, :text_nonce, :content, :html, :excerpt, \
                     :code_blocks, :language, :inserted_at) USING TIMESTAMP :written_at"
                ),
                Consistency::LocalQuorum,
            )
            .await?,
            delete_text: repeatable(
                format!("DELETE FROM {texts} USING TIMESTAMP ? WHERE {text_key}"),
                Consistency::LocalQuorum,
            )
            .await?,
            delete_texts: repeatable(
                format!("DELETE FROM {texts} USING TIMESTAMP ? WHERE slug = ?"),
                Consistency::LocalQuorum,
            )
            .await?,
            create_head: conditional(format!("UPDATE {pages} SET {assignments} WHERE slug = :slug IF state = null"))
                .await?,
            replace_head: conditional(format!(
                "UPDATE {pages} SET {assignments} WHERE slug = :slug \
                 IF state = :expected_state AND version = :expected_version AND updated_at = :expected_updated_at"
            ))
            .await?,
            reads: preparing.reads.clone(),
        })
    }

    /// Sends reads of heads and texts to the nodes of `rack` first, as long as they answer.
    ///
    /// Writes have no such preference, and neither have serial reads: nodes of several racks that run transactions on one
    /// page at once disturb each other.
    pub(super) fn prefer_rack(&self, datacenter: &str, rack: &str) {
        let policy = load_balancing(Some(Nodes { datacenter, rack: Some(rack) }));
        let profile = self.reads.pointee_to_builder().load_balancing_policy(policy).build();
        self.reads.clone().map_to_another_profile(profile);
    }

    /// The token range of `slug`, as [`bulkhead`] counts them.
    pub(super) fn range_of(&self, slug: &Slug) -> u32 {
        let token = self.read_head.calculate_token(&(slug.as_str(),)).ok().flatten();
        token.map_or(0, |token| bulkhead::range_of(token.value()))
    }
}
