//! The data directory. It is created, locked and checked before anything in it is used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use redb::StorageBackend;

use super::error::OpenError;
use super::folders::{self, FileSystem, Folders};
use super::ledger_file::LedgerFile;
use super::overlay::Overlay;
use super::page_file::PageFile;
use super::remains::remains;
use super::reserve;
use super::storage::{Storage, StoreMemory};
use super::tables;

/// The file in the data directory that holds the pages.
pub const DATABASE_FILE: &str = "handbill.redb";

/// A process that uses the directory locks this file. The file's content is not used.
const LOCK_FILE: &str = "handbill.lock";

/// The name of the database file while the database is being created.
const UNFINISHED_FILE: &str = "handbill.redb.new";

/// The name of the new database file while the database is being compacted.
pub(super) const COMPACTING_FILE: &str = "handbill.redb.compact";

/// A data directory that no other process uses during the life of this value.
#[derive(Debug)]
pub(super) struct DataDir {
    directory: PathBuf,
    database: PathBuf,
    memory: StoreMemory,
    _lock: Option<File>,
}

impl DataDir {
    /// Creates the directory and the database in it if they are missing, unless there was a database.
    ///
    /// A new database gets its name only when it is complete. So if the process ends at any moment, a later start does not
    /// mistake an incomplete file for a database.
    pub(super) fn prepare(directory: &Path, memory: StoreMemory) -> Result<Self, OpenError> {
        folders::create_all(&FileSystem, directory).map_err(|reason| OpenError::io(directory, reason))?;
        let lock = lock(directory)?;
        let database = directory.join(DATABASE_FILE);
        // The rest of an interrupted compaction holds texts, and only the next compaction would remove it.
        let _ = fs::remove_file(directory.join(COMPACTING_FILE));
        match fs::metadata(&database) {
            // `redb` would create a new database in an empty file.
            Ok(metadata) if metadata.len() == 0 => {
                return Err(OpenError::Damaged { path: database, reason: "the file is empty".to_owned() });
            }
            Ok(_) => {}
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
                if let Some(found) = remains(directory).map_err(|reason| OpenError::io(directory, reason))? {
                    return Err(OpenError::Lost { path: directory.to_owned(), found });
                }
                folders::sync_ancestors(
                    &FileSystem,
                    &fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()),
                );
                create_database(directory, &database)?;
            }
            Err(reason) => return Err(OpenError::io(&database, reason)),
        }
        Ok(Self { directory: directory.to_owned(), database, memory, _lock: lock })
    }
}

impl Storage for DataDir {
    fn location(&self) -> &Path {
        &self.database
    }

    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>> {
        backend(OpenOptions::new().read(true).write(true).open(&self.database)?)
    }

    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>> {
        backend(File::open(&self.database)?)
    }

    fn memory(&self) -> StoreMemory {
        self.memory
    }

    fn take_reserve(&self) -> io::Result<()> {
        reserve::make(&self.directory)
    }

    fn give_reserve(&self) -> io::Result<()> {
        reserve::remove(&self.directory)
    }

    fn has_room(&self) -> bool {
        reserve::has_room(&self.directory)
    }

    fn ledger(&self) -> io::Result<Option<LedgerFile>> {
        LedgerFile::open(&self.directory).map(Some)
    }
}

/// Locks `directory`, unless nothing can be written there and no process has ever locked it, as in a snapshot.
pub(super) fn lock(directory: &Path) -> Result<Option<File>, OpenError> {
    let path = directory.join(LOCK_FILE);
    let file = match folders::create_file(&path) {
        // It may be in use where it can be written.
        Err(reason) if reason.kind() == io::ErrorKind::ReadOnlyFilesystem => match File::open(&path) {
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened,
        },
        created => created,
    };
    let file = file.map_err(|reason| OpenError::io(&path, reason))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(directory.to_owned())),
        Err(TryLockError::Error(reason)) => Err(OpenError::io(&path, reason)),
    }
}

fn create_database(directory: &Path, database: &Path) -> Result<(), OpenError> {
    let unfinished = directory.join(UNFINISHED_FILE);
    let io = |reason| OpenError::io(&unfinished, reason);
    match fs::remove_file(&unfinished) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => return Err(io(reason)),
        _ => {}
    }
    let created = folders::create_file(&unfinished)
        .and_then(backend)
        .map_err(io)
        .and_then(|new| tables::open(&unfinished, new.into(), StoreMemory::OF_COMMANDS.cache).map(drop))
        .and_then(|()| fs::rename(&unfinished, database).map_err(io))
        .and_then(|()| FileSystem.sync(directory).map_err(io));
    if created.is_err() {
        // On a full disk the incomplete file would take the space that is left.
        let _ = fs::remove_file(&unfinished);
    }
    created
}

/// A data directory whose files stay as they are: what is written is kept in memory.
#[derive(Debug)]
pub(super) struct Unchanged(pub(super) DataDir);

impl Storage for Unchanged {
    fn location(&self) -> &Path {
        self.0.location()
    }

    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(self.0.read_only().and_then(Overlay::of)?))
    }

    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.0.read_only()
    }
}

pub(super) fn backend(file: File) -> io::Result<Box<dyn StorageBackend>> {
    Ok(Box::new(PageFile::new(file)?))
}
