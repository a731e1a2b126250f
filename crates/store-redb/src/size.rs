//! How much the store holds, and how much room its volume has, for metrics.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTableMetadata};
use rustix::fs::statvfs;

use super::data_dir::DATABASE_FILE;
use super::ledger_file::LEDGER_FILE;
use super::reading::on_database;
use super::reserve::{RESERVE_FILE, free_bytes};
use super::store::RedbStore;
use super::tables::{META, PAGES};
use super::tombstone_count::TOMBSTONES_KEY;
use crate::ports::page_store::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordCount {
    pub pages: u64,
    pub tombstones: u64,
}

/// The files of a data directory and their volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The blocks of the database's file. A part of them may be free for later writes. The file is longer, because it grows
    /// ahead of what is written.
    pub database: u64,
    pub ledger: u64,
    /// The room that is kept for deletions; 0 while they use it.
    pub reserve: u64,
    /// Room on the volume that this process may use.
    pub volume_free: u64,
    /// All other room on the volume.
    pub volume_used: u64,
}

impl Room {
    pub fn of(data_dir: &Path) -> io::Result<Self> {
        let volume = statvfs(data_dir)?;
        let volume_free = free_bytes(&volume);
        Ok(Self {
            database: file_bytes(&data_dir.join(DATABASE_FILE))?,
            ledger: file_bytes(&data_dir.join(LEDGER_FILE))?,
            reserve: file_bytes(&data_dir.join(RESERVE_FILE))?,
            volume_free,
            volume_used: volume.f_blocks.saturating_mul(volume.f_frsize).saturating_sub(volume_free),
        })
    }
}

/// The blocks of a file, in bytes; 0 if there is none.
fn file_bytes(path: &Path) -> io::Result<u64> {
    /// The unit of `st_blocks` on every file system (`stat(2)`).
    const BLOCK: u64 = 512;
    match fs::metadata(path) {
        Ok(file) => Ok(file.blocks() * BLOCK),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(reason) => Err(reason),
    }
}

impl RedbStore {
    pub async fn count(&self) -> Result<RecordCount, StoreError> {
        self.read_blocking(|shared| on_database(shared, count)).await
    }
}

fn count(database: &Database) -> Result<RecordCount, redb::Error> {
    let transaction = database.begin_read()?;
    let records = transaction.open_table(PAGES)?.len()?;
    let meta = transaction.open_table(META)?;
    let tombstones = meta.get(TOMBSTONES_KEY)?.map_or(0, |count| count.value());
    Ok(RecordCount { pages: records.saturating_sub(tombstones), tombstones })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_what_it_takes_on_the_volume_and_not_what_it_has_grown_ahead() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(DATABASE_FILE);
        fs::write(&path, [1; 10_000]).unwrap();
        fs::File::options().append(true).open(path).unwrap().set_len(1 << 30).unwrap();
        let room = Room::of(directory.path()).unwrap();
        assert!((10_000..1_000_000).contains(&room.database), "{}", room.database);
        assert_eq!((room.ledger, room.reserve), (0, 0));
    }
}
