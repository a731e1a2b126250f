//! The data directory: created, locked, and its files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use thiserror::Error;

use super::error::OpenError;

pub const DATABASE_FILE: &str = "handbill.sqlite3";

pub const JOURNAL_FILE: &str = "journal.jsonl";

/// A copy of the database while it is made.
pub(super) const COPY_FILE: &str = "handbill.sqlite3.copy";

/// A process that uses the directory locks this file, and not the database, which `sqlite3` and Litestream may read meanwhile.
const LOCK_FILE: &str = "handbill.lock";

/// Types of network file systems, from `statfs`: NFS, CIFS, SMB2 and 9P.
const NETWORK_FILE_SYSTEMS: [u32; 4] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997];

/// The data directory, locked until this is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
    /// Removes the directory of a test.
    temporary: Option<TempDir>,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        create_all(path).map_err(|reason| OpenError::io(path, reason))?;
        let lock_file = path.join(LOCK_FILE);
        let lock = create_file(&lock_file).map_err(|reason| OpenError::io(&lock_file, reason))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(reason)) => return Err(OpenError::io(&lock_file, reason)),
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers have 32 bits")]
        let is_on_network =
            rustix::fs::statfs(path).is_ok_and(|found| NETWORK_FILE_SYSTEMS.contains(&(found.f_type as u32)));
        if is_on_network {
            tracing::warn!(path = %path.display(), "the data directory is on a network file system, where SQLite may lose pages");
        }
        Ok(Self { path: path.to_owned(), _lock: lock, temporary: None })
    }

    pub(super) fn temporary() -> Result<Self, OpenError> {
        let folder = tempfile::tempdir().map_err(|reason| OpenError::io(&std::env::temp_dir(), reason))?;
        let directory = Self::open(folder.path())?;
        Ok(Self { temporary: Some(folder), ..directory })
    }

    pub(super) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The file of the database, which must stay where it was opened: another process may have a store there later.
#[derive(Clone, Debug)]
pub struct DatabaseFile {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

#[derive(Debug, Error)]
#[error("{} was moved or removed: put it back, or stop and restore a backup", .0.display())]
pub struct MovedError(PathBuf);

impl DatabaseFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { identity: identity(&path), path }
    }

    pub fn is_in_place(&self) -> Result<(), MovedError> {
        (identity(&self.path) == self.identity).then_some(()).ok_or_else(|| MovedError(self.path.clone()))
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Creates or opens a file that only its owner may read: a page may be a draft whose address is secret.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Puts the names in the directory at `path` on disk.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates missing directories, and puts their names on disk, so that a power failure cannot remove them.
fn create_all(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.is_dir());
    for part in missing.collect::<Vec<_>>().into_iter().rev() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(part);
        made.map_err(
            |error| if error.kind() == ErrorKind::AlreadyExists { ErrorKind::NotADirectory.into() } else { error },
        )?;
        sync(part.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    }
    Ok(())
}
