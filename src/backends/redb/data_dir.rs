//! The data directory: made, locked and checked before anything in it is touched.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend, StorageError};
use thiserror::Error;

use super::folders::{self, FileSystem, Folders};
use super::panics::Panicked;
use super::storage::Storage;
use super::tables;

/// The file in the data directory that holds the pages.
pub const DATABASE_FILE: &str = "handbill.redb";

/// Locked for as long as a process uses the directory. Its content means nothing.
const LOCK_FILE: &str = "handbill.lock";

/// The database while it is made for the first time.
const UNFINISHED_FILE: &str = "handbill.redb.new";

/// As with the directory, only the service's user reads what is in it.
const FILE_MODE: u32 = 0o600;

/// Why the store cannot be opened. Each is one line that says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by another process: stop that one, or choose another data directory", .0.display())]
    InUse(PathBuf),
    /// A file is where a directory should be.
    #[error("{} is not a directory: choose another data directory", .0.display())]
    NotADirectory(PathBuf),
    /// This user may not read and write it.
    #[error("{} cannot be read and written ({reason}): change its owner or mode, or choose another data directory", path.display())]
    Denied {
        /// What was tried.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// No space, or no quota, is left.
    #[error("there is no room for {} ({reason}): free some space, or choose another data directory", path.display())]
    Full {
        /// What was tried.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// A later version of Handbill wrote it, in a format that this one does not know.
    #[error("{} has format {found} and this Handbill knows up to {known}: start the version that wrote it", path.display())]
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is known here.
        known: u64,
    },
    /// An earlier version of Handbill wrote it, in a format that is no longer read.
    #[error("{} has format {found}, which Handbill 0.2.0 and before wrote, and this Handbill reads format {known} alone: start the version that wrote it, or choose another data directory", path.display())]
    OlderFormat {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format that is known here.
        known: u64,
    },
    /// It is not what Handbill writes.
    #[error("{} is damaged or no Handbill database ({reason}): restore it from a backup, or choose another data directory", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else that the operating system refuses.
    #[error("{} cannot be opened: {reason}", path.display())]
    Io {
        /// What was tried.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
}

impl OpenError {
    /// Whether opening again later cannot help, whatever becomes of the disk.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::NewerFormat { .. } | Self::OlderFormat { .. } | Self::Damaged { .. } => true,
            Self::InUse(_) | Self::NotADirectory(_) | Self::Denied { .. } | Self::Full { .. } | Self::Io { .. } => {
                false
            }
        }
    }

    pub(super) fn io(path: &Path, reason: io::Error) -> Self {
        let path = path.to_owned();
        match reason.kind() {
            io::ErrorKind::NotADirectory => Self::NotADirectory(path),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { path, reason },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, reason }
            }
            // How `redb` reports a file that is not one of its own, or ends too early.
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

/// A data directory that no other process uses while this value lives.
#[derive(Debug)]
pub(super) struct DataDirectory {
    database: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Makes the directory and the database in it where they are missing.
    ///
    /// A process that ends at any moment of that leaves nothing that a later start takes for a database: a new one gets
    /// its name when it is complete.
    pub(super) fn prepare(directory: &Path) -> Result<Self, OpenError> {
        folders::make(&FileSystem, directory).map_err(|reason| OpenError::io(directory, reason))?;
        let lock = lock(directory)?;
        let database = directory.join(DATABASE_FILE);
        match fs::metadata(&database) {
            // `redb` would take an empty file for a new database.
            Ok(metadata) if metadata.len() == 0 => {
                return Err(OpenError::Damaged { path: database, reason: "the file is empty".to_owned() });
            }
            Ok(_) => {}
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
                folders::sync_way(&FileSystem, &fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()));
                make_database(directory, &database)?;
            }
            Err(reason) => return Err(OpenError::io(&database, reason)),
        }
        Ok(Self { database, _lock: lock })
    }
}

impl Storage for DataDirectory {
    fn place(&self) -> &Path {
        &self.database
    }

    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>> {
        backend(OpenOptions::new().read(true).write(true).open(&self.database)?)
    }

    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>> {
        backend(File::open(&self.database)?)
    }
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
    let file = file.map_err(|reason| OpenError::io(&path, reason))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(directory.to_owned())),
        Err(TryLockError::Error(reason)) => Err(OpenError::io(&path, reason)),
    }
}

fn make_database(directory: &Path, database: &Path) -> Result<(), OpenError> {
    let unfinished = directory.join(UNFINISHED_FILE);
    let io = |reason| OpenError::io(&unfinished, reason);
    match fs::remove_file(&unfinished) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => return Err(io(reason)),
        _ => {}
    }
    let new = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(&unfinished);
    let made = new
        .and_then(backend)
        .map_err(io)
        .and_then(|new| tables::open(&unfinished, new).map(drop))
        .and_then(|()| fs::rename(&unfinished, database).map_err(io))
        .and_then(|()| FileSystem.sync(directory).map_err(io));
    if made.is_err() {
        // On a full disk the half of a file would take what room there is.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

fn backend(file: File) -> io::Result<Box<dyn StorageBackend>> {
    match FileBackend::new(file) {
        Ok(backend) => Ok(Box::new(backend)),
        Err(DatabaseError::Storage(StorageError::Io(error))) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operating_system_refuses_becomes_one_line_that_says_what_to_do() {
        let path = Path::new("/data");
        for (kind, advice) in [
            (io::ErrorKind::PermissionDenied, "change its owner or mode"),
            (io::ErrorKind::ReadOnlyFilesystem, "change its owner or mode"),
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
