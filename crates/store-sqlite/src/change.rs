//! Changes within a transaction, and their lines in the journal.

use std::sync::Arc;

use handbill_pages::ports::page_store::Record;
use handbill_pages::values::journal::{Act, Line};
use handbill_pages::values::page::{Page, PageState, PageVersion, Tombstone};
use handbill_pages::values::slug::Slug;
use handbill_pages::values::timestamp::UnixMillis;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::database::{self, ReadError};
use super::row::{COLUMNS, DELETED, HIDDEN, Row, RowError};

#[derive(Debug)]
pub(super) enum Operation {
    /// Stores the record, as this row, if the slug has what is expected.
    Put(Expected, Record, Row),
    Set(&'static str, String),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Absent,
    Version(PageVersion),
    State(PageState),
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
}

impl Operation {
    pub(super) fn put(expected: Expected, record: Record) -> Result<Self, RowError> {
        let row = Row::of(&record)?;
        Ok(Self::Put(expected, record, row))
    }

    /// The page that readers may have seen. An insert changes none.
    pub(super) fn changed(&self) -> Option<&Slug> {
        match self {
            Self::Put(Expected::Absent, ..) | Self::Set(..) => None,
            Self::Put(_, next, _) => Some(next.slug()),
        }
    }

    /// Adds to `lines` what the journal needs. After an error, do not commit.
    pub(super) fn apply(&self, database: &Connection, lines: &mut Vec<Line>) -> rusqlite::Result<Outcome> {
        match self {
            Self::Put(expected, record, row) => {
                let Some(was_hidden) = expected.put(database, record.slug(), row)? else {
                    return Ok(Outcome::Refused);
                };
                match record {
                    Record::Active(page) if was_hidden || page.head.hidden.is_some() => {
                        lines.push(Line::of_head(&page.head));
                    }
                    Record::Active(_) => {}
                    Record::Deleted(tombstone) => lines.push(Line::of_tombstone(tombstone)),
                }
            }
            Self::Set(name, value) => database::set(database, name, value)?,
        }
        Ok(Outcome::Done)
    }
}

impl Expected {
    /// Returns whether the replaced page was hidden; `None` if the slug has something else than expected.
    fn put(self, database: &Connection, slug: &Slug, row: &Row) -> rusqlite::Result<Option<bool>> {
        const VALUES: &str = "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let execute = |sql: &str| database.prepare_cached(sql)?.execute(params_from_iter(row.values()));
        let (is_expected, was_hidden) = match self {
            Self::Absent => {
                let sql = format!("INSERT INTO pages ({COLUMNS}) VALUES {VALUES} ON CONFLICT (slug) DO NOTHING");
                return Ok((execute(&sql)? > 0).then_some(false));
            }
            Self::Unreadable => match database::lookup(database, slug) {
                Err(ReadError::Database(error)) => return Err(error),
                found => (matches!(found, Err(ReadError::Row(..))), false),
            },
            Self::Version(_) | Self::State(_) => {
                let Some((kind, found)) = state(database, slug)? else { return Ok(None) };
                let is_same = match self {
                    Self::Version(version) => found.version == version,
                    _ => matches!(self, Self::State(state) if state == found),
                };
                (is_same && kind != DELETED, kind == HIDDEN)
            }
        };
        if !is_expected {
            return Ok(None);
        }
        execute(&format!("UPDATE pages SET ({COLUMNS}) = {VALUES} WHERE slug = ?1"))?;
        Ok(Some(was_hidden))
    }
}

pub(super) fn state(database: &Connection, slug: &Slug) -> rusqlite::Result<Option<(String, PageState)>> {
    let mut statement = database.prepare_cached("SELECT state, version, updated_at FROM pages WHERE slug = ?1")?;
    let read = |row: &rusqlite::Row<'_>| {
        let version = PageVersion::new(row.get::<_, i64>(1)?.cast_unsigned());
        Ok((row.get(0)?, PageState { version, updated_at: UnixMillis::new(row.get(2)?) }))
    };
    statement.query_row([slug.as_str()], read).optional()
}

/// Repeats a line of the journal unless the page is in a later state. Returns whether anything changed.
pub(super) fn replay(database: &Connection, act: Act) -> Result<bool, ReadError> {
    let slug = act.slug().clone();
    let (expected, created_at, act) = match database::lookup(database, &slug) {
        Ok(found) => {
            let Some(act) = act.on((&found).into()) else { return Ok(false) };
            let head = found.head();
            (head.map_or(Expected::Absent, |head| Expected::State(head.state())), head.map(|head| head.created_at), act)
        }
        // A damaged row can still be deleted.
        Err(ReadError::Row(..)) if matches!(act, Act::Delete(_)) => (Expected::Unreadable, None, act),
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
    let operation = Operation::put(expected, record).map_err(|error| ReadError::Row(slug.to_string(), error))?;
    Ok(operation.apply(database, &mut Vec::new())? == Outcome::Done)
}
