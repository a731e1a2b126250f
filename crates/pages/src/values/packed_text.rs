//! A page's text for a store, packed: source and HTML say nearly the same.

use std::cell::RefCell;

use thiserror::Error;
use zstd::bulk::{Compressor, Decompressor};

use super::page::PageText;

const LEVEL: i32 = 1;

const MAX_BYTES: usize = 5 * 1024 * 1024;

thread_local! {
    // A new context costs more than packing a page.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

#[derive(Debug, Error)]
pub enum PackedTextError {
    #[error("the text cannot be packed or unpacked")]
    Packed,
    #[error("the text does not decode: {0}")]
    Encoded(#[from] postcard::Error),
}

/// The length of the encoded text, and its packed bytes.
pub fn pack(text: &PageText) -> Result<Vec<u8>, PackedTextError> {
    let encoded = postcard::to_allocvec(text)?;
    let packed = COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(&encoded).ok(),
        None => kept.insert(Compressor::new(LEVEL).ok()?).compress(&encoded).ok(),
    });
    let length = u32::try_from(encoded.len()).map_err(|_| PackedTextError::Packed)?;
    Ok([&length.to_le_bytes(), &*packed.ok_or(PackedTextError::Packed)?].concat())
}

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
