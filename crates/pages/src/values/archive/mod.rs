//! The format in which pages leave a store and come back: lines of JSON, each with a checksum.
//!
//! ```text
//! {"sum":"…","header":{"format":"handbill-archive","version":1,"created_at_ms":…,"generator":"handbill 0.3.0"}}
//! {"sum":"…","page":{"slug":"…","version":3,"created_at_ms":…,"updated_at_ms":…,"key_sha256":"…","title":"…","content":"…"}}
//! {"sum":"…","tombstone":{"slug":"…","version":2,"created_at_ms":…,"deleted_at_ms":…}}
//! {"sum":"…","trailer":{"records":3,"unreadable":0,"sha256":"…"}}
//! ```
//!
//! `sum` is the beginning of the SHA-256 of the rest of the line, after the comma and before the line break. The
//! trailer's `sha256` covers all bytes before its line.
//!
//! An archive has the hash of an edit key, never the key, and no HTML: an import renders the content itself.

mod decoder;
mod line;
mod precedence;

use thiserror::Error;

use super::content::{Content, ContentError};
use super::page::{Page, PageHead, Tombstone};
use super::timestamp::UnixMillis;

pub use self::decoder::{Decoded, Decoder, Summary};
pub use self::line::{Encoder, entry_line};
pub use self::precedence::{Precedence, Stored, precedence};

pub const VERSION: u32 = 1;

/// JSON may write each byte of 100 KB as six.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub created_at: UnixMillis,
    pub generator: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An import renders the content again.
    Page(PageHead, Content),
    Tombstone(Tombstone),
}

impl Entry {
    pub fn of(page: &Page) -> Self {
        let head = PageHead { link_origins: Vec::new(), renderer_version: 0, ..page.head.clone() };
        Self::Page(head, page.text.content.clone())
    }
}

#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("this is no archive of Handbill: its first line is not a header")]
    NotAnArchive,
    #[error(
        "the file has version {0} of the format, and this Handbill reads version {VERSION}: use the version that wrote it"
    )]
    Newer(u32),
    #[error("line {line} is damaged: its checksum does not match")]
    Damaged { line: u64 },
    #[error("line {line} is damaged: it is longer than {MAX_LINE_BYTES} bytes")]
    TooLong { line: u64 },
    /// Whole, but not a record.
    #[error("line {line} is not a record: {reason}")]
    Malformed { line: u64, reason: EntryError },
    #[error("the file is damaged: lines are missing, doubled or in another order")]
    WrongDigest,
    #[error("the file ends after line {lines}, before its trailer: it was cut, or its export did not finish")]
    Cut { lines: u64 },
    #[error("the file goes on after its trailer, from line {line}")]
    AfterTheEnd { line: u64 },
}

#[derive(Debug, Error)]
pub enum EntryError {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error("a header is the first line only")]
    SecondHeader,
}
