//! Opens the database of a storage, for reading and writing or for reading only.

use redb::Database;

use super::error::OpenError;
use super::overlay::Overlay;
use super::storage::Storage;
use super::tables;

/// The database, for reading and writing.
pub(super) fn open_for_writing(storage: &dyn Storage) -> Result<Database, OpenError> {
    let backend = storage.read_write().map_err(|reason| OpenError::io(storage.location(), reason))?;
    tables::open(storage.location(), backend, storage.cache_bytes())
}

/// The database, for reading only, even if the disk refuses every write.
pub(super) fn open_for_reading(storage: &dyn Storage) -> Result<Database, OpenError> {
    let overlay =
        storage.read_only().and_then(Overlay::of).map_err(|reason| OpenError::io(storage.location(), reason))?;
    tables::open(storage.location(), Box::new(overlay), storage.cache_bytes())
}
