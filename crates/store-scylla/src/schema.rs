//! This program's migrations, and how a keyspace's schema compares with them.

use std::collections::BTreeMap;

use handbill_pages::ports::page_store::Cause;
use handbill_pages::values::hex;
use scylla::{
    DeserializeRow, client::session::Session, deserialize::row::DeserializeRow, serialize::row::SerializeRow,
    statement::Statement,
};
use sha2::{Digest, Sha256};
use strum::{AsRefStr, Display};
use thiserror::Error;

pub(super) const COMPONENT: &str = "handbill";

/// `migrate` itself writes these tables.
pub(super) const OWN_TABLES: [&str; 2] =
    [include_str!("../../../migrations/settings.cql"), include_str!("../../../migrations/schema_migrations.cql")];

pub const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    phase: Phase::Expand,
    name: "baseline",
    cql: include_str!("../../../migrations/0001_expand_baseline.cql"),
}];

/// A file of `migrations/`, at the top of the repository, named by the first three fields: `0002_expand_note.cql`.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub number: i32,
    pub phase: Phase,
    pub name: &'static str,
    /// The whole file; its statements can be repeated.
    pub cql: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Phase {
    /// Only adds to the schema: programs of the version before keep working.
    Expand,
    /// Removes what only programs of the version before need, so they no longer work.
    Contract,
}

impl Migration {
    pub fn checksum(&self) -> String {
        hex::encode(&Sha256::digest(self.cql))
    }

    /// Each with the comments before it. A semicolon at the end of a line ends a statement; no line of a comment ends so.
    pub(super) fn statements(&self) -> impl Iterator<Item = &'static str> {
        self.cql.split_inclusive(";\n")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum SchemaState {
    #[strum(to_string = "there is no schema")]
    Missing,
    #[strum(to_string = "the schema belongs to an older version")]
    Older,
    #[strum(to_string = "the schema belongs to this version")]
    Current,
    /// A later program only added to the schema.
    #[strum(to_string = "the schema belongs to a later version")]
    NewerExpanded,
}

#[derive(Debug, Error)]
pub enum SchemaError {
    #[error("migration {number} in the database differs from this program's: they do not belong together")]
    Changed { number: i32 },
    #[error("the schema was contracted by a later version of Handbill: run that version")]
    TooNew,
    #[error("the schema cannot be read: {0}")]
    Unreadable(#[from] Cause),
}

impl SchemaError {
    pub(super) fn unreadable(cause: impl Into<Cause>) -> Self {
        Self::Unreadable(cause.into())
    }
}

#[derive(Clone, Debug, DeserializeRow)]
pub(super) struct AppliedMigration {
    pub(super) number: i32,
    pub(super) phase: String,
    pub(super) checksum: String,
}

pub async fn check(session: &Session, keyspace: &str, known: &[Migration]) -> Result<SchemaState, SchemaError> {
    compare(known, &applied(session, keyspace).await?)
}

pub(super) async fn applied(session: &Session, keyspace: &str) -> Result<Vec<AppliedMigration>, SchemaError> {
    let tables =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'schema_migrations'";
    if select::<(String,)>(session, tables, (keyspace,)).await?.is_empty() {
        return Ok(Vec::new());
    }
    let cql =
        format!("SELECT number, phase, checksum FROM {keyspace}.schema_migrations WHERE component = '{COMPONENT}'");
    Ok(select(session, cql, ()).await?)
}

/// A setting of `migrate`; `None` if that has not written it yet.
pub(super) async fn setting(session: &Session, keyspace: &str, name: &str) -> Result<Option<String>, SchemaError> {
    let cql = format!("SELECT value FROM {keyspace}.settings WHERE name = ?");
    let rows = select::<(Option<String>,)>(session, cql, (name,)).await?;
    Ok(rows.into_iter().find_map(|(value,)| value))
}

pub(super) async fn select<R>(
    session: &Session,
    cql: impl Into<Statement>,
    values: impl SerializeRow,
) -> Result<Vec<R>, Cause>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    let rows = session.query_unpaged(cql, values).await?.into_rows_result()?;
    Ok(rows.rows::<R>()?.collect::<Result<_, _>>()?)
}

pub(super) fn compare(known: &[Migration], applied: &[AppliedMigration]) -> Result<SchemaState, SchemaError> {
    let mut unknown: BTreeMap<i32, _> = applied.iter().map(|applied| (applied.number, applied)).collect();
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
    Ok(if applied.is_empty() {
        SchemaState::Missing
    } else if lacks_some {
        SchemaState::Older
    } else if unknown.is_empty() {
        SchemaState::Current
    } else if unknown.values().all(|applied| applied.phase == Phase::Expand.as_ref()) {
        SchemaState::NewerExpanded
    } else {
        return Err(SchemaError::TooNew);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Migration = Migration { number: 1, phase: Phase::Expand, name: "first", cql: "one" };
    const SECOND: Migration = Migration { number: 2, phase: Phase::Expand, name: "second", cql: "two" };

    fn row(migration: &Migration, phase: Phase) -> AppliedMigration {
        AppliedMigration { number: migration.number, phase: phase.as_ref().to_owned(), checksum: migration.checksum() }
    }

    #[test]
    fn a_keyspace_is_missing_older_current_or_newer() {
        let one = row(&FIRST, Phase::Expand);
        let two = row(&SECOND, Phase::Expand);
        let both = [one.clone(), two];
        assert_eq!(compare(&[FIRST, SECOND], &[]).unwrap(), SchemaState::Missing);
        assert_eq!(compare(&[FIRST, SECOND], &both[..1]).unwrap(), SchemaState::Older);
        assert_eq!(compare(&[FIRST, SECOND], &both).unwrap(), SchemaState::Current);
        assert_eq!(compare(&[FIRST], &both).unwrap(), SchemaState::NewerExpanded);
        let contracted = [one, row(&SECOND, Phase::Contract)];
        assert!(matches!(compare(&[FIRST], &contracted), Err(SchemaError::TooNew)));
    }

    #[test]
    fn an_applied_migration_that_was_changed_is_refused() {
        let changed = AppliedMigration { checksum: SECOND.checksum(), ..row(&FIRST, Phase::Expand) };
        let error = compare(&[FIRST, SECOND], &[changed]).unwrap_err();
        assert!(matches!(error, SchemaError::Changed { number: 1 }), "{error}");
    }

    #[test]
    fn a_file_is_sent_statement_by_statement() {
        let file = "-- A table; it is new.\nCREATE one;\n\n-- Another.\nCREATE two (\n    x int\n);\n";
        let statements: Vec<_> = Migration { cql: file, ..FIRST }.statements().collect();
        assert_eq!(
            statements,
            ["-- A table; it is new.\nCREATE one;\n", "\n-- Another.\nCREATE two (\n    x int\n);\n"]
        );
        for migration in MIGRATIONS {
            let heads = migration.cql.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase())).count();
            assert_eq!(migration.statements().count(), heads, "{}", migration.name);
        }
    }

    #[test]
    fn every_file_of_a_migration_is_part_of_the_program() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut numbered: Vec<String> = files.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).collect();
        numbered.sort();
        let known = MIGRATIONS.iter().zip(1..).map(|(migration, number)| {
            assert_eq!(migration.number, number);
            format!("{number:04}_{}_{}.cql", migration.phase.as_ref(), migration.name)
        });
        assert_eq!(numbered, known.collect::<Vec<_>>());
    }
}
