//! Changes within a transaction, and what the journal must have of them before it is committed.

use std::sync::Arc;

use handbill_core::domain::archive::{Entry, Precedence, Stored as Found, precedence};
use handbill_core::domain::page::{Page, PageHead, PageState, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::Visibility;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{Lookup, Record};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::database::{self, ReadError};
use super::journal::{Act, Line};
use super::row::{COLUMNS, DELETED, HIDDEN, Row};

/// A write that a caller waits for.
#[derive(Debug)]
pub(super) enum Operation {
    /// Stores a record of which this has the row, if its slug is free.
    Insert(Record, Row),
    /// Replaces the page by the record, if the page is as expected.
    Replace(Expected, Record, Row),
    /// Notes what operators did to a page that may not be here yet, unless it is deleted.
    KeepVisibility(Visibility),
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
            Self::Insert(..) | Self::KeepVisibility(_) | Self::Set(..) => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Insert(_, row) | Self::Replace(_, _, row) => row.bytes(),
            Self::KeepVisibility(_) | Self::Set(..) => 0,
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
                note(database, record, false, lines)?;
            }
            Self::Replace(expected, next, row) => {
                let Some(was_hidden) = expected.holds(database, next.slug())? else { return Ok(Outcome::Refused) };
                put(database, row)?;
                note(database, next, was_hidden, lines)?;
            }
            Self::KeepVisibility(visibility) => {
                let state = state(database, &visibility.slug)?;
                if matches!(&state, Some((state, _)) if state == DELETED) || !keep(database, visibility)? {
                    return Ok(Outcome::Refused);
                }
                let version = state.map_or(PageVersion::FIRST, |(_, state)| state.version);
                lines.push(Line::of_visibility(visibility, version));
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
fn state(database: &Connection, slug: &Slug) -> rusqlite::Result<Option<(String, PageState)>> {
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

/// Notes what the stored `record` says that operators did, and what the journal must have of it.
fn note(database: &Connection, record: &Record, was_hidden: bool, lines: &mut Vec<Line>) -> rusqlite::Result<()> {
    match record {
        Record::Active(page) if was_hidden || page.head.hidden.is_some() => {
            let visibility = page.head.visibility();
            if keep(database, &visibility)? {
                lines.push(Line::of_visibility(&visibility, page.head.version));
            }
        }
        Record::Active(_) => {}
        Record::Deleted(tombstone) => {
            database.prepare_cached("DELETE FROM acts WHERE slug = ?1")?.execute([tombstone.slug.as_str()])?;
            lines.push(Line::of_tombstone(tombstone));
        }
    }
    Ok(())
}

/// Notes `visibility` unless operators did something later; returns whether it is new.
fn keep(database: &Connection, visibility: &Visibility) -> rusqlite::Result<bool> {
    let takedown = visibility.hidden.as_ref();
    let mut statement = database.prepare_cached(
        "INSERT INTO acts VALUES (?1, ?2, ?3, ?4) ON CONFLICT (slug) DO UPDATE \
         SET at = ?2, reason = ?3, operator = ?4 WHERE ?2 > at",
    )?;
    let reason = takedown.map(|takedown| takedown.reason.code());
    let operator = takedown.map(|takedown| &takedown.by);
    Ok(statement.execute(params![visibility.slug.as_str(), visibility.at.get(), reason, operator])? > 0)
}

/// Does what a line of the journal says, unless the database has the page in a later state. Returns whether it changed anything.
pub(super) fn replay(database: &Connection, act: Act) -> Result<bool, ReadError> {
    let apply = |operation: Operation| -> Result<bool, ReadError> {
        Ok(operation.apply(database, &mut Vec::new())? == Outcome::Done)
    };
    let packed = |record: &Record| Row::of(record).map_err(|error| ReadError::Row(record.slug().to_string(), error));
    let slug = match &act {
        Act::Deleted(tombstone) => &tombstone.slug,
        Act::Turned(visibility) => &visibility.slug,
    };
    let found = match database::lookup(database, slug) {
        Ok(found) => Some(found),
        // The text is damaged, and it can be deleted all the same.
        Err(ReadError::Row(..)) => None,
        Err(error) => return Err(error),
    };
    match act {
        Act::Deleted(tombstone) => {
            let created_at = found.as_ref().and_then(Lookup::head).map_or(tombstone.created_at, |head| head.created_at);
            let tombstone = Tombstone { created_at, ..tombstone };
            let record = Record::Deleted(tombstone.clone());
            let row = packed(&record)?;
            let operation = match &found {
                Some(found) if precedence(state_of(found), &Entry::Tombstone(tombstone)) != Precedence::Import => {
                    return Ok(false);
                }
                Some(Lookup::Absent) => Operation::Insert(record, row),
                Some(found) => match found.head() {
                    Some(head) => Operation::Replace(Expected::State(head.state()), record, row),
                    None => return Ok(false),
                },
                None => Operation::Replace(Expected::Unreadable, record, row),
            };
            apply(operation)
        }
        Act::Turned(visibility) => {
            let is_new = apply(Operation::KeepVisibility(visibility.clone()))?;
            let Some(found) = found else { return Ok(is_new) };
            if precedence(state_of(&found), &Entry::Visibility(visibility.clone())) != Precedence::Import {
                return Ok(is_new);
            }
            let Some(page) = database::page(database, &visibility.slug)? else { return Ok(is_new) };
            let head: PageHead = page.head.clone().seen_by(&visibility);
            let record = Record::Active(Arc::new(Page { head, text: page.text.clone() }));
            let row = packed(&record)?;
            apply(Operation::Replace(Expected::State(page.head.state()), record, row))
        }
    }
}

/// The state of `found`, as it counts against a line of the journal.
fn state_of(found: &Lookup) -> Found {
    match found {
        Lookup::Active(page) => Found::Active(page.head.state()),
        Lookup::Hidden(head) => Found::Hidden(head.state()),
        Lookup::Deleted(_) => Found::Deleted,
        Lookup::Absent => Found::Absent,
    }
}
