//! Changes within a transaction, and their lines in the journal.

use std::sync::Arc;

use handbill_pages::ports::page_store::{Expected, Lookup, PutResult, Record};
use handbill_pages::values::journal::{Act, Line};
use handbill_pages::values::packed_text::PackedTextError;
use handbill_pages::values::page::{Page, PageState, PageVersion, Tombstone};
use handbill_pages::values::slug::Slug;
use handbill_pages::values::timestamp::UnixMillis;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::database::{self, ReadError};
use super::row::{self, COLUMNS, DELETED, HIDDEN};

#[derive(Debug)]
pub(super) enum Operation {
    /// Stores the record, of which this has the row, if what is under its slug is as expected.
    Put(Expected, Record, Vec<Value>),
    /// Changes a setting.
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
        Ok(PutResult::Done)
    }
}

/// Puts `row` under `slug`, and says whether the page there was hidden; `None` if the slug has not what is `expected`.
fn put(database: &Connection, expected: Expected, slug: &Slug, row: &[Value]) -> rusqlite::Result<Option<bool>> {
    const VALUES: &str = "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let execute = |sql: &str| database.prepare_cached(sql)?.execute(params_from_iter(row));
    let was_hidden = match expected {
        Expected::Absent => {
            let sql = format!("INSERT INTO pages ({COLUMNS}) VALUES {VALUES} ON CONFLICT (slug) DO NOTHING");
            return Ok((execute(&sql)? > 0).then_some(false));
        }
        Expected::Unreadable => match database::find(database, slug) {
            Err(ReadError::Row(..)) => false,
            Err(ReadError::Database(error)) => return Err(error),
            _ => return Ok(None),
        },
        Expected::Version(_) | Expected::State(_) => match state(database, slug)? {
            Some((kind, found)) if kind != DELETED && expected.is_met_by(found) => kind == HIDDEN,
            _ => return Ok(None),
        },
    };
    execute(&format!("UPDATE pages SET ({COLUMNS}) = {VALUES} WHERE slug = ?1"))?;
    Ok(Some(was_hidden))
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
    let (found, expected) = match database::find(database, &slug) {
        Ok(found) => {
            let found = found.map_or(Lookup::Absent, Lookup::from);
            let expected = found.head().map_or(Expected::Absent, |head| Expected::State(head.state()));
            (found, expected)
        }
        // The row is damaged. It can be deleted all the same, and nobody can read it.
        Err(ReadError::Row(..)) if matches!(act, Act::Delete(_)) => (Lookup::Absent, Expected::Unreadable),
        Err(ReadError::Row(..)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let record = match (act.on((&found).into()), found) {
        (Some(Act::Delete(tombstone)), found) => {
            let created_at = found.head().map_or(tombstone.created_at, |head| head.created_at);
            Record::Deleted(Tombstone { created_at, ..tombstone })
        }
        (Some(Act::Turn { at, hidden, .. }), Lookup::Active(page) | Lookup::Hidden(page)) => {
            Record::Active(Arc::new(Page { head: page.head.replayed(hidden, at), text: page.text.clone() }))
        }
        _ => return Ok(false),
    };
    let operation = Operation::put(expected, record).map_err(|error| ReadError::Row(slug.to_string(), error.into()))?;
    Ok(operation.apply(database, &mut Vec::new())? == PutResult::Done)
}
