//! The format in which pages leave a store and come back: lines of JSON, each with a checksum.
//!
//! ```text
//! {"sum":"…","header":{"format":"handbill-archive","version":1,"created_at_ms":…,"generator":"handbill 0.3.0"}}
//! {"sum":"…","page":{"slug":"…","version":3,"created_at_ms":…,"updated_at_ms":…,"key_sha256":"…","title":"…","content":"…"}}
//! {"sum":"…","tombstone":{"slug":"…","version":2,"created_at_ms":…,"deleted_at_ms":…}}
//! {"sum":"…","trailer":{"records":3,"unreadable":0,"sha256":"…"}}
//! ```
//!
//! `sum` begins the SHA-256 of the rest of the line, between the comma and the line break. The trailer's `sha256` covers all
//! bytes before its line.
//!
//! An archive has the hash of an edit key, never the key, and no HTML: an import renders the content itself.

mod decoder;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::content::{Content, ContentError};
use super::edit_key::EditKeyHash;
use super::hex;
use super::page::{Page, PageHead, PageState, PageVersion, Tombstone};
use super::slug::Slug;
use super::takedown::Takedown;
use super::timestamp::UnixMillis;
use super::title::Title;

pub use self::decoder::Decoder;

pub const VERSION: u32 = 1;

/// JSON may write each byte of 100 KB as six.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Absent,
    Active(PageState),
    Hidden(PageState),
    Deleted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    Import,
    Same,
    NewerStays,
    StaysDeleted,
    StaysHidden,
}

/// A tombstone is final (contract, decision 18). The higher version wins, then the later time: a restored store repeats
/// versions. At the same version and time a tombstone wins. No import shows a hidden page.
pub fn precedence(stored: Stored, imported: &Entry) -> Precedence {
    let state = match (stored, imported) {
        (Stored::Absent, _) => return Precedence::Import,
        (Stored::Deleted, Entry::Tombstone(_)) => return Precedence::Same,
        (Stored::Deleted, Entry::Page(..)) => return Precedence::StaysDeleted,
        (Stored::Hidden(_), Entry::Page(head, _)) if head.hidden.is_none() => return Precedence::StaysHidden,
        (Stored::Active(state) | Stored::Hidden(state), _) => state,
    };
    let key = |state: PageState| (state.version, state.updated_at);
    let (found, given) = match imported {
        Entry::Page(head, _) => (key(state), key(head.state())),
        Entry::Tombstone(tombstone) => (key(state), (tombstone.version, tombstone.deleted_at)),
    };
    match given.cmp(&found) {
        Ordering::Greater => Precedence::Import,
        Ordering::Less => Precedence::NewerStays,
        Ordering::Equal => match imported {
            Entry::Page(..) => Precedence::Same,
            Entry::Tombstone(_) => Precedence::Import,
        },
    }
}

const FORMAT: &str = "handbill-archive";

const BEFORE_SUM: &str = "{\"sum\":\"";

const AFTER_SUM: &str = "\",";

/// 128 bits.
const SUM_DIGITS: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LineBody {
    Header(Header),
    Page(PageLine),
    Tombstone(Tombstone),
    Trailer(Trailer),
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    created_at_ms: i64,
    generator: String,
}

/// Has no HTML.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageLine {
    slug: Slug,
    version: PageVersion,
    created_at_ms: UnixMillis,
    updated_at_ms: UnixMillis,
    key_sha256: EditKeyHash,
    title: Option<Title>,
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<Takedown>,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trailer {
    pub records: u64,
    /// Records that could not be read when the file was written.
    pub unreadable: u64,
    /// Of all lines before this one.
    sha256: String,
}

fn encode(body: &LineBody) -> String {
    let json = serde_json::to_string(body).expect("texts and numbers are JSON");
    let covered = &json[1..];
    let mut line = String::with_capacity(BEFORE_SUM.len() + SUM_DIGITS + AFTER_SUM.len() + covered.len() + 1);
    line.push_str(BEFORE_SUM);
    line.push_str(&sum(covered.as_bytes()));
    line.push_str(AFTER_SUM);
    line.push_str(covered);
    line.push('\n');
    line
}

/// `None` if the checksum does not match.
fn covered(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_suffix(b"\n")?.strip_prefix(BEFORE_SUM.as_bytes())?;
    let (claimed, rest) = rest.split_at_checked(SUM_DIGITS)?;
    let covered = rest.strip_prefix(AFTER_SUM.as_bytes())?;
    (claimed == sum(covered).as_bytes()).then_some(covered)
}

fn decode(covered: &[u8]) -> Result<LineBody, EntryError> {
    Ok(serde_json::from_slice(&[b"{", covered].concat())?)
}

fn sum(covered: &[u8]) -> String {
    hex::encode(&Sha256::digest(covered)[..SUM_DIGITS / 2])
}

impl LineBody {
    fn of(entry: &Entry) -> Self {
        match entry.clone() {
            Entry::Page(head, content) => {
                let PageHead {
                    slug,
                    version,
                    created_at: created_at_ms,
                    updated_at: updated_at_ms,
                    key_hash: key_sha256,
                    title,
                    hidden,
                    link_origins: _,
                    renderer_version: _,
                } = head;
                let hidden = hidden.map(|hidden| *hidden);
                Self::Page(PageLine { slug, version, created_at_ms, updated_at_ms, key_sha256, title, content, hidden })
            }
            Entry::Tombstone(tombstone) => Self::Tombstone(tombstone),
        }
    }
}

impl PageLine {
    fn into_entry(self) -> Result<Entry, EntryError> {
        let head = PageHead {
            slug: self.slug,
            title: self.title,
            key_hash: self.key_sha256,
            version: self.version,
            created_at: self.created_at_ms,
            updated_at: self.updated_at_ms,
            link_origins: Vec::new(),
            renderer_version: 0,
            hidden: self.hidden.map(Box::new),
        };
        // What a store has may be longer than is allowed today.
        Ok(Entry::Page(head, Content::parse(self.content.as_str())?))
    }
}

#[derive(Debug)]
pub struct Encoder {
    digest: Sha256,
    records: u64,
    unreadable: u64,
}

impl Encoder {
    /// Also returns the first line.
    pub fn begin(created_at: UnixMillis, generator: String) -> (Self, String) {
        let header = Header { format: FORMAT.to_owned(), version: VERSION, created_at_ms: created_at.get(), generator };
        let mut encoder = Self { digest: Sha256::new(), records: 0, unreadable: 0 };
        let line = encode(&LineBody::Header(header));
        encoder.digest.update(line.as_bytes());
        (encoder, line)
    }

    pub fn line(&mut self, line: &str) {
        self.records += 1;
        self.digest.update(line.as_bytes());
    }

    pub fn unreadable(&mut self, records: u64) {
        self.unreadable += records;
    }

    pub fn unreadable_count(&self) -> u64 {
        self.unreadable
    }

    pub fn end(self) -> String {
        let Self { digest, records, unreadable } = self;
        encode(&LineBody::Trailer(Trailer { records, unreadable, sha256: hex_digest(digest) }))
    }
}

fn hex_digest(digest: Sha256) -> String {
    hex::encode(&digest.finalize())
}

/// The line of one record.
pub fn entry_line(entry: &Entry) -> String {
    encode(&LineBody::of(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::edit_key::EditKey;

    fn state(version: u64, updated_at: i64) -> PageState {
        PageState { version: PageVersion::new(version), updated_at: UnixMillis::new(updated_at) }
    }

    fn page(version: u64, updated_at: i64) -> Entry {
        let (slug, title) = (Slug::parse("a-22222222").unwrap(), Title::parse("a").unwrap());
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(0));
        let PageState { version, updated_at } = state(version, updated_at);
        Entry::Page(PageHead { version, updated_at, ..head }, Content::parse("x".to_owned()).unwrap())
    }

    fn tombstone(version: u64, deleted_at: i64) -> Entry {
        Entry::Tombstone(Tombstone {
            slug: Slug::parse("a-22222222").unwrap(),
            version: PageVersion::new(version),
            created_at: UnixMillis::new(0),
            deleted_at: UnixMillis::new(deleted_at),
            takedown: None,
        })
    }

    #[test]
    fn a_tombstone_is_never_revived() {
        assert_eq!(precedence(Stored::Deleted, &page(u64::MAX, i64::MAX)), Precedence::StaysDeleted);
        assert_eq!(precedence(Stored::Deleted, &tombstone(9, 9)), Precedence::Same);
    }

    #[test]
    fn a_free_slug_takes_anything() {
        assert_eq!(precedence(Stored::Absent, &page(1, 0)), Precedence::Import);
        assert_eq!(precedence(Stored::Absent, &tombstone(2, 0)), Precedence::Import);
    }

    #[test]
    fn the_version_decides_and_then_the_time() {
        let stored = Stored::Active(state(3, 30));
        for (imported, expected) in [
            (page(2, 99), Precedence::NewerStays),
            (page(3, 29), Precedence::NewerStays),
            (page(3, 30), Precedence::Same),
            (page(3, 31), Precedence::Import),
            (page(4, 0), Precedence::Import),
            (tombstone(4, 0), Precedence::Import),
            (tombstone(3, 30), Precedence::Import),
            (tombstone(3, 29), Precedence::NewerStays),
            (tombstone(2, 99), Precedence::NewerStays),
        ] {
            assert_eq!(precedence(stored, &imported), expected, "{imported:?}");
        }
    }
}
