//! The schema that this program knows, and how a keyspace stands to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scylla::DeserializeRow;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::response::query_result::{MaybeFirstRowError, RowsError};
use scylla::statement::{Consistency, Statement};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::script::{self, Refused, Step};
use crate::ports::page_store::Cause;

/// The only value of the partition keys of the bookkeeping tables.
pub(super) const COMPONENT: &str = "handbill";

/// The tables that migrating itself needs, made before the first migration.
pub(super) const BOOKKEEPING: &str = include_str!("../../../../migrations/bookkeeping.cql");

/// Every migration of this program, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "pages", text: include_str!("../../../../migrations/0001_pages.cql") },
    Migration { number: 2, name: "language", text: include_str!("../../../../migrations/0002_language.cql") },
];

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// What its name begins with.
    pub number: i32,
    /// The rest of its name.
    pub name: &'static str,
    /// All of it.
    pub text: &'static str,
}

/// What a migration does to programs that do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// They go on working.
    Expand,
    /// They do not.
    Contract,
}

/// A migration's file cannot be used.
#[derive(Debug, Error)]
pub enum UnusableMigration {
    /// It does not say what it does to programs that do not know it.
    #[error("migration {0} begins neither with `-- expand:` nor with `-- contract:`")]
    NoPhase(i32),
    /// It has a statement that could not be run again after a crash, or cannot be understood.
    #[error("migration {0}: {1}")]
    Statement(i32, #[source] Refused),
}

impl Migration {
    /// By its first line.
    pub fn phase(&self) -> Result<Phase, UnusableMigration> {
        [("-- expand:", Phase::Expand), ("-- contract:", Phase::Contract)]
            .into_iter()
            .find_map(|(prefix, phase)| self.text.starts_with(prefix).then_some(phase))
            .ok_or(UnusableMigration::NoPhase(self.number))
    }

    /// The SHA-256 of the file in hexadecimal.
    pub fn checksum(&self) -> String {
        let mut hexadecimal = String::with_capacity(64);
        for byte in Sha256::digest(self.text.as_bytes()) {
            write!(hexadecimal, "{byte:02x}").expect("writing to a string does not fail");
        }
        hexadecimal
    }

    /// Its statements, in order.
    pub(super) fn steps(&self) -> Result<Vec<Step>, UnusableMigration> {
        script::steps(self.text).map_err(|refused| UnusableMigration::Statement(self.number, refused))
    }
}

impl Phase {
    /// What the table of migrations calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Expand => "expand",
            Self::Contract => "contract",
        }
    }
}

/// How a keyspace stands to this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// No migration was ever applied.
    Missing,
    /// Some of this program's migrations were not applied.
    Older,
    /// Exactly this program's.
    Current,
    /// A later program's, which has only added to it.
    NewerExpanded,
    /// A later program's, which has taken away what this one needs.
    NewerContracted,
}

/// Why it is not known how a keyspace stands, or why nothing may be done with it.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// An applied migration is not the one that this program has under that number.
    #[error("migration {number} in the database differs from this program's: they do not belong together")]
    Changed {
        /// Its number.
        number: i32,
    },
    /// The database did not answer.
    #[error("the schema cannot be read: {0}")]
    Execution(Cause),
    /// What it answered cannot be read.
    #[error("the table of migrations cannot be read: {0}")]
    Unreadable(Cause),
}

impl From<ExecutionError> for SchemaError {
    fn from(error: ExecutionError) -> Self {
        Self::Execution(error.into())
    }
}

impl From<RowsError> for SchemaError {
    fn from(error: RowsError) -> Self {
        Self::Unreadable(error.into())
    }
}

impl From<MaybeFirstRowError> for SchemaError {
    fn from(error: MaybeFirstRowError) -> Self {
        Self::Unreadable(error.into())
    }
}

/// A row of the table of migrations.
#[derive(Clone, Debug, DeserializeRow)]
pub(super) struct Applied {
    pub(super) number: i32,
    pub(super) phase: String,
    pub(super) checksum: String,
}

/// How `keyspace` stands to `known`.
pub async fn check(session: &Session, keyspace: &str, known: &[Migration]) -> Result<SchemaState, SchemaError> {
    judge(known, &applied(session, keyspace).await?)
}

/// The migrations that were applied whole, in order; none where there is no table of them.
pub(super) async fn applied(session: &Session, keyspace: &str) -> Result<Vec<Applied>, SchemaError> {
    if !has_table(session, keyspace, "schema_migrations").await? {
        return Ok(Vec::new());
    }
    let mut statement = Statement::new(format!(
        "SELECT number, phase, checksum FROM {keyspace}.schema_migrations WHERE component = '{COMPONENT}'"
    ));
    // Applied rows are written by conditional writes; a serial read finishes one that was left half done.
    statement.set_consistency(Consistency::LocalSerial);
    let answer = session.query_unpaged(statement, ()).await?;
    let rows = answer.into_rows_result().map_err(|error| SchemaError::Unreadable(error.into()))?;
    let applied = rows.rows::<Applied>()?.collect::<Result<Vec<_>, _>>();
    applied.map_err(|error| SchemaError::Unreadable(error.into()))
}

/// Whether `keyspace` has the table `name`, as the node that is asked knows it.
pub(super) async fn has_table(session: &Session, keyspace: &str, name: &str) -> Result<bool, SchemaError> {
    exists(session, "tables WHERE keyspace_name = ? AND table_name = ?", &[keyspace, name]).await
}

/// Whether a row of `system_schema` fits.
pub(super) async fn exists(session: &Session, which: &str, values: &[&str]) -> Result<bool, SchemaError> {
    let statement = Statement::new(format!("SELECT keyspace_name FROM system_schema.{which}"));
    let answer = session.query_unpaged(statement, values).await?;
    let rows = answer.into_rows_result().map_err(|error| SchemaError::Unreadable(error.into()))?;
    Ok(rows.maybe_first_row::<(String,)>()?.is_some())
}

/// How a keyspace with the migrations `applied` stands to `known`.
pub(super) fn judge(known: &[Migration], applied: &[Applied]) -> Result<SchemaState, SchemaError> {
    let mut unknown: BTreeMap<i32, &Applied> = applied.iter().map(|applied| (applied.number, applied)).collect();
    let mut lacks_some = false;
    for migration in known {
        match unknown.remove(&migration.number) {
            None => lacks_some = true,
            Some(applied) if applied.checksum != migration.checksum() => {
                return Err(SchemaError::Changed { number: migration.number });
            }
            Some(_) => {}
        }
    }
    let is_expanded = |applied: &&Applied| applied.phase == Phase::Expand.name();
    Ok(match (lacks_some, unknown.is_empty()) {
        _ if applied.is_empty() => SchemaState::Missing,
        (true, _) => SchemaState::Older,
        (false, true) => SchemaState::Current,
        (false, false) if unknown.values().all(is_expanded) => SchemaState::NewerExpanded,
        (false, false) => SchemaState::NewerContracted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Migration = Migration { number: 1, name: "first", text: "-- expand: one" };
    const SECOND: Migration = Migration { number: 2, name: "second", text: "-- expand: two" };

    fn row(migration: &Migration, phase: Phase) -> Applied {
        Applied { number: migration.number, phase: phase.name().to_owned(), checksum: migration.checksum() }
    }

    #[test]
    fn a_keyspace_is_missing_older_current_or_newer() {
        let (one, two) = (row(&FIRST, Phase::Expand), row(&SECOND, Phase::Expand));
        let both = [one.clone(), two];
        assert_eq!(judge(&[FIRST, SECOND], &[]).unwrap(), SchemaState::Missing);
        assert_eq!(judge(&[FIRST, SECOND], &both[..1]).unwrap(), SchemaState::Older);
        assert_eq!(judge(&[FIRST, SECOND], &both).unwrap(), SchemaState::Current);
        assert_eq!(judge(&[FIRST], &both).unwrap(), SchemaState::NewerExpanded);
        let contracted = [one, row(&SECOND, Phase::Contract)];
        assert_eq!(judge(&[FIRST], &contracted).unwrap(), SchemaState::NewerContracted);
    }

    #[test]
    fn an_applied_migration_that_was_changed_is_refused() {
        let changed = Applied { checksum: SECOND.checksum(), ..row(&FIRST, Phase::Expand) };
        let error = judge(&[FIRST, SECOND], &[changed]).unwrap_err();
        assert!(matches!(error, SchemaError::Changed { number: 1 }), "{error}");
    }

    #[test]
    fn every_migration_is_numbered_in_order_says_its_phase_and_can_be_run_again() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.number), Ok(index + 1));
            migration.phase().unwrap();
            assert!(!migration.steps().unwrap().is_empty());
        }
        assert!(!script::steps(BOOKKEEPING).unwrap().is_empty());
    }

    #[test]
    fn every_file_of_a_migration_is_part_of_the_program() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut numbered: Vec<String> = files.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).collect();
        numbered.sort();
        let known: Vec<String> =
            MIGRATIONS.iter().map(|migration| format!("{:04}_{}.cql", migration.number, migration.name)).collect();
        assert_eq!(numbered, known);
    }
}
