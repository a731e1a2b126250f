//! Lookups in the database that readers share with the writer: those that may block their thread, and those that must not.

use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use redb::Database;

use super::error::ClosedError;
use super::jobs::Job;
use super::no_wait::without_waiting;
use super::panics::{Panicked, caught};
use super::shared::{DbState, Shared, cause};
use super::tables;
use crate::domain::page::{Page, PageHead, PageState};
use crate::domain::slug::Slug;
use crate::ports::page_store::{Lookup, StoreError};

/// After a disk error, a lookup waits this long for the writer to reopen the file.
const REOPEN_LIMIT: Duration = Duration::from_secs(5);

pub(super) type Query<T> = fn(&Database, &Slug) -> QueryResult<T>;

/// Fails if the database does. The inner error is about the record.
pub(super) type QueryResult<T> = Result<Result<T, StoreError>, redb::Error>;

/// Runs `query` for `slug`, on a thread that may block. After a disk error, tries once more on the reopened file.
pub(super) fn read<T: Found>(
    shared: &Shared,
    jobs: &mpsc::Sender<Job>,
    slug: &Slug,
    query: Query<T>,
) -> Result<T, StoreError> {
    let seen = shared.epoch();
    let error = match read_once(shared, slug, query) {
        Err(error) if error.may_pass(shared) => error,
        answer => return answer.map_err(StoreError::from),
    };
    let (done, reopened) = mpsc::sync_channel(1);
    let asked = jobs.send(Job::Reopen { seen, done });
    if asked.is_err() || reopened.recv_timeout(REOPEN_LIMIT).is_err() {
        return Err(error.into());
    }
    Ok(read_once(shared, slug, query)?)
}

/// An answer that may show the state of a page.
pub(super) trait Found {
    fn state(&self) -> Option<PageState>;
}

impl Found for Lookup {
    fn state(&self) -> Option<PageState> {
        match self {
            Self::Active(page) => Some(page.head.state()),
            Self::Hidden(_) | Self::Deleted(_) | Self::Absent => None,
        }
    }
}

/// A page that may be hidden.
impl Found for Option<Arc<Page>> {
    fn state(&self) -> Option<PageState> {
        self.as_ref().filter(|page| page.head.hidden.is_none()).map(|page| page.head.state())
    }
}

impl Found for Option<Lookup> {
    fn state(&self) -> Option<PageState> {
        self.as_ref().and_then(Found::state)
    }
}

impl Found for Lookup<PageHead> {
    fn state(&self) -> Option<PageState> {
        match self {
            Self::Active(head) => Some(head.state()),
            Self::Hidden(_) | Self::Deleted(_) | Self::Absent => None,
        }
    }
}

fn read_once<T: Found>(shared: &Shared, slug: &Slug, query: Query<T>) -> Result<T, ReadError> {
    read_in(&shared.state(), shared, slug, query)
}

/// Does the same without waiting for a lock that the writer holds, or for a disk. `None` says nothing about the page: only
/// a thread that may block finds out.
pub(super) fn read_now<T: Found>(
    shared: &Shared,
    slug: &Slug,
    query: impl FnOnce(&Database, &Slug) -> QueryResult<T>,
) -> Option<T> {
    let state = shared.state_now()?;
    // An error is left to `read`, which has the file reopened if that may help. A lookup that would wait is unwound only to here.
    let query = |database: &Database, slug: &Slug| {
        without_waiting(|| query(database, slug))
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::WouldBlock).into()))
    };
    read_in(&state, shared, slug, query).ok()
}

/// Runs `query` in `state`. The database is not replaced while the caller borrows it, so what is learned is from the
/// database of this moment.
fn read_in<T: Found>(
    state: &DbState,
    shared: &Shared,
    slug: &Slug,
    query: impl FnOnce(&Database, &Slug) -> QueryResult<T>,
) -> Result<T, ReadError> {
    let began = shared.known.read_begins(slug);
    let found = run_in(state, |database| query(database, slug))?.map_err(ReadError::Store)?;
    if let Some(state) = found.state() {
        shared.known.learned(slug, state, began);
    }
    Ok(found)
}

/// Runs `read` on the database that readers share. Damage is [`StoreError::Unreadable`], and never a panic.
pub(super) fn on_database<T>(
    shared: &Shared,
    read: impl FnOnce(&Database) -> Result<T, redb::Error>,
) -> Result<T, StoreError> {
    Ok(run_in(&shared.state(), read)?)
}

/// Runs `read` on the database, if `state` allows reads.
fn run_in<T>(state: &DbState, read: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, ReadError> {
    let found = match state {
        DbState::Writable(database) | DbState::ReadOnly(database, _) => caught(|| read(database)),
        DbState::Broken(reason) => return Err(ReadError::Store(StoreError::Unavailable(cause(reason)))),
        DbState::Closed => return Err(ReadError::Store(StoreError::Unavailable(cause(&Arc::new(ClosedError))))),
    };
    found.map_err(ReadError::Panicked)?.map_err(ReadError::Database)
}

#[derive(Debug)]
enum ReadError {
    Store(StoreError),
    Database(redb::Error),
    /// The database panicked because of damage.
    Panicked(Panicked),
}

impl ReadError {
    /// Whether the same lookup may succeed after the file is reopened.
    fn may_pass(&self, shared: &Shared) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Database(error) => tables::is_about_the_disk(error),
            // Reopening does not repair damage. It helps only if the panic left the database's own locks unusable.
            Self::Panicked(_) => match &*shared.state() {
                DbState::Writable(database) | DbState::ReadOnly(database, _) => {
                    !matches!(caught(|| tables::last_batch(database)), Ok(Ok(_)))
                }
                DbState::Broken(_) | DbState::Closed => false,
            },
        }
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => error,
            ReadError::Database(error) if tables::is_damage(&error) => Self::Unreadable(error.into()),
            ReadError::Database(error) => Self::Unavailable(error.into()),
            ReadError::Panicked(panicked) => Self::Unreadable(panicked.into()),
        }
    }
}
