//! A disk that can be full, broken or slow on command, and that knows what a power failure would leave of it.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use handbill_store_redb::{Storage, StoreMemory, may_wait, would_wait};
use redb::StorageBackend;

/// Unit of space on the disk, in bytes.
const BLOCK_BYTES: u64 = 4096;

/// Space that is kept for deletions, and the least of it that is, in blocks: a quarter of what a real volume keeps.
const RESERVED_BLOCKS: u64 = 1024;
const LEAST_RESERVED_BLOCKS: u64 = 256;

/// Size of the unit that a disk writes at once, in bytes: after a power failure each is completely old or completely new.
const SECTOR_BYTES: usize = 512;

/// A disk with one file on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[expect(clippy::struct_excessive_bools, reason = "each is one way to fail, and any of them go together")]
#[derive(Debug, Default)]
struct State {
    /// The file's bytes as processes see them.
    bytes: Vec<u8>,
    /// The file's bytes at the last sync.
    durable: Vec<u8>,
    /// The writes since the last sync, in order.
    unsynced: Vec<(u64, Vec<u8>)>,
    /// Blocks that have space.
    given: BTreeSet<u64>,
    open_for_writing: bool,
    /// How often the file was opened for writing.
    opened: usize,
    /// The blocks that can still get space; `None` is any number.
    free: Option<u64>,
    /// Whether a block needs new space each time it is written.
    never_writes_in_place: bool,
    /// The blocks of space that are kept for deletions.
    reserved: u64,
    refuses_writes: bool,
    refuses_reads: bool,
    fails_one_read: bool,
    panics_when_opened: bool,
    /// The number of syncs that succeed before one fails.
    syncs_until_failure: Option<usize>,
    /// Whether all syncs after the failing one fail too.
    syncs_keep_failing: bool,
    holds_syncs: bool,
    /// Whether the next sync waits that comes after the file has grown.
    holds_growth: bool,
    has_grown: bool,
    held_syncs: usize,
    /// The number of reads that find their bytes in memory before one would wait; `None` if all do.
    reads_in_memory: Option<usize>,
    holds_reads: bool,
    held_reads: usize,
    has_no_cache: bool,
    keeps_moments: bool,
    moments: Vec<Moment>,
    acknowledged: usize,
}

/// The disk at one moment: just before a sync.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    durable: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
    /// The count of [`Disk::acknowledge`] at this moment.
    pub(crate) acknowledged: usize,
}

impl Moment {
    /// A disk after a power failure at this moment. For each sector that was not synced, `kept` decides whether it was
    /// written.
    pub(crate) fn power_failure(&self, mut kept: impl FnMut() -> bool) -> Disk {
        let mut bytes = self.durable.clone();
        for (offset, data) in &self.unsynced {
            for (number, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                let at = usize::try_from(*offset).unwrap() + number * SECTOR_BYTES;
                if kept() {
                    bytes.resize(bytes.len().max(at + sector.len()), 0);
                    bytes[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        Disk::with(bytes)
    }
}

/// Syncs wait during the life of this value.
pub(crate) struct HeldSyncs(Disk);

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.holds_syncs, state.holds_growth) = (false, false);
        self.0.0.changed.notify_all();
    }
}

/// Reads of threads that may wait do wait during the life of this value.
pub(crate) struct HeldReads(Disk);

impl Drop for HeldReads {
    fn drop(&mut self) {
        self.0.state().holds_reads = false;
        self.0.0.changed.notify_all();
    }
}

impl HeldReads {
    /// Returns when `count` reads wait.
    pub(crate) fn wait_for(&self, count: usize) {
        let state = self.0.state();
        let waiting = self.0.0.changed.wait_while(state, |state| state.held_reads < count);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

impl HeldSyncs {
    /// Returns when a sync waits.
    pub(crate) fn wait_for_one(&self) {
        let state = self.0.state();
        let waiting = self.0.0.changed.wait_while(state, |state| state.held_syncs == 0);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Disk {
    /// A disk with a file of these bytes.
    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        let blocks = bytes.len() as u64 / BLOCK_BYTES + 1;
        let state = State { durable: bytes.clone(), bytes, given: (0..blocks).collect(), ..State::default() };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// The disk as the store's storage.
    pub(crate) fn storage(&self) -> Box<dyn Storage> {
        Box::new(self.clone())
    }

    /// From now on no block gets new space, except from the space that is kept for deletions. Blocks that have space can
    /// be overwritten, as on most file systems.
    pub(crate) fn fill(&self) {
        self.state().free = Some(0);
    }

    /// Undoes [`Disk::fill`].
    pub(crate) fn make_room(&self) {
        self.state().free = None;
    }

    /// How often the file was opened for writing.
    pub(crate) fn opened(&self) -> usize {
        self.state().opened
    }

    /// From now on each write needs space, as on file systems that never write in place.
    pub(crate) fn never_write_in_place(&self) {
        self.state().never_writes_in_place = true;
    }

    /// From now on writes, changes of length and syncs fail, as on a file system that was turned read-only.
    pub(crate) fn refuse_writes(&self, refuse: bool) {
        self.state().refuses_writes = refuse;
    }

    /// From now on reads fail.
    pub(crate) fn refuse_reads(&self, refuse: bool) {
        self.state().refuses_reads = refuse;
    }

    /// The next read fails.
    pub(crate) fn fail_one_read(&self) {
        self.state().fails_one_read = true;
    }

    /// Whether there has been a read since [`Disk::fail_one_read`].
    pub(crate) fn has_failed_that_read(&self) -> bool {
        !self.state().fails_one_read
    }

    /// From now on opening the file panics.
    pub(crate) fn panic_when_opened(&self) {
        self.state().panics_when_opened = true;
    }

    /// The file's present bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Changes the file while others have it open.
    pub(crate) fn damage(&self, damage: impl FnOnce(&mut Vec<u8>)) {
        damage(&mut self.state().bytes);
    }

    /// After `succeeding` more syncs one fails. With `keep_failing` every later one fails too, until [`Disk::heal_syncs`].
    pub(crate) fn fail_sync(&self, succeeding: usize, keep_failing: bool) {
        let mut state = self.state();
        state.syncs_until_failure = Some(succeeding);
        state.syncs_keep_failing = keep_failing;
    }

    /// Undoes [`Disk::fail_sync`].
    pub(crate) fn heal_syncs(&self) {
        self.state().syncs_until_failure = None;
    }

    /// From now on syncs wait until the returned value is dropped.
    pub(crate) fn hold_syncs(&self) -> HeldSyncs {
        self.state().holds_syncs = true;
        HeldSyncs(self.clone())
    }

    /// From now on the sync after a growth of the file waits, until the returned value is dropped.
    pub(crate) fn hold_growth(&self) -> HeldSyncs {
        let mut state = self.state();
        (state.holds_growth, state.has_grown) = (true, false);
        HeldSyncs(self.clone())
    }

    /// From now on reads of threads that may wait do wait, until the returned value is dropped.
    pub(crate) fn hold_reads(&self) -> HeldReads {
        self.state().holds_reads = true;
        HeldReads(self.clone())
    }

    /// From now on the next `reads` reads of threads that must not wait find their bytes in memory, and the one after them
    /// would wait. With `None` none would.
    pub(crate) fn keep_in_memory(&self, reads: Option<usize>) {
        self.state().reads_in_memory = reads;
    }

    /// A store that opens the file from now on keeps none of it in memory, so that it reads whatever it needs.
    pub(crate) fn without_cache(self) -> Self {
        self.state().has_no_cache = true;
        self
    }

    /// A copy of the disk with only its synced bytes.
    pub(crate) fn after_power_failure(&self) -> Self {
        Self::with(self.state().durable.clone())
    }

    /// From now on every sync records a [`Moment`].
    pub(crate) fn keep_moments(&self) {
        self.state().keeps_moments = true;
    }

    /// Counts one more acknowledged write, for later moments.
    pub(crate) fn acknowledge(&self) {
        self.state().acknowledged += 1;
    }

    /// The moments so far.
    pub(crate) fn moments(&self) -> Vec<Moment> {
        self.state().moments.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, writes: bool) -> Box<dyn StorageBackend> {
        Box::new(Handle { disk: self.clone(), writes })
    }
}

impl Storage for Disk {
    fn location(&self) -> &Path {
        Path::new("the disk of a test")
    }

    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>> {
        let mut state = self.state();
        assert!(!state.panics_when_opened, "as planned");
        assert!(!state.open_for_writing, "opened for writing while it is open for writing");
        state.open_for_writing = true;
        state.opened += 1;
        Ok(self.handle(true))
    }

    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(self.handle(false))
    }

    fn memory(&self) -> StoreMemory {
        let memory = StoreMemory::OF_COMMANDS;
        if self.state().has_no_cache { StoreMemory { cache: 0, ..memory } } else { memory }
    }

    fn take_reserve(&self) -> io::Result<()> {
        let mut state = self.state();
        let reserved = RESERVED_BLOCKS.min(state.reserved + state.free.unwrap_or(RESERVED_BLOCKS));
        if reserved < LEAST_RESERVED_BLOCKS {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = reserved - state.reserved;
        state.free = state.free.map(|free| free - taken);
        state.reserved = reserved;
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.state().free.is_none_or(|free| free >= LEAST_RESERVED_BLOCKS)
    }

    fn give_reserve(&self) -> io::Result<()> {
        let mut state = self.state();
        let given = std::mem::take(&mut state.reserved);
        state.free = state.free.map(|free| free + given);
        Ok(())
    }
}

/// The disk's file, opened.
#[derive(Debug)]
struct Handle {
    disk: Disk,
    writes: bool,
}

impl Handle {
    fn writable(&self) -> io::Result<MutexGuard<'_, State>> {
        assert!(self.writes, "written through a handle for reading");
        let state = self.disk.state();
        if state.refuses_writes { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(state) }
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        if may_wait() {
            if state.holds_reads {
                state.held_reads += 1;
                self.disk.0.changed.notify_all();
                let released = self.disk.0.changed.wait_while(state, |state| state.holds_reads);
                state = released.unwrap_or_else(PoisonError::into_inner);
                state.held_reads -= 1;
            }
        } else if let Some(left) = state.reads_in_memory {
            let Some(left) = left.checked_sub(1) else {
                drop(state);
                would_wait();
            };
            state.reads_in_memory = Some(left);
        }
        if state.refuses_reads || std::mem::take(&mut state.fails_one_read) {
            return Err(io::Error::other("the disk does not answer"));
        }
        let offset = usize::try_from(offset).unwrap();
        let bytes = state.bytes.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.writable()?;
        let len = usize::try_from(len).unwrap();
        state.has_grown |= len > state.bytes.len();
        state.bytes.resize(len, 0);
        // Most file systems journal a length separately from the data. Keeping it at once is the harder case here.
        state.durable.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.writable()?;
        state.held_syncs += 1;
        self.disk.0.changed.notify_all();
        let is_held = |state: &mut State| state.holds_syncs || (state.holds_growth && state.has_grown);
        state = self.disk.0.changed.wait_while(state, is_held).unwrap_or_else(PoisonError::into_inner);
        state.held_syncs -= 1;
        state.has_grown = false;
        if state.keeps_moments {
            let (durable, unsynced) = (state.durable.clone(), state.unsynced.clone());
            let acknowledged = state.acknowledged;
            state.moments.push(Moment { durable, unsynced, acknowledged });
        }
        match state.syncs_until_failure {
            Some(0) => {
                if !state.syncs_keep_failing {
                    state.syncs_until_failure = None;
                }
                // As on Linux: a failed sync drops the data that it could not write; the next sync does not retry it.
                state.unsynced.clear();
                return Err(io::Error::other("the disk does not answer"));
            }
            Some(left) => state.syncs_until_failure = Some(left - 1),
            None => {}
        }
        for (offset, data) in std::mem::take(&mut state.unsynced) {
            let offset = usize::try_from(offset).unwrap();
            if let Some(place) = state.durable.get_mut(offset..offset + data.len()) {
                place.copy_from_slice(&data);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.writable()?;
        let blocks = offset / BLOCK_BYTES..(offset + data.len() as u64).div_ceil(BLOCK_BYTES);
        let needed = blocks.clone().filter(|block| state.never_writes_in_place || !state.given.contains(block)).count();
        if let Some(free) = &mut state.free {
            *free = free.checked_sub(needed as u64).ok_or(io::ErrorKind::StorageFull)?;
        }
        state.given.extend(blocks);
        let at = usize::try_from(offset).unwrap();
        state.bytes.get_mut(at..at + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        state.unsynced.push((offset, data.to_vec()));
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        if self.writes {
            self.disk.state().open_for_writing = false;
        }
        Ok(())
    }
}
