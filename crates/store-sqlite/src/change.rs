//! Changes within a transaction, and what the journal must have of them before it is committed.

use std::sync::Arc;

use handbill_core::domain::journal::{Act, Line};
use handbill_core::domain::page::{Page, PageState, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::Record;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::database::{self, ReadError};
use super::row::{COLUMNS, DELETED, HIDDEN, Row};

/// A write that a caller waits for.
#[derive(Debug)]
pub(super) enum Operation {
    /// Stores a record of which this has the row, if its slug is free.
    Insert(Record, Row),
    /// Replaces the page by the record, if the page is as expected.
    Replace(Expected, Record, Row),
    /// Changes a setting.
    Set(&'static str, String),
}

/// The condition of a replacement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Version(PageVersion),
    State(PageState),
    /// The row cannot be read.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The write's condition does not hold; nothing was changed.
    Refused,
}

impl Operation {
    /// The slug of the page that this may change. An insert changes no page that anybody has read.
    pub(super) fn changed(&self) -> Option<&Slug> {
        match self {
            Self::Replace(_, next, _) => Some(next.slug()),
            Self::Insert(..) | Self::Set(..) => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Insert(_, row) | Self::Replace(_, _, row) => row.bytes(),
            Self::Set(..) => 0,
        }
    }

    /// Does this in the transaction of `database`, and adds to `lines` what the journal must have. An error means that the
    /// transaction must not be committed.
    pub(super) fn apply(&self, database: &Connection, lines: &mut Vec<Line>) -> rusqlite::Result<Outcome> {
        match self {
            Self::Insert(record, row) => {
                let sql = format!(
                    "INSERT INTO pages ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
                     ON CONFLICT (slug) DO NOTHING"
                );
                if database.prepare_cached(&sql)?.execute(params_from_iter(row.values()))? == 0 {
                    return Ok(Outcome::Refused);
                }
                lines.extend(line_of(record, false));
            }
            Self::Replace(expected, next, row) => {
                let Some(was_hidden) = expected.holds(database, next.slug())? else { return Ok(Outcome::Refused) };
                put(database, row)?;
                lines.extend(line_of(next, was_hidden));
            }
            Self::Set(name, value) => database::set(database, name, value)?,
        }
        Ok(Outcome::Done)
    }
}

impl Expected {
    /// Whether the page under `slug` was hidden; `None` if it is not as expected.
    fn holds(self, database: &Connection, slug: &Slug) -> rusqlite::Result<Option<bool>> {
        if let Self::Unreadable = self {
            return match database::lookup(database, slug) {
                Err(ReadError::Row(..)) => Ok(Some(true)),
                Err(ReadError::Database(error)) => Err(error),
                Err(ReadError::Journal(_)) | Ok(_) => Ok(None),
            };
        }
        let Some((state, found)) = state(database, slug)? else { return Ok(None) };
        let is_expected = match self {
            Self::Version(version) => found.version == version,
            Self::State(expected) => found == expected,
            Self::Unreadable => false,
        };
        Ok((is_expected && state != DELETED).then_some(state == HIDDEN))
    }
}

/// The state of the record under `slug`, and its version and time.
pub(super) fn state(database: &Connection, slug: &Slug) -> rusqlite::Result<Option<(String, PageState)>> {
    let mut statement = database.prepare_cached("SELECT state, version, updated_at FROM pages WHERE slug = ?1")?;
    let read = |row: &rusqlite::Row<'_>| {
        let version = PageVersion::new(row.get::<_, i64>(1)?.cast_unsigned());
        Ok((row.get(0)?, PageState { version, updated_at: UnixMillis::new(row.get(2)?) }))
    };
    statement.query_row([slug.as_str()], read).optional()
}

/// Puts `row` in the place of the one under its slug.
fn put(database: &Connection, row: &Row) -> rusqlite::Result<()> {
    let sql = format!(
        "UPDATE pages SET ({COLUMNS}) = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) WHERE slug = ?1"
    );
    database.prepare_cached(&sql)?.execute(params_from_iter(row.values())).map(drop)
}

/// What the journal must have of a write of `record` in the place of a page that was hidden or not.
fn line_of(record: &Record, was_hidden: bool) -> Option<Line> {
    match record {
        Record::Active(page) => (was_hidden || page.head.hidden.is_some()).then(|| Line::of_head(&page.head)),
        Record::Deleted(tombstone) => Some(Line::of_tombstone(tombstone)),
    }
}

/// Does again what a line of the journal says, unless the database has the page in a later state. Returns whether it changed anything.
pub(super) fn replay(database: &Connection, act: Act) -> Result<bool, ReadError> {
    let slug = act.slug().clone();
    let (expected, created_at, act) = match database::lookup(database, &slug) {
        Ok(found) => {
            let Some(act) = act.on((&found).into()) else { return Ok(false) };
            let head = found.head();
            (head.map(|head| Expected::State(head.state())), head.map(|head| head.created_at), act)
        }
        // The row is damaged. It can be deleted all the same, and nobody can read it.
        Err(ReadError::Row(..)) if matches!(act, Act::Delete(_)) => (Some(Expected::Unreadable), None, act),
        Err(ReadError::Row(..)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let record = match act {
        Act::Delete(tombstone) => {
            let created_at = created_at.unwrap_or(tombstone.created_at);
            Record::Deleted(Tombstone { created_at, ..tombstone })
        }
        Act::Turn { at, hidden, .. } => {
            let Some(page) = database::page(database, &slug)? else { return Ok(false) };
            Record::Active(Arc::new(Page { head: page.head.replayed(hidden, at), text: page.text.clone() }))
        }
    };
    let row = Row::of(&record).map_err(|error| ReadError::Row(slug.to_string(), error))?;
    let operation = match expected {
        Some(expected) => Operation::Replace(expected, record, row),
        None => Operation::Insert(record, row),
    };
    Ok(operation.apply(database, &mut Vec::new())? == Outcome::Done)
}
