//! A backend that reads from another one and keeps its own writes in memory.
//!
//! Opening a `redb` file writes a few blocks of it. With an overlay the file can be opened for reading even if the disk
//! refuses every write.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;
use redb::StorageBackend;

use super::no_wait::{may_wait, would_wait};

/// Size of the blocks in which writes are kept, in bytes: a page of `redb`.
const BLOCK_BYTES: usize = 4096;

/// The backend below, with later writes on top.
#[derive(Debug)]
pub(super) struct Overlay {
    below: Box<dyn StorageBackend>,
    above: Mutex<Above>,
}

#[derive(Debug)]
struct Above {
    len: u64,
    /// Bytes of the backend below after this length count as zero.
    below_len: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(super) fn of(below: Box<dyn StorageBackend>) -> io::Result<Self> {
        let len = below.len()?;
        Ok(Self { below, above: Mutex::new(Above { len, below_len: len, blocks: BTreeMap::new() }) })
    }

    fn read_below(&self, below_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = below_len.saturating_sub(offset).min(out.len() as u64);
        let (there, beyond) = out.split_at_mut(index(there)?);
        beyond.fill(0);
        if there.is_empty() { Ok(()) } else { self.below.read(offset, there) }
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.above.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        // Another thread may hold the lock while it waits for the disk.
        if !may_wait() {
            would_wait();
        }
        let above = self.above.lock();
        if offset.saturating_add(out.len() as u64) > above.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (block, within, part) in blocks(offset, out.len()) {
            let part = &mut out[part];
            match above.blocks.get(&block) {
                Some(bytes) => part.copy_from_slice(&bytes[within..within + part.len()]),
                None => self.read_below(above.below_len, block * BLOCK_BYTES as u64 + within as u64, part)?,
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut above = self.above.lock();
        above.len = len;
        above.below_len = above.below_len.min(len);
        let _beyond = above.blocks.split_off(&len.div_ceil(BLOCK_BYTES as u64));
        let last = len / BLOCK_BYTES as u64;
        if let Some(bytes) = above.blocks.get_mut(&last) {
            bytes[index(len % BLOCK_BYTES as u64)?..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut above = self.above.lock();
        if offset.saturating_add(data.len() as u64) > above.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (block, within, part) in blocks(offset, data.len()) {
            if !above.blocks.contains_key(&block) {
                let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
                self.read_below(above.below_len, block * BLOCK_BYTES as u64, &mut bytes)?;
                above.blocks.insert(block, bytes);
            }
            if let Some(bytes) = above.blocks.get_mut(&block) {
                bytes[within..within + part.len()].copy_from_slice(&data[part]);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.below.close()
    }
}

/// The blocks that the `len` bytes from `offset` touch: for each block its number, the offset in it of the first of
/// these bytes, and which of these bytes it holds.
fn blocks(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let block = at / BLOCK_BYTES as u64;
        let within = index(at % BLOCK_BYTES as u64).ok()?;
        let part = done..len.min(done + BLOCK_BYTES - within);
        done = part.end;
        Some((block, within, part))
    })
}

fn index(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write { at: usize, data: Vec<u8> },
        SetLen(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..20_000_usize, prop::collection::vec(any::<u8>(), 0..9000))
                .prop_map(|(at, data)| Step::Write { at, data }),
            (0..20_000_usize).prop_map(Step::SetLen),
        ]
    }

    proptest! {
        #[test]
        fn an_overlay_reads_as_plain_memory_would_and_the_backend_below_stays(steps in prop::collection::vec(step(), 1..20)) {
            let mut plain = vec![7_u8; 10_000];
            let below = InMemoryBackend::new();
            below.set_len(10_000).unwrap();
            StorageBackend::write(&below, 0, &plain).unwrap();
            let overlay = Overlay::of(Box::new(below)).unwrap();
            for step in steps {
                match step {
                    Step::Write { at, data } if at + data.len() <= plain.len() => {
                        overlay.write(at as u64, &data).unwrap();
                        plain[at..at + data.len()].copy_from_slice(&data);
                    }
                    Step::Write { at, data } => prop_assert!(overlay.write(at as u64, &data).is_err()),
                    Step::SetLen(len) => {
                        overlay.set_len(len as u64).unwrap();
                        plain.resize(len, 0);
                    }
                }
                let mut read = vec![1; plain.len()];
                overlay.read(0, &mut read).unwrap();
                prop_assert_eq!(&read, &plain);
            }
            let mut untouched = vec![0; 10_000];
            overlay.below.read(0, &mut untouched).unwrap();
            prop_assert_eq!(untouched, vec![7; 10_000]);
        }
    }
}
