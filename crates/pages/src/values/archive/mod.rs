//! The format in which pages leave a store and come back: lines of JSON, each with a checksum.
//!
//! ```text
//! {"sum":"…","header":{"format":"handbill-archive","version":1,"created_at":"…","generator":"handbill 0.3.0"}}
//! {"sum":"…","record":{"head":{"slug":"…","version":3,…,"state":"active",…},"content":"…"}}
//! {"sum":"…","record":{"head":{"slug":"…","version":2,…,"state":"deleted"}}}
//! {"sum":"…","trailer":{"records":2,"unreadable":0,"sha256":"…"}}
//! ```
//!
//! A [head](super::head) is the object that stores keep. `sum` begins the SHA-256 of the rest of the line, between the comma and the
//! line break. The trailer's `sha256` covers all bytes before its line.
//!
//! An archive has the hash of an edit key, never the key, and no HTML: an import renders the content itself.

mod decoder;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::content::{Content, ContentError};
use super::head::{Head, PageHead, State};
use super::record::{Headed, Record};
use super::{details::FieldError, hex, page::Page, timestamp::UnixMillis};

pub use self::decoder::Decoder;

pub const VERSION: u32 = 1;

/// JSON may write each byte of 100 KB as six.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// A page without what an import renders again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedPage {
    pub head: PageHead,
    pub content: Content,
}

impl From<&Page> for ArchivedPage {
    fn from(page: &Page) -> Self {
        Self { head: page.head.clone(), content: page.text.content.clone() }
    }
}

impl Headed for ArchivedPage {
    fn head(&self) -> &PageHead {
        &self.head
    }
}

#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("not a Handbill export (its first line is not a header)")]
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
    #[error("the field {} is not valid: {}", .0.field, .0.advice)]
    Field(FieldError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error("the page has no content")]
    NoContent,
    #[error("the deleted page has content")]
    DeletedContent,
    #[error("a header is the first line only")]
    SecondHeader,
    #[error("its version or one of its times leaves no room for later ones")]
    NoRoom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    Import,
    Same,
    NewerStays,
    StaysDeleted,
    StaysHidden,
}

/// A tombstone is final (contract, decision 18). The higher version wins, then the later write: a restored store repeats
/// versions. At the same version and time a tombstone wins. No import shows a hidden page.
pub fn precedence(stored: Option<&Head>, imported: &Head) -> Precedence {
    let Some(stored) = stored else { return Precedence::Import };
    match (&stored.state, &imported.state) {
        (State::Deleted(_), State::Deleted(_)) => return Precedence::Same,
        (State::Deleted(_), _) => return Precedence::StaysDeleted,
        (State::Hidden(..), State::Active(_)) => return Precedence::StaysHidden,
        _ => {}
    }
    match (imported.order().cmp(&stored.order()), &imported.state) {
        (Ordering::Greater, _) | (Ordering::Equal, State::Deleted(_)) => Precedence::Import,
        (Ordering::Less, _) => Precedence::NewerStays,
        (Ordering::Equal, _) => Precedence::Same,
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
    Record(Box<RecordLine>),
    Trailer(Trailer),
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    created_at: UnixMillis,
    generator: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine {
    head: Head,
    /// `None` for a tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
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

impl RecordLine {
    fn into_record(self) -> Result<Record<ArchivedPage>, EntryError> {
        let Self { head, content } = self;
        if head.live().is_none() && content.is_some() {
            return Err(EntryError::DeletedContent);
        }
        Record::from(head).try_map(|head: PageHead| {
            head.state.details.check().map_err(EntryError::Field)?;
            let content = content.ok_or(EntryError::NoContent)?;
            // What a store has may be longer than is allowed today.
            Ok(ArchivedPage { head, content: Content::parse(content.as_str())? })
        })
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
        let header = Header { format: FORMAT.to_owned(), version: VERSION, created_at, generator };
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

pub fn record_line(record: &Record<ArchivedPage>) -> String {
    let content = record.page().map(|page| page.content.clone());
    encode(&LineBody::Record(Box::new(RecordLine { head: record.head(), content })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKey;
    use crate::values::head::PageVersion;
    use crate::values::slug::Slug;
    use crate::values::takedown::{Takedown, TakedownReason};

    fn page(version: u64, changed_at: i64) -> Head {
        let (slug, details) = (Slug::parse("a-22222222").unwrap(), Details::default());
        let head = PageHead::first(slug, details, EditKey::random(|_| 0).hash(), UnixMillis::new(0));
        let (version, changed_at) = (PageVersion::new(version), UnixMillis::new(changed_at));
        Head { version, changed_at, ..head.map_state(State::Active) }
    }

    fn hidden(version: u64, changed_at: i64) -> Head {
        let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
        page(version, changed_at).map_state(|state| match state {
            State::Active(live) => State::Hidden(live, takedown),
            other => other,
        })
    }

    fn tombstone(version: u64, changed_at: i64) -> Head {
        page(version, changed_at).map_state(|_| State::Deleted(None))
    }

    #[test]
    fn a_tombstone_is_never_revived_and_no_hidden_page_is_shown() {
        let [deleted, found] = [tombstone(2, 2), hidden(3, 30)];
        assert_eq!(precedence(Some(&deleted), &page(u64::MAX, i64::MAX)), Precedence::StaysDeleted);
        assert_eq!(precedence(Some(&deleted), &tombstone(9, 9)), Precedence::Same);
        assert_eq!(precedence(Some(&found), &page(9, 99)), Precedence::StaysHidden);
        assert_eq!(precedence(Some(&found), &hidden(3, 31)), Precedence::Import);
    }

    #[test]
    fn a_free_slug_takes_anything() {
        for imported in [page(1, 0), hidden(1, 0), tombstone(2, 0)] {
            assert_eq!(precedence(None, &imported), Precedence::Import);
        }
    }

    #[test]
    fn the_version_decides_and_then_the_time_of_the_last_write() {
        for (imported, expected) in [
            (page(2, 99), Precedence::NewerStays),
            (page(3, 29), Precedence::NewerStays),
            (page(3, 30), Precedence::Same),
            (page(3, 31), Precedence::Import),
            (hidden(3, 31), Precedence::Import),
            (page(4, 0), Precedence::Import),
            (tombstone(4, 0), Precedence::Import),
            (tombstone(3, 30), Precedence::Import),
            (tombstone(3, 29), Precedence::NewerStays),
            (tombstone(2, 99), Precedence::NewerStays),
        ] {
            assert_eq!(precedence(Some(&page(3, 30)), &imported), expected, "{imported:?}");
        }
    }
}
