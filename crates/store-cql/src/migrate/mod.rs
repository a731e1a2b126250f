//! `handbill migrate`: brings a keyspace up to date, one process at a time.
//!
//! The server gets the statements of a numbered file in `migrations/` one after the other. It ignores the comments.

mod lease;
pub mod schema;

use std::fmt;
use std::time::Duration;

use futures_util::future::try_join_all;
use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, NewSessionError, RequestAttemptError, UseKeyspaceError};
use scylla::statement::Statement;
use thiserror::Error;
use tokio::time::{Instant, sleep};

pub use self::lease::{LeaseError, LeaseTimes};
use self::schema::{COMPONENT, MIGRATIONS, Migration, OWN_TABLES, SchemaError, SchemaState, server_of};
use super::copies;
use super::session;
use super::settings_error::SettingsError;
use super::slug_secret;
use crate::ports::random::Random;
use crate::settings::CqlSettings;

/// Longest time for one change of the schema; a busy server takes seconds.
const SCHEMA_CHANGE_TIMEOUT: Duration = Duration::from_mins(1);

/// Parts of the messages by which a server refuses a change that an earlier run has made: `ADD` on Cassandra 5 and on
/// ScyllaDB, and `DROP` on both. The text for ScyllaDB is from its source; it was not run.
const ALREADY_DONE: [&str; 3] = ["already exists", "conflicts with an existing column", "was not found in table"];

/// `ScyllaDB` makes a table's Paxos state with the table's first conditional write, which changes the schema and takes longer
/// than a client waits. So none of a client's is the first. None of these finds a row.
const FIRST_CONDITIONAL_WRITES: [&str; 2] =
    ["DELETE FROM pages WHERE slug = '-' IF EXISTS", "DELETE FROM creates WHERE component = '-' IF EXISTS"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub keyspace: String,
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

/// Why the schema is not up to date. Migrations that were applied before the error remain; it is safe to run again.
#[derive(Debug, Error)]
pub enum MigrateError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the cluster cannot be reached: {0}")]
    Session(#[from] NewSessionError),
    #[error("the database refused or did not answer: {0}")]
    Execution(#[from] ExecutionError),
    #[error("the keyspace cannot be used: {0}")]
    Keyspace(#[from] UseKeyspaceError),
    /// The schema cannot be read, or is not ours.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Another process is migrating, or has taken over.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A later program removed something from the schema.
    #[error("the schema was contracted by a later version of Handbill: run that version's migrate")]
    TooNew,
    /// The schema is not this program's although all migrations ran.
    #[error("after migrating the schema is {0:?}, not up to date")]
    NotCurrent(SchemaState),
}

/// Brings the keyspace of `settings` up to date with this program, and creates it if there is none. Waits up to
/// `--schema-wait` for a cluster that does not answer.
pub async fn migrate(settings: &CqlSettings, random: &Random) -> Result<Report, MigrateError> {
    let started = Instant::now();
    let mut is_logged = false;
    #[expect(clippy::result_large_err, reason = "the error is made once, and ends the program")]
    let (session, datacenter) = session::connect(settings, |error| {
        if started.elapsed() >= settings.schema_wait {
            return Err(MigrateError::Session(error));
        }
        if !is_logged {
            tracing::warn!(%error, "waiting for the database");
            is_logged = true;
        }
        Ok(())
    })
    .await?;
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
    let keyspace = settings.keyspace.as_str();
    // The lock is in the keyspace, so this cannot happen under it (docs/internals/decisions/0021).
    let made_keyspace = !schema::exists(session, "keyspaces WHERE keyspace_name = ?", keyspace).await?;
    if made_keyspace {
        change_schema(session, &keyspace_statement(settings, datacenter)).await?;
    }
    // The files name no keyspace.
    enter_keyspace(session, keyspace, SCHEMA_CHANGE_TIMEOUT).await?;
    let found = copies::datacenters(session, keyspace).await.map_err(SchemaError::Unreadable)?;
    copies::check(keyspace, datacenter, found.as_ref())?;
    // An upgrade that changes no schema then needs no majority of all nodes.
    if !made_keyspace && is_current(session, keyspace, migrations).await? {
        return Ok(Report { keyspace: keyspace.to_owned(), made_keyspace, applied: Vec::new() });
    }
    for statement in OWN_TABLES {
        change_schema(session, statement).await?;
    }
    let work = async {
        let applied = apply(session, keyspace, migrations).await?;
        try_join_all(FIRST_CONDITIONAL_WRITES.map(|cql| lease::repeated(session, Statement::new(cql), ()))).await?;
        // Last, since its row says that there is nothing left to do.
        let (secret, value) = slug_secret::creation(keyspace, random);
        lease::repeated(session, secret, (value.as_bytes().as_slice(),)).await?;
        Ok::<_, MigrateError>(applied)
    };
    let applied = lease::while_held(session, keyspace, times, random, work).await??;
    Ok(Report { keyspace: keyspace.to_owned(), made_keyspace, applied })
}

/// Makes `keyspace` the default for statements that name none: those of the files. Statements that bind values name theirs, since
/// Cassandra 5 warns of each prepared statement that does not.
///
/// While another process creates the keyspace, `system_schema` may show it before a node can use it. So this tries again
/// for up to `max_wait`.
pub async fn enter_keyspace(session: &Session, keyspace: &str, max_wait: Duration) -> Result<(), UseKeyspaceError> {
    let started = Instant::now();
    loop {
        match session.use_keyspace(keyspace, false).await {
            Err(_) if started.elapsed() < max_wait => sleep(lease::STATEMENT_PAUSE).await,
            done => return done,
        }
    }
}

/// The statement that creates the keyspace, as `migrations/keyspace.cql` shows it.
fn keyspace_statement(settings: &CqlSettings, datacenter: &str) -> String {
    let tablets =
        settings.tablets.map(|enabled| format!(" AND tablets = {{'enabled': {enabled}}}")).unwrap_or_default();
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace}\nWITH replication = {{'class': 'NetworkTopologyStrategy', \
         '{datacenter}': {copies}}}{tablets}",
        keyspace = settings.keyspace,
        datacenter = datacenter.replace('\'', "''"),
        copies = settings.replication_factor,
    )
}

/// Applies the migrations that are missing, and returns their names.
async fn apply(session: &Session, keyspace: &str, migrations: &[Migration]) -> Result<Vec<String>, MigrateError> {
    let applied = schema::applied(session, keyspace).await?;
    if schema::compare(migrations, &applied)? == SchemaState::NewerContracted {
        return Err(MigrateError::TooNew);
    }
    let mut names = Vec::new();
    for migration in migrations {
        if applied.iter().any(|applied| applied.number == migration.number) {
            continue;
        }
        if migration.only_on.is_none_or(|server| server == server_of(session)) {
            for statement in migration.statements() {
                change_schema(session, statement).await?;
            }
        }
        record(session, keyspace, migration).await?;
        names.push(format!("{:04} {}", migration.number, migration.name));
    }
    match schema::check(session, keyspace, migrations).await? {
        SchemaState::Current | SchemaState::NewerExpanded => Ok(names),
        state => Err(MigrateError::NotCurrent(state)),
    }
}

/// Whether there is nothing to do.
async fn is_current(session: &Session, keyspace: &str, migrations: &[Migration]) -> Result<bool, MigrateError> {
    let state = schema::check(session, keyspace, migrations).await?;
    Ok(matches!(state, SchemaState::Current | SchemaState::NewerExpanded) && has_secret(session, keyspace).await?)
}

/// Whether the secret for slugs is there, which is written last. A plain read suffices.
async fn has_secret(session: &Session, keyspace: &str) -> Result<bool, MigrateError> {
    let cql = format!("SELECT component FROM {keyspace}.slug_secret WHERE component = '{COMPONENT}'");
    let answer = lease::repeated(session, Statement::new(cql), ()).await?;
    let rows = answer.into_rows_result().map_err(|error| SchemaError::Unreadable(error.into()))?;
    Ok(rows.rows_num() > 0)
}

/// Runs `cql` on the one node that gets all schema changes, and waits until all nodes have the change. A change that
/// was made before is no error.
///
/// Cassandra 5 does not order changes that go through different nodes: if two processes create one table at the same
/// time on two nodes, the table can get two identities. A single node makes the changes one after the other.
async fn change_schema(session: &Session, cql: &str) -> Result<(), MigrateError> {
    let mut statement = Statement::new(cql);
    let state = session.get_cluster_state();
    let reachable = state.get_nodes_info().iter().filter(|node| node.is_connected());
    if let Some(node) = reachable.min_by_key(|node| node.host_id) {
        session::send_only_to(&mut statement, node);
    }
    // The driver then waits for agreement.
    statement.set_request_timeout(Some(SCHEMA_CHANGE_TIMEOUT));
    match session.query_unpaged(statement, ()).await {
        Err(error) if !is_already_done(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn record(session: &Session, keyspace: &str, migration: &Migration) -> Result<(), MigrateError> {
    let columns = "(component, number, name, phase, checksum) VALUES";
    let statement =
        format!("INSERT INTO {keyspace}.schema_migrations {columns} ('{COMPONENT}', ?, ?, ?, ?) IF NOT EXISTS");
    let values = (migration.number, migration.name, migration.phase.name(), migration.checksum());
    // It does not matter whether this or an earlier attempt writes the row: `apply` checks the row at the end.
    lease::repeated(session, Statement::new(statement), values).await?;
    Ok(())
}

fn is_already_done(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, message)) => {
            ALREADY_DONE.iter().any(|part| message.contains(part))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::of_a_test;

    fn refused(message: &str) -> ExecutionError {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, message.to_owned()))
    }

    #[test]
    fn a_column_that_was_added_or_dropped_before_is_done_on_both_servers() {
        for message in [
            "Column with name 'note' already exists",
            "Invalid column name note because it conflicts with an existing column",
            "Column note was not found in table pages",
        ] {
            assert!(is_already_done(&refused(message)), "{message}");
        }
        for message in ["Invalid column name note because it conflicts with a PRIMARY KEY part", "unconfigured table"] {
            assert!(!is_already_done(&refused(message)), "{message}");
        }
        assert!(!is_already_done(&ExecutionError::EmptyPlan));
    }

    #[test]
    fn the_keyspace_that_is_shown_is_the_one_that_is_made() {
        let shown = include_str!("../../../../migrations/keyspace.cql");
        let statement = shown.split("\n\n").nth(1).unwrap().trim().trim_end_matches(';');
        assert_eq!(keyspace_statement(&of_a_test(), "datacenter1"), statement);
    }

    #[test]
    fn tablets_are_named_only_when_they_were_chosen() {
        let without = CqlSettings { tablets: Some(false), replication_factor: 1, ..of_a_test() };
        let statement = keyspace_statement(&without, "it's");
        assert!(statement.ends_with("'it''s': 1} AND tablets = {'enabled': false}"), "{statement}");
    }
}
