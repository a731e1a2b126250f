//! Storage for the database's bytes: a file, memory, or in tests a disk that fails on command.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::ledger_file::LedgerFile;
use super::no_wait::{Resizing, may_wait};

/// The memory of a store, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct StoreMemory {
    /// For pages of the file. Unwritten pages take at most half of it. The kernel keeps pages of the file in free memory too.
    pub cache: usize,
    /// For writes that wait or are being committed.
    pub queue: usize,
}

impl StoreMemory {
    /// The memory of a command that moves records or looks after the file: about 300 of the largest pages.
    pub const OF_COMMANDS: Self = Self { cache: 32 * 1024 * 1024, queue: 64 * 1024 * 1024 };
}

/// Opens the same bytes any number of times.
///
/// A read of an opened backend that would wait calls [`would_wait`](super::would_wait) if the thread must not wait
/// ([`may_wait`](super::may_wait)).
pub trait Storage: Debug + Send + Sync {
    fn location(&self) -> &Path;

    /// Opens the bytes for reading and writing. Nobody else has them open.
    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Opens the bytes for reading only, for when they cannot be written. Nothing is written to the returned backend.
    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// The memory of a store on the bytes.
    fn memory(&self) -> StoreMemory {
        StoreMemory::OF_COMMANDS
    }

    /// Takes up room that only deletions may use, on the volume of the bytes. Does nothing if it is taken up already.
    fn take_reserve(&self) -> io::Result<()> {
        Ok(())
    }

    /// Frees the room of [`Storage::take_reserve`]. Does nothing if it is free already.
    fn give_reserve(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether the volume has room for writes, although one of them found none before.
    fn has_room(&self) -> bool {
        true
    }

    /// Opens the ledger of deletions; `None` if deletions need not outlive these bytes.
    fn ledger(&self) -> io::Result<Option<LedgerFile>> {
        Ok(None)
    }
}

/// Bytes in memory. They are lost when the process ends.
#[derive(Debug, Default)]
pub(super) struct Memory(Arc<InMemoryBackend>);

impl Storage for Memory {
    fn location(&self) -> &Path {
        Path::new("memory")
    }

    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(Shared(Arc::clone(&self.0))))
    }

    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.read_write()
    }
}

/// Memory that outlives the database on it.
#[derive(Debug)]
struct Shared(Arc<InMemoryBackend>);

impl StorageBackend for Shared {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        StorageBackend::read(&*self.0, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        StorageBackend::write(&*self.0, offset, data)
    }
}

/// A boxed backend as a sized type, which `redb` requires. It keeps lookups that must not wait apart from changes of the
/// file.
#[derive(Debug)]
pub(super) struct Boxed {
    pub(super) backend: Box<dyn StorageBackend>,
    pub(super) resizing: Resizing,
}

impl Boxed {
    pub(super) fn over(backend: impl StorageBackend) -> Self {
        Self::from(Box::new(backend) as Box<dyn StorageBackend>)
    }
}

impl From<Box<dyn StorageBackend>> for Boxed {
    fn from(backend: Box<dyn StorageBackend>) -> Self {
        Self { backend, resizing: Resizing::default() }
    }
}

impl StorageBackend for Boxed {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let grows = self.backend.len().is_ok_and(|before| before < len);
        self.resizing.begin();
        let changed = self.backend.set_len(len);
        if changed.is_err() || !grows {
            self.resizing.end();
        }
        changed
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.backend.sync_data();
        self.resizing.end();
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        // To make room in its cache, a lookup of `redb` would write changed pages that are on disk in older form. If it
        // cannot, it leaves them to the writer. It must not be unwound here, because it holds a lock.
        if !may_wait() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.backend.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
}

#[cfg(test)]
mod tests {
    use super::super::no_wait::without_waiting;
    use super::*;

    fn boxed() -> Boxed {
        Boxed::over(InMemoryBackend::new())
    }

    #[test]
    fn a_lookup_that_must_not_wait_writes_nothing_and_is_not_unwound_there() {
        let file = boxed();
        file.set_len(4).unwrap();
        let written = without_waiting(|| file.write(0, b"text").map_err(|error| error.kind()));
        assert_eq!(written, Ok(Err(io::ErrorKind::WouldBlock)));
        let mut bytes = [1; 4];
        file.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4]);
        file.write(0, b"text").unwrap();
    }

    #[test]
    fn a_growth_lasts_until_the_next_sync_and_any_other_change_of_the_size_ends_at_once() {
        let file = boxed();
        assert!(!file.resizing.is_under_way());
        file.set_len(4).unwrap();
        file.write(0, b"text").unwrap();
        assert!(file.resizing.is_under_way());
        file.sync_data().unwrap();
        assert!(!file.resizing.is_under_way());
        for len in [4, 2] {
            file.set_len(len).unwrap();
            assert!(!file.resizing.is_under_way());
        }
    }
}
