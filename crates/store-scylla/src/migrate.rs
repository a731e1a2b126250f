//! `handbill migrate`: brings a keyspace up to date, one process at a time.

use std::{collections::BTreeSet, fmt, time::Duration};

use handbill_pages::ports::page_store::Cause;
use handbill_pages::ports::random::{Random, new_slug_secret};
use handbill_pages::values::hex;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError, UseKeyspaceError};
use scylla::{
    client::session::Session, response::query_result::QueryResult, serialize::row::SerializeRow, statement::Statement,
};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::checks;
use super::conditional_write::{self, new_id};
use super::schema::{self, COMPONENT, MIGRATIONS, Migration, OWN_TABLES, SchemaError};
use super::session::{self, RETRY_INTERVAL};
use super::settings::{ScyllaConsistency, ScyllaSettings, SettingsError};
use super::store::{CONSISTENCY, DATACENTER, PAUSED, SECRET};

/// Time limit of a change of the schema, which takes a busy server seconds.
const SCHEMA_CHANGE_TIMEOUT: Duration = Duration::from_mins(1);

const STATEMENT_REPEATS: usize = 3;
const STATEMENT_PAUSE: Duration = Duration::from_millis(500);

/// Refusals of a change that was made before: `ADD` on Cassandra 5 and on ScyllaDB, and `DROP` on both. ScyllaDB's text
/// is from its source; it was not run.
const ALREADY_DONE: [&str; 3] = ["already exists", "conflicts with an existing column", "was not found in table"];

/// The first conditional write makes `ScyllaDB` create the table's Paxos state, which takes longer than a client waits.
/// A restore may lack it, so each run makes one, which finds no row.
const FIRST_CONDITIONAL_WRITE: &str = "DELETE FROM pages WHERE slug = '-' IF EXISTS";

/// The migrations fit one datacentre. Between regions a read would be sent to a third copy before its answer can be there.
const SECOND_READ_BETWEEN_REGIONS: &str = "ALTER TABLE pages WITH speculative_retry = '500ms'";

/// How long the lock outlives a process. Renewed three times as often.
const LOCK_TTL: Duration = Duration::from_mins(1);

/// How long a process waits for another one.
pub const LOCK_WAIT: Duration = Duration::from_mins(5);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub keyspace: String,
    pub made_keyspace: bool,
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

/// Applied migrations remain; it is safe to run again.
#[derive(Debug, Error)]
pub enum MigrateError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(
        "the database did not answer within --schema-wait: start the majority of its nodes, and run this again. What was asked may still \
         be done until then"
    )]
    NoMajority,
    #[error("the database refused or did not answer: {0}")]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("another process is migrating; run this again when it has finished")]
    Locked,
    #[error("the lock of migrate could not be renewed in time; run this again")]
    LostLock,
    #[error("the lock of migrate cannot be read or written, which needs the majority of the nodes: {0}")]
    UnreadableLock(Cause),
}

impl MigrateError {
    /// Whether no migration was applied, because none may be.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Settings(_) | Self::NoMajority | Self::Locked | Self::Schema(SchemaError::TooNew))
    }
}

/// Creates a missing keyspace. Waits up to `--schema-wait` for the cluster.
pub async fn migrate(settings: &ScyllaSettings, random: &Random) -> Result<Report, MigrateError> {
    let give_up = Instant::now() + settings.schema_wait;
    let connecting = session::connect(settings, session::REQUEST_TIMEOUT, Some(give_up), |reason| {
        tracing::warn!(reason, "waiting for the database");
    });
    let (session, datacenter) = connecting.await?;
    migrate_with(&session, settings, datacenter.as_deref(), MIGRATIONS, LOCK_WAIT, random).await
}

pub async fn migrate_with(
    session: &Session,
    settings: &ScyllaSettings,
    datacenter: Option<&str>,
    migrations: &[Migration],
    lock_wait: Duration,
    random: &Random,
) -> Result<Report, MigrateError> {
    let keyspace = settings.keyspace.as_str();
    // Without a majority, ScyllaDB changes no schema.
    let max_silence = settings.schema_wait.max(session::REQUEST_TIMEOUT);
    let entering = timeout(max_silence, enter(session, settings, datacenter));
    let found = entering.await.unwrap_or(Err(MigrateError::NoMajority))?;
    let work = async {
        // First: two processes with different consistencies must not both write.
        let consistency = make_setting(session, keyspace, CONSISTENCY, &settings.consistency.to_string()).await?;
        checks::check_consistency(settings, &consistency)?;
        let recorded = schema::setting(session, keyspace, DATACENTER).await?;
        if recorded.unwrap_or_default().is_empty() {
            checks::check_copies(settings, datacenter, found.as_ref(), false)?;
        }
        // Once. With `global`, replicas in every datacentre write.
        let here = datacenter.filter(|_| settings.consistency == ScyllaConsistency::Local).unwrap_or_default();
        let recorded = make_setting(session, keyspace, DATACENTER, here).await?;
        checks::check_datacenter(settings, datacenter, &recorded)?;
        let applied = apply(session, keyspace, migrations).await?;
        if settings.consistency == ScyllaConsistency::Global && !applied.is_empty() {
            change_schema(session, SECOND_READ_BETWEEN_REGIONS).await?;
        }
        repeated(session, FIRST_CONDITIONAL_WRITE, ()).await?;
        make_setting(session, keyspace, PAUSED, &false.to_string()).await?;
        // Last: it says that nothing is left to do.
        make_setting(session, keyspace, SECRET, &hex::encode(new_slug_secret(random).as_bytes())).await?;
        Ok(applied)
    };
    let lock = Lock { session, keyspace, holder: hex::encode(&new_id(random)), max_wait: lock_wait, max_silence };
    let applied = Box::pin(lock.during(work)).await?;
    Ok(Report { keyspace: keyspace.to_owned(), made_keyspace: found.is_none(), applied })
}

/// Makes what the lock needs, which is in the keyspace. Returns where that had its copies; `None` if it was made.
async fn enter(
    session: &Session,
    settings: &ScyllaSettings,
    datacenter: Option<&str>,
) -> Result<Option<BTreeSet<String>>, MigrateError> {
    let keyspace = settings.keyspace.as_str();
    let found = checks::datacenters(session, keyspace).await?;
    checks::check_copies(settings, datacenter, found.as_ref(), true)?;
    majority(session, datacenter.filter(|_| settings.consistency == ScyllaConsistency::Local)).await;
    if found.is_none() {
        let (Some(datacenter), ScyllaConsistency::Local) = (datacenter, settings.consistency) else {
            return Err(SettingsError::NoKeyspace(keyspace.to_owned()).into());
        };
        let (datacenter, copies) = (datacenter.replace('\'', "''"), settings.replication_factor);
        let replication = format!("{{'class': 'NetworkTopologyStrategy', '{datacenter}': {copies}}}");
        let create = format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}");
        change_schema(session, &create).await?;
    }
    enter_keyspace(session, keyspace).await.map_err(SchemaError::unreadable)?;
    for statement in OWN_TABLES {
        change_schema(session, statement).await?;
    }
    Ok(found)
}

/// Waits until this process reaches most nodes of `datacenter`, or of all: Cassandra lets a single node make a table, and another one
/// the same table with another identity.
async fn majority(session: &Session, datacenter: Option<&str>) {
    loop {
        let state = session.get_cluster_state();
        let nodes = state.get_nodes_info().iter();
        let mut nodes: Vec<_> =
            nodes.filter(|node| datacenter.is_none() || node.datacenter.as_deref() == datacenter).collect();
        let all = nodes.len();
        nodes.retain(|node| node.is_connected());
        if nodes.len() * 2 > all {
            return;
        }
        sleep(session::RETRY_INTERVAL).await;
    }
}

/// Writes a setting, unless it is there. Returns what is there then.
async fn make_setting(session: &Session, keyspace: &str, name: &str, value: &str) -> Result<String, MigrateError> {
    let cql = format!("INSERT INTO {keyspace}.settings (name, value) VALUES (?, ?) IF NOT EXISTS");
    repeated(session, cql, (name, value)).await?;
    Ok(schema::setting(session, keyspace, name).await?.unwrap_or_default())
}

async fn repeated(
    session: &Session,
    statement: impl Into<Statement> + Clone,
    values: impl SerializeRow,
) -> Result<QueryResult, ExecutionError> {
    for _ in 0..STATEMENT_REPEATS {
        match session.query_unpaged(statement.clone(), &values).await {
            Err(error) if !is_already_done(&error) => sleep(STATEMENT_PAUSE).await,
            answer => return answer,
        }
    }
    session.query_unpaged(statement, &values).await
}

/// For the files' statements. While another process creates the keyspace, `system_schema` may show it before a node can
/// use it.
async fn enter_keyspace(session: &Session, keyspace: &str) -> Result<(), UseKeyspaceError> {
    let started = Instant::now();
    loop {
        match session.use_keyspace(keyspace, false).await {
            Err(_) if started.elapsed() < SCHEMA_CHANGE_TIMEOUT => sleep(STATEMENT_PAUSE).await,
            done => return done,
        }
    }
}

async fn apply(session: &Session, keyspace: &str, migrations: &[Migration]) -> Result<Vec<String>, MigrateError> {
    let applied = schema::applied(session, keyspace).await?;
    schema::compare(migrations, &applied)?;
    let mut names = Vec::new();
    for migration in migrations {
        if applied.iter().any(|applied| applied.number == migration.number) {
            continue;
        }
        for statement in migration.statements() {
            change_schema(session, statement).await?;
        }
        let cql = format!(
            "INSERT INTO {keyspace}.schema_migrations (component, number, name, phase, checksum) \
             VALUES ('{COMPONENT}', ?, ?, ?, ?)"
        );
        let values = (migration.number, migration.name, migration.phase.as_ref(), migration.checksum());
        repeated(session, cql, values).await?;
        names.push(format!("{:04} {}", migration.number, migration.name));
    }
    Ok(names)
}

/// Ignores a change that was made before.
///
/// All changes go through one node: on two nodes, Cassandra 5 can give one table two identities.
async fn change_schema(session: &Session, cql: &str) -> Result<(), MigrateError> {
    let mut statement = Statement::new(cql);
    let state = session.get_cluster_state();
    let reachable = state.get_nodes_info().iter().filter(|node| node.is_connected());
    if let Some(node) = reachable.min_by_key(|node| node.host_id) {
        session::send_only_to(&mut statement, node);
    }
    statement.set_request_timeout(Some(SCHEMA_CHANGE_TIMEOUT));
    match repeated(session, statement, ()).await {
        Err(error) if !is_already_done(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_already_done(error: &ExecutionError) -> bool {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, message)) = error else {
        return false;
    };
    ALREADY_DONE.iter().any(|part| message.contains(part))
}

/// The lock of `migrate`: a row of `settings` with a TTL, which its holder renews.
///
/// A suspended holder's statement may finish after another process has the lock. All statements can be repeated, and
/// all go through one node, so this is harmless.
struct Lock<'a> {
    session: &'a Session,
    keyspace: &'a str,
    holder: String,
    max_wait: Duration,
    /// How long the database may give no answer.
    max_silence: Duration,
}

impl Lock<'_> {
    async fn during<T>(&self, work: impl Future<Output = Result<T, MigrateError>>) -> Result<T, MigrateError> {
        self.take().await?;
        let done = tokio::select! {
            done = work => done,
            lost = self.renew() => return Err(lost),
        };
        // Otherwise the next process waits until the lock ends.
        let _ = self.update("SET value = null", "value = ?", (&self.holder,)).await;
        done
    }

    async fn take(&self) -> Result<(), MigrateError> {
        let started = Instant::now();
        loop {
            let taken = match self.update(&hold(), "value = null", (&self.holder,)).await {
                Ok(true) => Ok(true),
                // This attempt, or an earlier one that failed, may have been done.
                _ => self.renewed().await,
            };
            match taken {
                Ok(true) => return Ok(()),
                Ok(false) if started.elapsed() >= self.max_wait => return Err(MigrateError::Locked),
                Err(error) if started.elapsed() >= self.max_silence => return Err(error),
                _ => sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Returns when the lock cannot be renewed.
    async fn renew(&self) -> MigrateError {
        let mut renewed = Instant::now();
        loop {
            sleep(LOCK_TTL / 3).await;
            let began = Instant::now();
            match self.renewed().await {
                Ok(true) => renewed = began,
                Ok(false) => return MigrateError::LostLock,
                Err(error) if renewed.elapsed() + LOCK_TTL / 3 >= LOCK_TTL => return error,
                Err(_) => {}
            }
        }
    }

    async fn renewed(&self) -> Result<bool, MigrateError> {
        self.update(&hold(), "value = ?", (&self.holder, &self.holder)).await
    }

    async fn update(&self, set: &str, condition: &str, values: impl SerializeRow) -> Result<bool, MigrateError> {
        let cql = format!("UPDATE {}.settings {set} WHERE name = 'lock' IF {condition}", self.keyspace);
        let answer = self.session.query_unpaged(cql, values).await.map_err(Cause::from);
        answer.and_then(conditional_write::is_applied).map_err(MigrateError::UnreadableLock)
    }
}

fn hold() -> String {
    format!("USING TTL {} SET value = ?", LOCK_TTL.as_secs())
}
