//! A page: its head and its text, which stores keep packed: source and HTML say nearly the same.

use std::cell::RefCell;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use zstd::bulk::{Compressor, Decompressor};

use super::head::{Live, PageHead};
use super::{content::Content, edit_key::holds_any_key, language::Language, markdown::Rendered};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub head: PageHead,
    pub text: PageText,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    pub content: Content,
    pub html: String,
    pub excerpt: String,
    pub code_blocks: Vec<u32>,
    /// Unknown BCP 47 codes read back as `None`.
    #[serde(serialize_with = "language_code", deserialize_with = "language_of_code")]
    pub language: Option<Language>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn language_code<S: Serializer>(language: &Option<Language>, serializer: S) -> Result<S::Ok, S::Error> {
    language.map(Language::code).serialize(serializer)
}

fn language_of_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Language>, D::Error> {
    let code = Option::<String>::deserialize(deserializer)?;
    Ok(code.as_deref().and_then(Language::from_code))
}

impl Page {
    pub fn new(head: PageHead, content: Content, rendered: Rendered) -> Self {
        let Rendered { html, excerpt, code_blocks, link_origins: links, language, renderer_version, .. } = rendered;
        Self {
            head: head.map_state(|live| Live { links, renderer_version, ..live }),
            text: PageText { content, html, excerpt, code_blocks, language },
        }
    }

    pub fn seems_to_hold_a_key(&self) -> bool {
        let mut details = self.head.state.details.texts();
        details.any(|(_, text)| holds_any_key(text)) || holds_any_key(self.text.content.as_str())
    }
}

const PACKED_LEVEL: i32 = 1;

/// Of a text before it is packed.
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
        None => kept.insert(Compressor::new(PACKED_LEVEL).ok()?).compress(&encoded).ok(),
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
