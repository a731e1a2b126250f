//! The nonces of a head's last writes, by which a writer recognises its own write, and the names of texts, which have one.

use crate::domain::page::PageVersion;

/// A head keeps the nonces of this many writes.
const REMEMBERED_WRITES: usize = 16;

/// 128 random bits that identify one write. They are the same each time that the write is sent.
pub(super) type Nonce = [u8; 16];

/// The name of a text's row among all texts that a page has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextId {
    /// The version of the write that made this the page's text.
    pub(super) version: PageVersion,
    /// Random bits of that write, because several writers may try to make the same version.
    pub(super) nonce: Nonce,
}

/// The nonces of the last writes, the newest first, 16 bytes each. Every write raises the version by one, so the position
/// of a nonce shows which version its write made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nonces(Vec<u8>);

impl Nonces {
    pub(super) fn from_stored(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The nonces of a head whose writes cannot be recognised.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// The nonces of a head that one write has made.
    pub(super) fn first(nonce: Nonce) -> Self {
        Self(nonce.to_vec())
    }

    /// The nonces after another write. The oldest is dropped if there are too many.
    #[must_use]
    pub(super) fn and_then(&self, nonce: Nonce) -> Self {
        let kept = self.0.chunks_exact(nonce.len()).take(REMEMBERED_WRITES - 1).flatten();
        Self(nonce.iter().chain(kept).copied().collect())
    }

    /// The nonce of the write that came `age` writes before the last.
    pub(super) fn of(&self, age: u64) -> Option<&[u8]> {
        self.0.chunks_exact(size_of::<Nonce>()).nth(usize::try_from(age).ok()?)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixteenth_write_after_it_takes_a_nonces_place() {
        let mut nonces = Nonces::first([1; 16]);
        for write in 2..=16 {
            nonces = nonces.and_then([write; 16]);
        }
        assert_eq!((nonces.of(15), nonces.of(0)), (Some([1; 16].as_slice()), Some([16; 16].as_slice())));
        nonces = nonces.and_then([17; 16]);
        assert_eq!((nonces.of(15), nonces.of(16)), (Some([2; 16].as_slice()), None));
        assert_eq!(nonces.as_bytes().len(), 256);
    }
}
