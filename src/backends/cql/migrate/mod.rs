//! `handbill migrate`: brings a keyspace up to date, one process at a time.

mod lease;
pub mod schema;
mod script;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{ExecutionError, NewSessionError, UseKeyspaceError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;
use thiserror::Error;
use tokio::time::{Instant, sleep};

pub use self::lease::{LeaseError, LeaseTimes};
use self::schema::{COMPONENT, MIGRATIONS, Migration, SchemaError, SchemaState, UnusableMigration};
use self::script::{DoneWhen, Server, Step};
use super::connect::LOOK_AGAIN_AFTER;
use super::session::{self, SettingsError};
use crate::config::CqlSettings;
use crate::ports::random::Random;

/// Longest that one change of the schema may take; a busy server takes seconds.
const SCHEMA_CHANGE: Duration = Duration::from_mins(1);

/// What migrating did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The keyspace.
    pub keyspace: String,
    /// Whether it had to be made.
    pub made_keyspace: bool,
    /// The migrations that were applied, as `number name`, in order.
    pub applied: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.made_keyspace {
            writeln!(f, "Made the keyspace {}.", self.keyspace)?;
        }
        for migration in &self.applied {
            writeln!(f, "Applied migration {migration}.")?;
        }
        write!(f, "The schema of {} is up to date.", self.keyspace)
    }
}

/// Why the schema is not up to date. What was applied until then stays; it is safe to run again.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// A setting cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The cluster cannot be reached.
    #[error("the cluster cannot be reached: {0}")]
    Session(#[from] NewSessionError),
    /// A statement was refused or not answered.
    #[error("the database refused or did not answer: {0}")]
    Execution(#[from] ExecutionError),
    /// The keyspace cannot be used.
    #[error("the keyspace cannot be used: {0}")]
    Keyspace(#[from] UseKeyspaceError),
    /// The schema cannot be read, or is not ours.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A migration of this program cannot be used.
    #[error(transparent)]
    Migration(#[from] UnusableMigration),
    /// Another process migrates, or took over.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The keyspace was contracted by a later program.
    #[error("the schema was contracted by a later version of Handbill: run that version's migrate")]
    TooNew,
    /// After all of them the schema is still not this program's.
    #[error("after migrating the schema is {0:?}, not up to date")]
    NotCurrent(SchemaState),
}

/// Brings the keyspace of `settings` up to date with this program, making it where it is not there. Waits for a cluster
/// that does not answer yet for as long as `--schema-wait`.
pub async fn migrate(settings: &CqlSettings, random: &Random) -> Result<Report, MigrateError> {
    let session = reach(settings).await?;
    let datacenter = session::settle_datacenter(&session, settings).await?;
    migrate_with(&session, settings, &datacenter, MIGRATIONS, LeaseTimes::default(), random).await
}

/// Brings the keyspace of `settings` up to date with `migrations`.
pub async fn migrate_with(
    session: &Session,
    settings: &CqlSettings,
    datacenter: &str,
    migrations: &[Migration],
    times: LeaseTimes,
    random: &Random,
) -> Result<Report, MigrateError> {
    let keyspace = settings.scylla_keyspace.as_str();
    let runner = Runner { session, keyspace };
    let made_keyspace = runner.make_keyspace(settings, datacenter).await?;
    // Migrations name no keyspace.
    enter_keyspace(session, keyspace, SCHEMA_CHANGE).await?;
    for step in crate::backends::cql::migrate::script::steps(schema::BOOKKEEPING)
        .map_err(|refused| UnusableMigration::Statement(0, refused))?
    {
        runner.run(&step).await?;
    }
    let applied = lease::while_held(session, times, random, runner.apply(migrations)).await??;
    Ok(Report { keyspace: keyspace.to_owned(), made_keyspace, applied })
}

async fn reach(settings: &CqlSettings) -> Result<Session, MigrateError> {
    let started = Instant::now();
    let mut is_told = false;
    loop {
        // Built anew each time, so that a password or certificate that was put right is read again.
        match session::builder(settings)?.build().await {
            Ok(session) => return Ok(session),
            Err(error) if started.elapsed() >= settings.schema_wait => return Err(error.into()),
            Err(error) => {
                if !is_told {
                    tracing::warn!(%error, "waiting for the database");
                    is_told = true;
                }
            }
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// Makes `keyspace` the one that statements mean when they name none.
///
/// While another process makes it, its row in `system_schema` can be read before the node knows it, so a node that does
/// not know it yet is asked again for as long as `patience`.
pub async fn enter_keyspace(session: &Session, keyspace: &str, patience: Duration) -> Result<(), UseKeyspaceError> {
    let started = Instant::now();
    loop {
        match session.use_keyspace(keyspace, false).await {
            Err(_) if started.elapsed() < patience => sleep(lease::STATEMENT_PAUSE).await,
            done => return done,
        }
    }
}

/// The statement that makes the keyspace, as `migrations/keyspace.cql` shows it.
fn keyspace_statement(settings: &CqlSettings, datacenter: &str) -> String {
    let tablets =
        settings.scylla_tablets.map(|enabled| format!(" AND tablets = {{'enabled': {enabled}}}")).unwrap_or_default();
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace}\nWITH replication = {{'class': 'NetworkTopologyStrategy', \
         '{datacenter}': {copies}}}{tablets}",
        keyspace = settings.scylla_keyspace,
        datacenter = datacenter.replace('\'', "''"),
        copies = settings.scylla_replication_factor,
    )
}

struct Runner<'a> {
    session: &'a Session,
    keyspace: &'a str,
}

impl Runner<'_> {
    async fn make_keyspace(&self, settings: &CqlSettings, datacenter: &str) -> Result<bool, MigrateError> {
        if schema::exists(self.session, "keyspaces WHERE keyspace_name = ?", &[self.keyspace]).await? {
            return Ok(false);
        }
        self.change_schema(&keyspace_statement(settings, datacenter)).await?;
        Ok(true)
    }

    /// Applies what is not applied yet, and says what that was.
    async fn apply(&self, migrations: &[Migration]) -> Result<Vec<String>, MigrateError> {
        let applied = schema::applied(self.session, self.keyspace).await?;
        if schema::judge(migrations, &applied)? == SchemaState::NewerContracted {
            return Err(MigrateError::TooNew);
        }
        let mut names = Vec::new();
        for migration in migrations {
            if applied.iter().any(|applied| applied.number == migration.number) {
                continue;
            }
            for step in migration.steps()? {
                self.run(&step).await?;
            }
            self.record(migration).await?;
            names.push(format!("{:04} {}", migration.number, migration.name));
        }
        match schema::check(self.session, self.keyspace, migrations).await? {
            SchemaState::Current | SchemaState::NewerExpanded => Ok(names),
            state => Err(MigrateError::NotCurrent(state)),
        }
    }

    async fn run(&self, step: &Step) -> Result<(), MigrateError> {
        if step.only_on.is_some_and(|server| server != self.server()) {
            return Ok(());
        }
        let is_done = match &step.done_when {
            DoneWhen::Harmless => false,
            DoneWhen::ColumnIsThere { table, column } => self.has_column(table, column).await?,
            DoneWhen::ColumnIsGone { table, column } => !self.has_column(table, column).await?,
        };
        if is_done { Ok(()) } else { self.change_schema(&step.text).await }
    }

    async fn has_column(&self, table: &str, column: &str) -> Result<bool, SchemaError> {
        let which = "columns WHERE keyspace_name = ? AND table_name = ? AND column_name = ?";
        schema::exists(self.session, which, &[self.keyspace, table, column]).await
    }

    /// Runs `cql` on the node that all schema changes go to, and waits until all nodes have it.
    ///
    /// Cassandra 5 does not order changes that are made through different nodes: a table that two processes create at
    /// once on two nodes can end up with two identities. One node does them one after the other.
    async fn change_schema(&self, cql: &str) -> Result<(), MigrateError> {
        let mut statement = Statement::new(cql);
        let state = self.session.get_cluster_state();
        let reachable = state.get_nodes_info().iter().filter(|node| node.is_connected());
        if let Some(node) = reachable.min_by_key(|node| node.host_id) {
            let policy = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
            statement.set_load_balancing_policy(Some(policy));
        }
        // The driver then waits for agreement.
        statement.set_request_timeout(Some(SCHEMA_CHANGE));
        self.session.query_unpaged(statement, ()).await?;
        Ok(())
    }

    async fn record(&self, migration: &Migration) -> Result<(), MigrateError> {
        let statement = Statement::new(format!(
            "INSERT INTO {}.schema_migrations (component, number, name, phase, checksum) \
             VALUES ('{COMPONENT}', ?, ?, ?, ?) IF NOT EXISTS",
            self.keyspace
        ));
        let values = (migration.number, migration.name, migration.phase()?.name(), migration.checksum());
        // Whether it is applied now or was before is the same; what stands there is checked at the end.
        let mut result = self.session.query_unpaged(statement.clone(), &values).await;
        for _ in 0..lease::STATEMENT_REPEATS {
            if result.is_ok() {
                break;
            }
            sleep(lease::STATEMENT_PAUSE).await;
            result = self.session.query_unpaged(statement.clone(), &values).await;
        }
        result?;
        Ok(())
    }

    /// Only ScyllaDB tells its drivers how it is sharded.
    fn server(&self) -> Server {
        let state = self.session.get_cluster_state();
        let is_sharded = state.get_nodes_info().iter().any(|node| node.sharder().is_some());
        if is_sharded { Server::Scylla } else { Server::Cassandra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> CqlSettings {
        CqlSettings {
            scylla_nodes: Vec::new(),
            scylla_keyspace: "handbill".to_owned(),
            scylla_datacenter: None,
            scylla_replication_factor: 3,
            scylla_tablets: None,
            scylla_username: None,
            scylla_password_file: None,
            scylla_ca_file: None,
            schema_wait: Duration::ZERO,
        }
    }

    #[test]
    fn the_keyspace_that_is_shown_is_the_one_that_is_made() {
        let shown = include_str!("../../../../migrations/keyspace.cql");
        let statement = shown.split("\n\n").nth(1).unwrap().trim().trim_end_matches(';');
        assert_eq!(keyspace_statement(&settings(), "datacenter1"), statement);
    }

    #[test]
    fn tablets_are_named_only_when_they_were_chosen() {
        let without = CqlSettings { scylla_tablets: Some(false), scylla_replication_factor: 1, ..settings() };
        let statement = keyspace_statement(&without, "it's");
        assert!(statement.ends_with("'it''s': 1} AND tablets = {'enabled': false}"), "{statement}");
    }
}
