//! The text of a record as it is stored: its size, and then its bytes, compressed with zstd if that makes them smaller. Source and HTML
//! say nearly the same, so a page of 2 KB takes a third.

use std::borrow::Cow;
use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

/// Shorter texts are stored as they are: compressed they would hardly be smaller.
const PACKED_FROM: usize = 512;

/// Level of compression: zstd's fastest of the regular ones. Higher levels save another twentieth of such texts.
const LEVEL: i32 = 1;

/// Bytes of the size in front of the text.
const SIZE_BYTES: usize = size_of::<u32>();

/// Largest text that is compressed, in bytes: more than source and HTML of the largest page. No bytes make a reader take more memory.
const MAX_BYTES: usize = 4 * 1024 * 1024;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn append(text: &[u8], bytes: &mut Vec<u8>) {
    let packed = packed(text);
    let size = packed.as_ref().map_or(0, |_| u32::try_from(text.len()).unwrap_or(u32::MAX));
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(packed.as_deref().unwrap_or(text));
}

/// The bytes of `text` compressed, if they are fewer.
fn packed(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() < PACKED_FROM || text.len() > MAX_BYTES {
        return None;
    }
    let packed = COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Compressor::new(LEVEL).ok();
        }
        kept.as_mut()?.compress(text).ok()
    });
    packed.filter(|packed| packed.len() < text.len())
}

/// A text as it is stored.
pub(super) struct PackedText<'a> {
    /// The size of the text if it is compressed.
    packed_from: Option<usize>,
    bytes: &'a [u8],
}

impl<'a> PackedText<'a> {
    /// The text with these bytes; `None` if they are none.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (size, bytes) = bytes.split_first_chunk::<SIZE_BYTES>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok().filter(|&size| size <= MAX_BYTES)?;
        Some(Self { packed_from: Some(size).filter(|&size| size > 0), bytes })
    }

    /// The size of the text in memory, in bytes.
    pub(super) fn len(&self) -> usize {
        self.packed_from.unwrap_or(self.bytes.len())
    }

    /// The text, if its bytes are those of one.
    pub(super) fn unpacked(self) -> Option<Cow<'a, [u8]>> {
        let Some(size) = self.packed_from else { return Some(self.bytes.into()) };
        let text = DECOMPRESSOR.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Decompressor::new().ok();
            }
            kept.as_mut()?.decompress(self.bytes, size).ok()
        });
        text.filter(|text| text.len() == size).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(text: &[u8]) -> usize {
        let mut bytes = Vec::new();
        append(text, &mut bytes);
        let packed = PackedText::of(&bytes).unwrap();
        assert_eq!(packed.len(), text.len());
        assert_eq!(packed.unpacked().unwrap(), text);
        bytes.len()
    }

    #[test]
    fn a_long_text_takes_less_and_one_that_is_short_or_random_only_its_size_more() {
        assert!(there_and_back(&b"words and words ".repeat(100)) < 100);
        assert_eq!(there_and_back(&[b'a'; PACKED_FROM - 1]), PACKED_FROM - 1 + SIZE_BYTES);
        let mut random = xxhash_rust::xxh3::Xxh3::new();
        let noise: Vec<u8> = (0..500)
            .flat_map(|_| {
                random.update(b"x");
                random.digest().to_le_bytes()
            })
            .collect();
        assert_eq!(there_and_back(&noise), noise.len() + SIZE_BYTES);
        assert_eq!(there_and_back(b""), SIZE_BYTES);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_without_room_for_what_they_claim() {
        let mut bytes = Vec::new();
        append(&b"words and words ".repeat(100), &mut bytes);
        for cut in 0..bytes.len() {
            let unpacked = PackedText::of(&bytes[..cut]).and_then(PackedText::unpacked);
            assert!(unpacked.is_none(), "{cut} bytes");
        }
        bytes[..SIZE_BYTES].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(PackedText::of(&bytes).is_none());
        bytes[..SIZE_BYTES].copy_from_slice(&1000u32.to_le_bytes());
        assert!(PackedText::of(&bytes).unwrap().unpacked().is_none(), "it is longer than it says");
        bytes[..SIZE_BYTES].copy_from_slice(&2000u32.to_le_bytes());
        assert!(PackedText::of(&bytes).unwrap().unpacked().is_none(), "it is shorter than it says");
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was(text in proptest::collection::vec(any::<u8>(), 0..5000)) {
            there_and_back(&text);
        }
    }
}
