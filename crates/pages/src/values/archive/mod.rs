//! The format in which pages leave a store and come back: lines of JSON, each with a checksum.
//!
//! ```text
//! {"sum":"…","header":{"format":"handbill-archive","version":1,"created_at_ms":…,"generator":"handbill 0.3.0"}}
//! {"sum":"…","page":{"slug":"…","version":3,"created_at_ms":…,"updated_at_ms":…,"key_sha256":"…","title":"…","content":"…"}}
//! {"sum":"…","tombstone":{"slug":"…","version":2,"created_at_ms":…,"deleted_at_ms":…}}
//! {"sum":"…","trailer":{"records":3,"unreadable":0,"sha256":"…"}}
//! ```
//!
//! `sum` is the beginning of the SHA-256 of the line after it: of everything between the comma that follows it and the
//! line break. `sha256` of the trailer covers all bytes before the trailer's line. So damage is found at its line, and a
//! file that was cut, shortened or reordered is not complete.
//!
//! A page has the hash of its edit key, never the key. It has no HTML: an import renders the content with its own
//! renderer, so an archive cannot bring in HTML that this renderer would not write.

mod decoder;
mod encoder;
mod line;
mod precedence;

use thiserror::Error;

use super::content::{Content, ContentError};
use super::page::{Page, PageHead, Tombstone};
use super::slug::NotASlug;
use super::takedown::TakedownError;
use super::timestamp::UnixMillis;
use super::title::TitleError;

pub use self::decoder::{Decoded, Decoder, Summary};
pub use self::encoder::{Encoder, entry_line};
pub use self::precedence::{Precedence, Stored, precedence};

/// The version of the format that [`Encoder`] writes and [`Decoder`] reads.
pub const VERSION: u32 = 1;

/// Longest line, in bytes with its line break. The largest content has 100 KB, of which JSON may write each byte as six.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub created_at: UnixMillis,
    /// The program that wrote the file, with its version.
    pub generator: String,
}

/// One record of a store, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A page that can be read: its head and its source. The HTML and what is found in it do not travel.
    Page(PageHead, Content),
    Tombstone(Tombstone),
}

impl Entry {
    /// The part of `page` that travels. `Page::new` makes a page of it, and of its source when that is rendered.
    pub fn of(page: &Page) -> Self {
        let head = PageHead { link_origins: Vec::new(), renderer_version: 0, ..page.head.clone() };
        Self::Page(head, page.text.content.clone())
    }
}

/// Why a file is refused. `line` counts from 1.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("this is no archive of Handbill: its first line is not a header")]
    NotAnArchive,
    #[error(
        "the file has version {0} of the format, and this Handbill reads version {VERSION}: use the version that wrote it"
    )]
    Newer(u32),
    /// The line was changed after it was written.
    #[error("line {line} is damaged: its checksum does not match")]
    Damaged { line: u64 },
    #[error("line {line} is damaged: it is longer than {MAX_LINE_BYTES} bytes")]
    TooLong { line: u64 },
    /// The line is whole, but no record that a store may have.
    #[error("line {line} is not a record: {reason}")]
    Malformed { line: u64, reason: EntryError },
    /// The lines before the trailer were changed, or some are missing.
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
    Slug(#[from] NotASlug),
    #[error(transparent)]
    Title(#[from] TitleError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Takedown(#[from] TakedownError),
    #[error("a hash of a key has 64 hexadecimal digits")]
    KeyHash,
    #[error("a time is before the year 0 or after the year 9999")]
    Time,
    #[error("the version is 0")]
    Version,
    #[error("a header is the first line only")]
    SecondHeader,
}
