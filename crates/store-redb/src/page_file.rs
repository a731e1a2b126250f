//! The file of the database. Within a lookup that must not wait it is read only where the kernel has it in memory.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend, StorageError};
use rustix::io::Errno;

use super::no_wait::{may_wait, would_wait};

/// Reads bytes of a file from this offset, if the kernel has them in memory. Returns how many bytes were read.
type ReadCached = fn(&File, &mut [u8], u64) -> Result<usize, Errno>;

#[derive(Debug)]
pub(super) struct PageFile {
    backend: FileBackend,
    file: File,
    read_cached: ReadCached,
    /// Whether the kernel or the file system has refused such reads.
    is_refused: AtomicBool,
}

impl PageFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        Self::reading_with(file, read_cached)
    }

    fn reading_with(file: File, read_cached: ReadCached) -> io::Result<Self> {
        let same = file.try_clone()?;
        let backend = FileBackend::new(file).map_err(|error| match error {
            DatabaseError::Storage(StorageError::Io(error)) => error,
            error => io::Error::other(error),
        })?;
        Ok(Self { backend, file: same, read_cached, is_refused: AtomicBool::new(false) })
    }
}

impl StorageBackend for PageFile {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if may_wait() {
            return self.backend.read(offset, out);
        }
        if self.is_refused.load(Ordering::Relaxed) {
            would_wait();
        }
        match (self.read_cached)(&self.file, out, offset) {
            Ok(bytes) if bytes == out.len() => return Ok(()),
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => self.is_refused.store(true, Ordering::Relaxed),
            // The rest is on the disk, or the read fails. A thread that may wait reads it again, and gets any error.
            Ok(_) | Err(_) => {}
        }
        would_wait()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.backend.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.backend.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
}

#[cfg(target_os = "linux")]
fn read_cached(file: &File, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
    use rustix::io::{ReadWriteFlags, preadv2};

    preadv2(file, &mut [IoSliceMut::new(out)], offset, ReadWriteFlags::NOWAIT)
}

/// Other kernels have no such read.
#[cfg(not(target_os = "linux"))]
fn read_cached(_: &File, _: &mut [u8], _: u64) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::no_wait::{WouldWait, without_waiting};
    use super::*;

    const BYTES: &[u8] = b"0123456789";

    fn file(read_cached: ReadCached) -> PageFile {
        let file = tempfile::tempfile().unwrap();
        let file = PageFile::reading_with(file, read_cached).unwrap();
        file.set_len(BYTES.len() as u64).unwrap();
        file.write(0, BYTES).unwrap();
        file
    }

    fn read(file: &PageFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut out = vec![0; len];
        file.read(offset, &mut out).map(|()| out)
    }

    #[test]
    fn bytes_that_were_just_written_are_read_without_waiting() {
        let file = file(read_cached);
        let read = without_waiting(|| read(&file, 2, 5).unwrap());
        if file.is_refused.load(Ordering::Relaxed) {
            // The temporary directory is on a file system without such reads.
            assert_eq!(read, Err(WouldWait));
        } else {
            assert_eq!(read.unwrap(), BYTES[2..7]);
        }
    }

    #[test]
    fn bytes_that_are_not_all_in_memory_are_read_only_by_who_may_wait() {
        for in_memory in [Err(Errno::AGAIN), Ok(3), Ok(0), Err(Errno::IO), Err(Errno::INTR)] {
            // A function pointer cannot capture, so each case has its own.
            let read_cached: ReadCached = match in_memory {
                Err(Errno::AGAIN) => |_, _, _| Err(Errno::AGAIN),
                Ok(3) => |_, _, _| Ok(3),
                Ok(_) => |_, _, _| Ok(0),
                Err(Errno::IO) => |_, _, _| Err(Errno::IO),
                Err(_) => |_, _, _| Err(Errno::INTR),
            };
            let file = file(read_cached);
            assert_eq!(without_waiting(|| read(&file, 0, 10).unwrap()), Err(WouldWait), "{in_memory:?}");
            assert!(!file.is_refused.load(Ordering::Relaxed), "{in_memory:?}");
            assert_eq!(read(&file, 0, 10).unwrap(), BYTES);
        }
    }

    #[test]
    fn a_kernel_that_refuses_such_reads_is_asked_once() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let file = file(|_, _, _| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Err(Errno::OPNOTSUPP)
        });
        for _ in 0..3 {
            assert_eq!(without_waiting(|| read(&file, 0, 10).unwrap()), Err(WouldWait));
            assert_eq!(read(&file, 0, 10).unwrap(), BYTES);
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_read_beyond_the_end_is_an_error_for_who_may_wait() {
        let file = file(read_cached);
        assert_eq!(without_waiting(|| read(&file, 5, 10).unwrap()), Err(WouldWait));
        assert_eq!(read(&file, 5, 10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
