//! The database: how it is opened, its tables, and its reads. `user_version` is the format; newer ones are refused.

use std::path::{Path, PathBuf};
use std::{io, time::Duration};

use handbill_pages::ports::page_scan::{ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use handbill_pages::ports::page_store::{Cause, StoreError};
use handbill_pages::ports::random::{Random, new_slug_secret};
use handbill_pages::values::{record::Record, slug::Slug};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, config::DbConfig, params,
    types::FromSql,
};
use thiserror::Error;

use super::row::{DELETED, HIDDEN, SELECT, record};
use super::{directory::MovedError, error::OpenError};

const FORMAT: i64 = 1;

/// `application_id`: "hbil".
const APPLICATION: i64 = 0x6862_696c;

/// Reads at the same time, each on a thread and with a connection of its own.
pub(super) const READS_AT_ONCE: usize = 16;

/// Bytes of SQLite's page cache, for the writer and for all readers together.
const CACHE: usize = 4 << 20;

/// How long a statement waits for the lock of another program, such as `sqlite3`.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// SQLite's log is cut to this size once it was applied.
const LOG_BYTES: i64 = 16 * 1024 * 1024;

/// `head` is JSON (`handbill_pages::values::head`): no field of a page needs another column. `settings` has the slugs' secret,
/// the pause, the last backup, and the journal's applied position. The index counts pages; creates do not change it.
const TABLES: &str = "
    CREATE TABLE pages (
        slug TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, version INTEGER NOT NULL, head TEXT NOT NULL, text BLOB,
        checksum INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX inactive_pages ON pages (state) WHERE state <> 'active';
    CREATE TABLE settings (name TEXT NOT NULL PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
";

pub(super) const SECRET: &str = "slug_secret";
pub(super) const PAUSED: &str = "paused";
pub(super) const APPLIED: &str = "journal_applied";
pub(super) const BACKUP: &str = "last_backup";

#[derive(Debug, Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error("{0}: {1}")]
    Row(String, Cause),
    #[error("the journal: {0}")]
    Journal(#[from] io::Error),
    #[error(transparent)]
    Moved(#[from] MovedError),
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match &error {
            ReadError::Row(..) => Self::Unreadable(error.into()),
            ReadError::Journal(_) | ReadError::Moved(_) => Self::Unavailable(error.into()),
            ReadError::Database(inner) => match inner.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Unreadable(error.into()),
                _ => Self::Unavailable(error.into()),
            },
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct DatabaseOptions {
    pub(super) path: PathBuf,
    /// A commit is on disk when it ends. Tests need not wait for that.
    pub(super) is_durable: bool,
}

impl DatabaseOptions {
    pub(super) fn for_writing(&self) -> Result<Connection, OpenError> {
        let failed = |error: rusqlite::Error| OpenError::database(&self.path, &error);
        let database = self.connect(CACHE).map_err(failed)?;
        let number =
            |pragma: &str| database.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(failed);
        match (number("application_id")?, number("user_version")?) {
            (APPLICATION, FORMAT) => {}
            (APPLICATION, found) => {
                return Err(OpenError::Newer { path: self.path.clone(), found, known: FORMAT });
            }
            (0, 0) if is_empty(&database).map_err(failed)? => {}
            _ => {
                let reason = "its tables are not Handbill's".to_owned();
                return Err(OpenError::Damaged { path: self.path.clone(), reason });
            }
        }
        let mode = database.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        if mode.map_err(failed)? != "wal" {
            let reason = io::Error::other("its file system has no shared memory, which the log of SQLite needs");
            return Err(OpenError::Io { path: self.path.clone(), reason });
        }
        if number("user_version")? == 0 {
            create_tables(&database).map_err(failed)?;
        }
        Ok(database)
    }

    /// Opens a connection that only reads, or writes copies.
    pub(super) fn for_reading(&self) -> rusqlite::Result<Connection> {
        self.connect(CACHE / READS_AT_ONCE)
    }

    fn connect(&self, cache: usize) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&self.path, flags)?;
        database.busy_timeout(BUSY_TIMEOUT)?;
        // The files of SQLite's log stay at a clean stop, after it was emptied: a start on a full volume could not make them.
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        database.pragma_update(None, "synchronous", if self.is_durable { "FULL" } else { "OFF" })?;
        database.pragma_update(None, "secure_delete", true)?;
        database.pragma_update(None, "cell_size_check", true)?;
        // No temporary files: the root file system may be read-only.
        database.pragma_update(None, "temp_store", "MEMORY")?;
        database.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // Negative numbers count KiB.
        database.pragma_update(None, "cache_size", -i64::try_from(cache / 1024).unwrap_or(i64::MAX))?;
        Ok(database)
    }
}

fn create_tables(database: &Connection) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(database, TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    let secret = new_slug_secret(&Random::System);
    transaction.execute("INSERT INTO settings VALUES (?1, ?2)", params![SECRET, secret.as_bytes()])?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

fn is_empty(database: &Connection) -> rusqlite::Result<bool> {
    database.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Whether there is no database, also because a process ended before it had made the tables.
pub(super) fn is_missing(path: &Path) -> bool {
    !std::fs::metadata(path).is_ok_and(|found| found.len() > 0)
}

pub(super) fn setting<T: FromSql>(database: &Connection, name: &str) -> rusqlite::Result<Option<T>> {
    let mut statement = database.prepare_cached("SELECT value FROM settings WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}

pub(super) fn set(database: &Connection, name: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
    let mut statement = database.prepare_cached("INSERT OR REPLACE INTO settings VALUES (?1, ?2)")?;
    statement.execute(params![name, value]).map(drop)
}

pub(super) fn find(database: &Connection, slug: &Slug) -> Result<Option<Record>, ReadError> {
    let mut statement = database.prepare_cached(&format!("{SELECT} WHERE slug = ?"))?;
    let mut rows = statement.query([slug.as_str()])?;
    let found = rows.next()?.map(record).transpose();
    found.map_err(|error| ReadError::Row(slug.to_string(), error))
}

/// The records after the slug `after`, within `limit`.
pub(super) fn batch(database: &Connection, after: &str, limit: ScanLimit) -> Result<ScanBatch, ReadError> {
    let mut statement = database.prepare_cached(&format!("{SELECT} WHERE slug > ? ORDER BY slug"))?;
    let mut rows = statement.query([after])?;
    let mut records = Vec::new();
    let mut bytes = 0;
    let mut last = None;
    let is_whole = loop {
        if last.is_some() && (records.len() >= limit.records || bytes >= limit.bytes) {
            break false;
        }
        let Some(row) = rows.next()? else { break true };
        let name: String = row.get("slug")?;
        let record = record(row);
        // Unpacked, a text takes far more memory than in the file.
        bytes += record.as_ref().map_or(0, Record::bytes);
        records.push(record.map_err(|error| UnreadableRecord { name: name.clone(), cause: error }));
        last = Some(name);
    };
    let next = last.filter(|_| !is_whole).map(ScanCursor::new);
    Ok(ScanBatch { records, next })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pages: u64,
    pub hidden: u64,
    pub deletions: u64,
}

pub(super) fn counts(database: &Connection) -> Result<Counts, ReadError> {
    // With both conditions, SQLite counts in the index.
    let [all, hidden, deletions] = database.query_row(
        "SELECT (SELECT count(*) FROM pages),
                (SELECT count(*) FROM pages WHERE state <> 'active' AND state = ?1),
                (SELECT count(*) FROM pages WHERE state <> 'active' AND state = ?2)",
        [HIDDEN, DELETED],
        |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?].map(i64::cast_unsigned)),
    )?;
    Ok(Counts { pages: all - deletions, hidden, deletions })
}
