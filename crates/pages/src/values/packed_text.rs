//! A page's text as bytes for a store: written by `postcard`, packed by zstd. Source and HTML say nearly the same, so a page of 2 KB
//! takes a third.

use std::cell::RefCell;

use thiserror::Error;
use zstd::bulk::{Compressor, Decompressor};

use super::page::PageText;

/// Level of compression: zstd's fastest regular one. Higher levels save another twentieth of such texts.
const LEVEL: i32 = 1;

/// Largest text that is unpacked, in bytes: more than source and HTML of the largest page.
const MAX_BYTES: usize = 5 * 1024 * 1024;

thread_local! {
    // A new context costs more than packing the text of a usual page.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Bytes that no text can be read from, or a text that is too long to be packed.
#[derive(Debug, Error)]
pub enum PackedTextError {
    #[error("the text cannot be packed or unpacked")]
    Packed,
    #[error("the text does not decode: {0}")]
    Encoded(#[from] postcard::Error),
}

/// The bytes of `text` that [`pack`] packs.
pub fn encode(text: &PageText) -> Result<Vec<u8>, PackedTextError> {
    Ok(postcard::to_allocvec(text)?)
}

/// `prefix`, then the length of `encoded`, and then its bytes, packed.
pub fn pack(prefix: &[u8], encoded: &[u8]) -> Result<Vec<u8>, PackedTextError> {
    let packed = COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(encoded).ok(),
        None => kept.insert(Compressor::new(LEVEL).ok()?).compress(encoded).ok(),
    });
    let length = u32::try_from(encoded.len()).map_err(|_| PackedTextError::Packed)?;
    Ok([prefix, &length.to_le_bytes(), &packed.ok_or(PackedTextError::Packed)?].concat())
}

/// The text that [`pack`] packed, without the prefix.
pub fn unpack(bytes: &[u8]) -> Result<PageText, PackedTextError> {
    let (length, packed) = bytes.split_first_chunk().ok_or(PackedTextError::Packed)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_BYTES {
        return Err(PackedTextError::Packed);
    }
    let encoded = DECOMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(decompressor) => decompressor.decompress(packed, length).ok(),
        None => kept.insert(Decompressor::new().ok()?).decompress(packed, length).ok(),
    });
    let encoded = encoded.filter(|encoded| encoded.len() == length).ok_or(PackedTextError::Packed)?;
    Ok(postcard::from_bytes(&encoded)?)
}
