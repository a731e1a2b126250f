//! Opens the database of a storage, for reading and writing or for reading only.

use redb::Database;

use super::error::OpenError;
use super::no_wait::Resizing;
use super::overlay::Overlay;
use super::storage::{Boxed, Storage};
use super::tables;

/// The database, for reading and writing. `resizing` learns of each change of the file's size.
pub(super) fn open_for_writing(storage: &dyn Storage, resizing: &Resizing) -> Result<Database, OpenError> {
    let backend = storage.read_write().map_err(|reason| OpenError::io(storage.location(), reason))?;
    let opened =
        tables::open(storage.location(), Boxed { backend, resizing: resizing.clone() }, storage.memory().cache);
    // Opening may fail after the file has grown.
    resizing.end();
    opened
}

/// The database, for reading only, even if the disk refuses every write.
pub(super) fn open_for_reading(storage: &dyn Storage) -> Result<Database, OpenError> {
    let overlay =
        storage.read_only().and_then(Overlay::of).map_err(|reason| OpenError::io(storage.location(), reason))?;
    tables::open(storage.location(), Boxed::over(overlay), storage.memory().cache)
}
