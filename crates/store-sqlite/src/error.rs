//! Why a store cannot be opened, or has ended.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

/// Why a store cannot be opened, in one line that says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("cannot open {}: another process uses it; stop that process, or choose another directory with --data-dir", .0.display())]
    InUse(PathBuf),
    #[error("cannot open {}: {reason}; check its owner, mode and free space, or choose another directory with --data-dir", path.display())]
    Io { path: PathBuf, reason: io::Error },
    #[error("cannot open {}: it has format {found} and this Handbill reads formats up to {known}; start the version that wrote it", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("cannot open {}: it is damaged or no database of Handbill ({reason}); restore a backup, or choose another directory with --data-dir", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// An empty database would answer 404 for every page.
    #[error("cannot open {}: it has a journal and no database; mount the right volume or restore a backup, or begin an empty store with --new-store", .0.display())]
    Lost(PathBuf),
    #[error("cannot begin a new store in {}: it has a database; leave --new-store out, or choose another directory with --data-dir", .0.display())]
    NotLost(PathBuf),
}

/// The writer ended although the store was not closed. All acknowledged writes are on disk.
#[derive(Debug, Error)]
#[error("the writer of the page store failed: what was acknowledged is on disk, start Handbill again")]
pub struct StoreEnded;

impl OpenError {
    pub(super) fn io(path: &Path, reason: io::Error) -> Self {
        Self::Io { path: path.to_owned(), reason }
    }

    pub(super) fn database(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse(path),
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure,
            ) => Self::Io { path, reason: io::Error::other(error.to_string()) },
            _ => Self::Damaged { path, reason: error.to_string() },
        }
    }
}
