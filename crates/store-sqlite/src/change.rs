//! Changes within a transaction, and their lines in the journal.

use handbill_pages::ports::page_store::{Expected, PutResult};
use handbill_pages::values::journal::{Act, Change, Line};
use handbill_pages::values::{page::PackedTextError, record::Record, slug::Slug};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter, types::Value};

use super::database::{self, ReadError};
use super::row::{self, DELETED, HIDDEN};

#[derive(Debug)]
pub(super) enum Operation {
    /// Stores a record, with its row, if what is under its slug is as expected.
    Put(Expected, Record, Vec<Value>),
    Set(&'static str, String),
}

impl Operation {
    pub(super) fn put(expected: Expected, record: Record) -> Result<Self, PackedTextError> {
        let row = row::values(&record)?;
        Ok(Self::Put(expected, record, row))
    }

    /// The page that readers may have seen. An insert changes none.
    pub(super) fn changed(&self) -> Option<&Slug> {
        match self {
            Self::Put(Expected::Absent, ..) | Self::Set(..) => None,
            Self::Put(_, next, _) => Some(next.slug()),
        }
    }

    /// Does this in the transaction of `database`, and adds to `lines` what the journal must have. After an error the
    /// transaction must not be committed.
    pub(super) fn apply(&self, database: &Connection, lines: &mut Vec<Line>) -> rusqlite::Result<PutResult> {
        match self {
            Self::Put(expected, record, row) => {
                let Some(was_hidden) = put(database, *expected, record.slug(), row)? else {
                    return Ok(PutResult::Refused);
                };
                lines.extend(Line::of(record, was_hidden));
            }
            Self::Set(name, value) => database::set(database, name, value)?,
        }
        Ok(PutResult::Done)
    }
}

/// Puts `row` under `slug`, and says whether the page there was hidden; `None` if the slug has not what is `expected`.
fn put(database: &Connection, expected: Expected, slug: &Slug, row: &[Value]) -> rusqlite::Result<Option<bool>> {
    let was_hidden = match expected {
        Expected::Absent => {
            let inserted = database.prepare_cached(row::INSERT)?.execute(params_from_iter(row))?;
            return Ok((inserted > 0).then_some(false));
        }
        Expected::Unreadable => match database::find(database, slug) {
            Err(ReadError::Row(..)) => false,
            Err(ReadError::Database(error)) => return Err(error),
            _ => return Ok(None),
        },
        Expected::State(version, changed_at) => {
            let mut statement = database.prepare_cached(
                "SELECT state FROM pages WHERE slug = ?1 AND version = ?2 AND head ->> '$.changed_at' = ?3",
            )?;
            let expected = params![slug.as_str(), version.get().cast_signed(), changed_at.to_string()];
            match statement.query_row(expected, |row| row.get::<_, String>(0)).optional()? {
                Some(state) if state != DELETED => state == HIDDEN,
                _ => return Ok(None),
            }
        }
    };
    database.prepare_cached(row::UPDATE)?.execute(params_from_iter(row))?;
    Ok(Some(was_hidden))
}

/// Repeats an act of the journal unless the page was written later. Returns whether anything changed.
pub(super) fn replay(database: &Connection, act: &Act) -> Result<bool, ReadError> {
    let slug = &act.slug;
    let (found, expected) = match database::find(database, slug) {
        Ok(found) => {
            let expected = Expected::found(found.as_ref().map(Record::head).as_ref());
            (found, expected)
        }
        // The row is damaged. It can be deleted all the same, and nobody can read it.
        Err(ReadError::Row(..)) if matches!(act.change, Change::Delete(_)) => (None, Expected::Unreadable),
        Err(ReadError::Row(..)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let Some(record) = act.after(found.as_ref()) else { return Ok(false) };
    let operation = Operation::put(expected, record).map_err(|error| ReadError::Row(slug.to_string(), error.into()))?;
    Ok(operation.apply(database, &mut Vec::new())? == PutResult::Done)
}
