//! Work on a data directory that no process serves: it is opened only if it has a database, and a restored database
//! takes its place in one step.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::data_dir::{self, DATABASE_FILE, DataDir, Unchanged};
use super::error::OpenError;
use super::folders::{self, FileSystem, Folders};
use super::ledger_file::LEDGER_FILE;
use super::remains::RESTORING;
use super::storage::StoreMemory;
use super::store::RedbStore;

/// The name of a ledger whose database was lost, once an empty one has taken its place.
const LEDGER_BEFORE: &str = "handbill.ledger.before";

impl RedbStore {
    pub fn exists(data_dir: &Path) -> bool {
        data_dir.join(DATABASE_FILE).symlink_metadata().is_ok()
    }

    /// Opens the store in `data_dir`, which must have one.
    pub fn open_existing(data_dir: &Path) -> Result<Self, OpenError> {
        Self::on(Box::new(existing(data_dir)?))
    }

    /// Does the same without changing a file, which may be part of a snapshot. Writes are lost when the store is dropped.
    pub fn open_unchanged(data_dir: &Path) -> Result<Self, OpenError> {
        Self::on(Box::new(Unchanged(existing(data_dir)?)))
    }
}

/// Puts aside what is left of a database in `data_dir`, so that the next start begins an empty one.
pub fn begin_anew(data_dir: &Path) -> Result<(), OpenError> {
    if RedbStore::exists(data_dir) {
        return Err(OpenError::NotLost(data_dir.to_owned()));
    }
    if !data_dir.exists() {
        return Ok(());
    }
    drop(Restoring::begin(data_dir)?);
    let (ledger, before) = (data_dir.join(LEDGER_FILE), data_dir.join(LEDGER_BEFORE));
    if ledger.exists() && before.exists() {
        let reason = io::Error::new(io::ErrorKind::AlreadyExists, "it is of another lost database: move it away");
        return Err(OpenError::Io { path: before, reason });
    }
    match fs::rename(&ledger, &before).and_then(|()| FileSystem.sync(data_dir)) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => Err(OpenError::io(&ledger, reason)),
        _ => Ok(()),
    }
}

/// The data directory `data_dir`, if it has a database.
pub(super) fn existing(data_dir: &Path) -> Result<DataDir, OpenError> {
    if RedbStore::exists(data_dir) {
        DataDir::prepare(data_dir, StoreMemory::OF_COMMANDS)
    } else {
        Err(OpenError::Missing(data_dir.to_owned()))
    }
}

/// A database that is being made from a backup. Until [`Restoring::finish`] the data directory has no database, so
/// nobody can serve an incomplete one.
#[derive(Debug)]
pub struct Restoring {
    data_dir: PathBuf,
    _lock: Option<File>,
}

impl Restoring {
    /// Begins a restore in `data_dir`, which must not have a database. The remains of an interrupted restore are
    /// removed.
    pub fn begin(data_dir: &Path) -> Result<Self, OpenError> {
        folders::create_all(&FileSystem, data_dir).map_err(|reason| OpenError::io(data_dir, reason))?;
        let lock = data_dir::lock(data_dir)?;
        if RedbStore::exists(data_dir) {
            return Err(OpenError::NotEmpty(data_dir.join(DATABASE_FILE)));
        }
        let restoring = Self { data_dir: data_dir.to_owned(), _lock: lock };
        match fs::remove_dir_all(restoring.directory()) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                Err(OpenError::io(&restoring.directory(), reason))
            }
            _ => Ok(restoring),
        }
    }

    pub fn directory(&self) -> PathBuf {
        self.data_dir.join(RESTORING)
    }

    /// Puts the store, which is closed, in its place. The new ledger replaces the one that was there. It has every
    /// deletion of the old one if the caller has imported those.
    pub fn finish(self) -> Result<(), OpenError> {
        let place = |name: &str| {
            let from = self.directory().join(name);
            let moved = fs::rename(&from, self.data_dir.join(name)).and_then(|()| FileSystem.sync(&self.data_dir));
            moved.map_err(|reason| OpenError::io(&from, reason))
        };
        // The ledger comes first, so that the process may end between the two steps: there is no database yet, and
        // every deletion is known.
        place(LEDGER_FILE)?;
        place(DATABASE_FILE)?;
        fs::remove_dir_all(self.directory()).map_err(|reason| OpenError::io(&self.directory(), reason))
    }
}
