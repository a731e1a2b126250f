//! Room on the volume that only deletions may use.
//!
//! A deletion needs room too: the database never overwrites what is still there, and the ledger grows. So on a full
//! volume deletions would fail like all other writes, and nobody could take a page down. Therefore a file beside the
//! database takes up some room. When a deletion finds the volume full, the file is removed, and the deletion is tried
//! again. From then on creates and updates are refused until the file could be made again, so that they never use what
//! deletions need.
//!
//! Nothing reads the file, and each start makes it again, so a crash at any moment loses nothing.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, StatVfs, fallocate, statvfs};
use thiserror::Error;
use tracing::{info, warn};

use super::folders::{FileSystem, Folders, create_file};
use super::storage::Storage;

/// The file in the data directory that takes up the room.
pub(super) const RESERVE_FILE: &str = "handbill.reserve";

/// Room for deletions, in bytes. One deletion takes some pages of 4 KiB, and each commit also saves the allocator's
/// state, about 64 KiB for each GiB of the file. The next commit but one uses again what a commit frees.
const RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// The least room that counts as a reserve, in bytes. Deletions leave a part of their room in the database's file, where
/// later writes use it. If only a whole reserve counted, a volume would have to grow after the first deletion on it.
const LEAST_RESERVE_BYTES: u64 = 4 * 1024 * 1024;

/// The room for deletions, and whether other writes may be tried.
#[derive(Debug)]
pub(super) struct Reserve {
    state: State,
    /// A write found no room, and the volume has not had the least reserve since.
    found_no_room: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The room is taken up.
    Held,
    /// Deletions have the room, or there was none at the start. Other writes are refused.
    Given,
    /// The file system reserves no room.
    Unsupported,
}

/// Only the room for deletions is left on the volume.
#[derive(Debug, Error)]
#[error("the volume is full, and the room that is left is kept for deletions")]
pub(super) struct ReservedError;

impl Reserve {
    pub(super) fn take(storage: &dyn Storage) -> Self {
        let state = State::tried(storage);
        if state == State::Given {
            warn!("the volume is nearly full: pages can be deleted, but not created or updated");
        }
        Self { state, found_no_room: false }
    }

    /// Whether writes that are no deletions may be tried. If one of them found no room before, looks whether there is some now;
    /// if deletions have the room, tries to take it up again.
    pub(super) fn allows_all_writes(&mut self, storage: &dyn Storage) -> bool {
        let refused = self.refuses();
        if self.found_no_room {
            self.found_no_room = !storage.has_room();
        }
        if self.state == State::Given {
            self.state = State::tried(storage);
        }
        if refused && !self.refuses() {
            info!("there is room again: pages can be created and updated");
        }
        !self.refuses()
    }

    fn refuses(&self) -> bool {
        self.state == State::Given || self.found_no_room
    }

    /// Records that a write found no room. Each attempt opens the database again, so there is none until the volume has room.
    pub(super) fn found_no_room(&mut self) {
        self.found_no_room = true;
    }

    /// Gives the room to deletions. Returns whether there is more room now.
    pub(super) fn give(&mut self, storage: &dyn Storage) -> bool {
        if self.state != State::Held {
            return false;
        }
        match storage.give_reserve() {
            Ok(()) => {
                warn!(
                    "the volume is full: its reserve is given to deletions, and pages can no longer be created or updated"
                );
                self.state = State::Given;
                true
            }
            Err(reason) => {
                warn!(%reason, "the volume is full, and its reserve cannot be given to deletions");
                false
            }
        }
    }
}

impl State {
    /// The state after an attempt to take up the room.
    fn tried(storage: &dyn Storage) -> Self {
        match storage.take_reserve() {
            Ok(()) => Self::Held,
            Err(reason) if is_full(&reason) => Self::Given,
            Err(reason) => {
                warn!(%reason, "no room can be reserved for deletions on a full volume");
                Self::Unsupported
            }
        }
    }
}

/// Whether `error` means that the volume, or the user's share of it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the volume of `directory` has as much room as the least reserve. A write finds out where that cannot be known, or
/// where only the user's share is used up.
pub(super) fn has_room(directory: &Path) -> bool {
    statvfs(directory).map_or(true, |volume| free_bytes(&volume) >= LEAST_RESERVE_BYTES)
}

/// The room on a volume that this process may use.
pub(super) fn free_bytes(volume: &StatVfs) -> u64 {
    volume.f_bavail.saturating_mul(volume.f_frsize)
}

/// Makes the file in `directory`, with as much of the room as there is.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    let path = directory.join(RESERVE_FILE);
    let file = create_file(&path)?;
    let mut bytes = RESERVE_BYTES;
    let refused = loop {
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // A larger amount that was tried before may have been taken up in part.
            Ok(()) => return file.set_len(bytes),
            Err(reason) if bytes > LEAST_RESERVE_BYTES && is_full(&io::Error::from(reason)) => bytes /= 2,
            Err(reason) => break reason,
        }
    };
    let _ = fs::remove_file(path);
    Err(refused.into())
}

/// Removes the file in `directory`. Afterwards its room is free: some file systems free it only when they have noted
/// that the file is gone.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(RESERVE_FILE)) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => return Err(reason),
        _ => {}
    }
    FileSystem.sync(directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_file_takes_up_its_room_on_the_volume_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            make(directory.path()).unwrap();
            let file = fs::metadata(directory.path().join(RESERVE_FILE)).unwrap();
            assert_eq!((file.len(), file.mode() & 0o777), (RESERVE_BYTES, 0o600));
            assert!(file.blocks() * 512 >= RESERVE_BYTES, "it is no sparse file");
        }
        for _ in 0..2 {
            remove(directory.path()).unwrap();
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}
