//! Errors of the store as a whole: it cannot be opened, has failed, or is closed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::panics::Panicked;

/// Why the store cannot be opened. Each message is one line that says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("{} is in use by another process: stop that one, or choose another data directory", .0.display())]
    InUse(PathBuf),
    #[error("{} is not a directory: choose another data directory", .0.display())]
    NotADirectory(PathBuf),
    /// The file system is mounted read-only.
    #[error("{} cannot be written ({reason}): mount its file system for writing, or choose another data directory; `handbill check` and `handbill export` need not write", path.display())]
    ReadOnly { path: PathBuf, reason: io::Error },
    /// This user may not read and write the file or directory.
    #[error("{} cannot be read and written ({reason}): change its owner or mode, or choose another data directory", path.display())]
    Denied { path: PathBuf, reason: io::Error },
    #[error("there is no space for {} ({reason}): free some space, or choose another data directory", path.display())]
    Full { path: PathBuf, reason: io::Error },
    #[error("{} has format {found} and this Handbill reads only format {known}: start the version that wrote it, or choose another data directory", path.display())]
    UnknownFormat {
        path: PathBuf,
        /// The database's format.
        found: u64,
        known: u64,
    },
    #[error("{} is damaged or no Handbill database ({reason}): restore it from a backup, or choose another data directory", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// Another file has the name of the ledger of deletions.
    #[error("the ledger of deletions beside {} is damaged ({reason}): move it away, and the next start writes a new one from the tombstones", path.display())]
    NotALedger { path: PathBuf, reason: String },
    /// There already is a database where a restore would make one.
    #[error("there is a database already, {}: restore into another data directory, or move that file away first", .0.display())]
    NotEmpty(PathBuf),
    /// There is a database, and an empty one was to begin.
    #[error("{} has a database already: leave --new-store out, or choose another data directory", .0.display())]
    NotLost(PathBuf),
    /// There is no database where there was one, or was about to be one. An empty one in its place would answer 404 for every
    /// page.
    #[error("{} has no database, but {found}: mount the right volume, or run `handbill restore`; `handbill serve --new-store` begins an empty one", path.display())]
    Lost { path: PathBuf, found: &'static str },
    /// There is no database, and none may be created.
    #[error("{} has no database of Handbill: choose another data directory", .0.display())]
    Missing(PathBuf),
    /// The operating system refuses access for another reason.
    #[error("{} cannot be opened: {reason}", path.display())]
    Io { path: PathBuf, reason: io::Error },
}

impl OpenError {
    /// Whether another process uses the data directory.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse(_))
    }

    /// Whether the directory is on a file system that is mounted read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly { .. })
    }

    pub(super) fn is_about_room(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether opening the store again would fail even on a disk that works.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::UnknownFormat { .. }
            | Self::Damaged { .. }
            | Self::NotALedger { .. }
            | Self::Lost { .. }
            | Self::Missing(_)
            | Self::NotEmpty(_)
            | Self::NotLost(_) => true,
            Self::InUse(_)
            | Self::NotADirectory(_)
            | Self::ReadOnly { .. }
            | Self::Denied { .. }
            | Self::Full { .. }
            | Self::Io { .. } => false,
        }
    }

    pub(super) fn io(path: &Path, reason: io::Error) -> Self {
        let path = path.to_owned();
        match reason.kind() {
            io::ErrorKind::NotADirectory => Self::NotADirectory(path),
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, reason },
            io::ErrorKind::PermissionDenied => Self::Denied { path, reason },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, reason }
            }
            // `redb` reports a file that it did not write, or that ends too early, as one of these errors.
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Self::Damaged { path, reason: reason.to_string() }
            }
            _ => Self::Io { path, reason },
        }
    }

    pub(super) fn panicked(path: &Path, panicked: &Panicked) -> Self {
        Self::Damaged { path: path.to_owned(), reason: panicked.to_string() }
    }

    pub(super) fn database(path: &Path, error: impl Into<redb::Error>) -> Self {
        match error.into() {
            redb::Error::Io(reason) => Self::io(path, reason),
            redb::Error::DatabaseAlreadyOpen => Self::InUse(path.to_owned()),
            other => Self::Damaged { path: path.to_owned(), reason: other.to_string() },
        }
    }
}

/// Why a store has ended in this process although nobody closed it. All acknowledged writes are on disk.
#[derive(Debug, Error)]
pub enum WriterError {
    #[error("the writer of the page store failed ({0}): what was acknowledged is on disk, start Handbill again")]
    Panicked(String),
    /// The database had to be reopened after a failure, and cannot be opened.
    #[error("the page store cannot be opened again: {0}")]
    Unusable(Arc<OpenError>),
}

/// The store was closed before the operation started.
#[derive(Debug, Error)]
#[error("the store is closed")]
pub(super) struct ClosedError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operating_system_refuses_becomes_one_line_that_says_what_to_do() {
        let path = Path::new("/data");
        for (kind, advice) in [
            (io::ErrorKind::PermissionDenied, "change its owner or mode"),
            (io::ErrorKind::ReadOnlyFilesystem, "mount its file system for writing"),
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::QuotaExceeded, "free some space"),
            (io::ErrorKind::NotADirectory, "choose another data directory"),
            (io::ErrorKind::InvalidData, "restore it from a backup"),
            (io::ErrorKind::UnexpectedEof, "restore it from a backup"),
            (io::ErrorKind::Other, "cannot be opened"),
        ] {
            let line = OpenError::io(path, kind.into()).to_string();
            assert!(line.starts_with("/data ") || line.contains(" /data "), "{line}");
            assert!(line.contains(advice) && !line.contains('\n'), "{line}");
        }
    }
}
