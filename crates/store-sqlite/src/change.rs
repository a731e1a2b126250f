//! Changes within a transaction, and what the journal must have of them before it is committed.

use std::sync::Arc;

use handbill_core::domain::archive::{Entry, Precedence, Stored as Found, precedence};
use handbill_core::domain::journal::{Kind, Line};
use handbill_core::domain::page::{Page, PageState, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::Visibility;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{Lookup, Record};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::database::{self, ReadError};
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
                lines.push(line_of(visibility, version));
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

/// The line of an act on a page that may not be here, or has `version`.
fn line_of(visibility: &Visibility, version: PageVersion) -> Line {
    let Visibility { slug, at, hidden } = visibility;
    Line {
        kind: if hidden.is_some() { Kind::Hide } else { Kind::Show },
        slug: slug.to_string(),
        version: version.get(),
        at: at.to_string(),
        reason: hidden.as_ref().map(|takedown| takedown.reason),
        by: hidden.as_ref().map(|takedown| takedown.by.clone()),
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
                lines.push(Line::of_head(&page.head));
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
pub(super) fn replay(database: &Connection, entry: &Entry) -> Result<bool, ReadError> {
    let apply = |operation: Operation| -> Result<bool, ReadError> {
        Ok(operation.apply(database, &mut Vec::new())? == Outcome::Done)
    };
    let slug = entry.slug();
    let found = match database::lookup(database, slug) {
        Ok(found) => Some(found),
        // The text is damaged, and it can be deleted all the same.
        Err(ReadError::Row(..)) => None,
        Err(error) => return Err(error),
    };
    let is_new = match entry {
        Entry::Visibility(visibility) => apply(Operation::KeepVisibility(visibility.clone()))?,
        Entry::Tombstone(_) | Entry::Page(..) => false,
    };
    if found.as_ref().is_some_and(|found| precedence(state_of(found), entry) != Precedence::Import) {
        return Ok(is_new);
    }
    let head = found.as_ref().and_then(Lookup::head);
    let record = match (entry, &found) {
        (Entry::Tombstone(tombstone), _) => {
            let created_at = head.map_or(tombstone.created_at, |head| head.created_at);
            Record::Deleted(Tombstone { created_at, ..tombstone.clone() })
        }
        (Entry::Visibility(visibility), Some(_)) => {
            let Some(page) = database::page(database, slug)? else { return Ok(is_new) };
            let head = page.head.clone().seen_by(visibility);
            Record::Active(Arc::new(Page { head, text: page.text.clone() }))
        }
        (Entry::Visibility(_), None) | (Entry::Page(..), _) => return Ok(is_new),
    };
    let row = Row::of(&record).map_err(|error| ReadError::Row(slug.to_string(), error))?;
    apply(match (&found, head) {
        (None, _) => Operation::Replace(Expected::Unreadable, record, row),
        (Some(_), Some(head)) => Operation::Replace(Expected::State(head.state()), record, row),
        (Some(_), None) => Operation::Insert(record, row),
    })
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
