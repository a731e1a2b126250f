//! Storage for the database's bytes: a file, memory, or in tests a disk that fails on command.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{BackendError, StorageBackend};

/// Memory for pages of the file, in bytes, if nothing else is set: enough for about 300 of the largest published pages,
/// and small enough for the smallest machines that one can rent. The kernel keeps pages of the file in free memory too.
pub(super) const DEFAULT_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Opens the same bytes any number of times.
pub trait Storage: Debug + Send + Sync {
    /// The storage's name in errors.
    fn location(&self) -> &Path;

    /// Opens the bytes for reading and writing. Nobody else has them open.
    fn read_write(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Opens the bytes for reading only, for when they cannot be written. Nothing is written to the returned backend.
    fn read_only(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Memory for pages of the bytes, in bytes. Unwritten pages take at most half of it.
    fn cache_bytes(&self) -> usize {
        DEFAULT_CACHE_BYTES
    }

    /// Takes up room that only deletions may use, on the volume of the bytes. Does nothing if it is taken up already.
    fn take_reserve(&self) -> io::Result<()> {
        Ok(())
    }

    /// Frees the room of [`Storage::take_reserve`]. Does nothing if it is free already.
    fn give_reserve(&self) -> io::Result<()> {
        Ok(())
    }

    /// Opens the ledger of deletions; `None` if deletions need not outlive these bytes.
    fn ledger(&self) -> io::Result<Option<Box<dyn LedgerFile>>> {
        Ok(None)
    }
}

/// The file of the ledger, open for appending.
pub trait LedgerFile: Debug + Send {
    /// Whether nothing was ever appended.
    fn is_new(&self) -> bool;

    /// Adds `lines`, which may be none, at the end and puts them on disk. A new file then has all of them, or is still
    /// new. After an error the file is as it was, or the next call makes it so.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;
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

/// A boxed backend as a sized type, which `redb` requires.
#[derive(Debug)]
pub(super) struct Boxed(pub(super) Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
