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

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::content::{Content, ContentError};
use super::head::{Head, PageHead};
use super::record::{Headed, Record};
use super::{details::FieldError, hex, page::Page, timestamp::UnixMillis};

const VERSION: u32 = 1;

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

/// Beyond these a page could not change its entity tag any more: both only grow, and end.
const MAX_VERSION: u64 = 1 << 62;

/// 9000-01-01T00:00:00Z.
const MAX_MILLIS: i64 = 221_845_392_000_000;

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

/// Reads an archive line by line, and refuses changed lines.
#[derive(Debug, Default)]
pub struct Decoder {
    digest: Sha256,
    lines: u64,
    records: u64,
    has_header: bool,
    trailer: Option<Trailer>,
}

impl Decoder {
    /// The record in `line`; `None` for the header and the trailer. After an error, refuse the whole archive.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Record<ArchivedPage>>, ArchiveError> {
        self.lines += 1;
        let number = self.lines;
        if self.trailer.is_some() {
            return Err(ArchiveError::AfterTheEnd { line: number });
        }
        if line.len() > MAX_LINE_BYTES {
            return Err(ArchiveError::TooLong { line: number });
        }
        let Some(covered) = covered(line) else {
            return Err(if self.has_header {
                ArchiveError::Damaged { line: number }
            } else {
                ArchiveError::NotAnArchive
            });
        };
        let body = decode(covered);
        if !self.has_header {
            check_header(body)?;
            self.has_header = true;
            self.digest.update(line);
            return Ok(None);
        }
        let malformed = |reason| ArchiveError::Malformed { line: number, reason };
        let record = match body.map_err(malformed)? {
            LineBody::Header(_) => return Err(malformed(EntryError::SecondHeader)),
            LineBody::Trailer(trailer) => {
                if trailer.sha256 != hex_digest(self.digest.clone()) || trailer.records != self.records {
                    return Err(ArchiveError::WrongDigest);
                }
                self.trailer = Some(trailer);
                return Ok(None);
            }
            LineBody::Record(line) => line.into_record().map_err(malformed)?,
        };
        let head = record.head();
        if head.version.get() > MAX_VERSION || head.updated_at.max(head.changed_at).get() > MAX_MILLIS {
            return Err(malformed(EntryError::NoRoom));
        }
        self.digest.update(line);
        self.records += 1;
        Ok(Some(record))
    }

    pub fn end(self) -> Result<Trailer, ArchiveError> {
        match self.trailer {
            Some(trailer) => Ok(trailer),
            None if self.has_header => Err(ArchiveError::Cut { lines: self.lines }),
            None => Err(ArchiveError::NotAnArchive),
        }
    }
}

fn check_header(body: Result<LineBody, EntryError>) -> Result<(), ArchiveError> {
    match body {
        Ok(LineBody::Header(header)) if header.version != VERSION => Err(ArchiveError::Newer(header.version)),
        Ok(LineBody::Header(header)) if header.format == FORMAT => Ok(()),
        _ => Err(ArchiveError::NotAnArchive),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKey;
    use crate::values::head::{PageVersion, Tombstone};
    use crate::values::slug::Slug;
    use crate::values::takedown::{Takedown, TakedownReason};
    use crate::values::title::Title;

    type Entry = Record<ArchivedPage>;

    fn archived(title: Option<&str>, content: &str) -> ArchivedPage {
        let slug = Slug::parse("a-page-22222222").unwrap();
        let details = Details { title: title.map(|title| Title::parse(title).unwrap()), ..Details::default() };
        let head = PageHead::first(slug, details, EditKey::random(|_| 7).hash(), UnixMillis::new(-5));
        let (version, updated_at) = (PageVersion::try_from(3_u64).unwrap(), UnixMillis::new(1_795_235_400_123));
        let head = PageHead { version, updated_at, changed_at: updated_at, ..head };
        ArchivedPage { head, content: Content::parse(content.to_owned()).unwrap() }
    }

    fn page(title: Option<&str>, content: &str) -> Entry {
        Record::Active(archived(title, content))
    }

    #[test]
    fn a_state_that_no_edit_could_follow_is_refused() {
        fn of(version: u64, changed_at: i64) -> bool {
            let mut page = archived(None, "a");
            page.head.version = version.try_into().unwrap();
            page.head.changed_at = UnixMillis::new(changed_at);
            let (_, header) = Encoder::begin(UnixMillis::new(1), "test".to_owned());
            let mut decoder = Decoder::default();
            decoder.line(header.as_bytes()).unwrap();
            decoder.line(record_line(&Record::Active(page)).as_bytes()).is_ok()
        }
        assert_eq!([of(MAX_VERSION, MAX_MILLIS), of(MAX_VERSION + 1, 1), of(1, MAX_MILLIS + 1)], [true, false, false]);
    }

    fn takedown() -> Takedown {
        Takedown::new(TakedownReason::Spam, "Ada \"ü\"").unwrap()
    }

    fn tombstone(takedown: Option<Takedown>) -> Entry {
        let slug = Slug::parse("gone-33333333").unwrap();
        Record::Deleted(Tombstone::alone(slug, PageVersion::FIRST.next(), UnixMillis::new(2), takedown))
    }

    fn hidden() -> Entry {
        Record::Hidden(archived(Some("Hidden"), "x"), takedown())
    }

    fn archive(entries: &[Entry]) -> Vec<u8> {
        let (mut encoder, mut text) = Encoder::begin(UnixMillis::new(9), "handbill 0".to_owned());
        for entry in entries {
            let line = record_line(entry);
            encoder.line(&line);
            text.push_str(&line);
        }
        text.push_str(&encoder.end());
        text.into_bytes()
    }

    /// Every record of `bytes`, and the trailer.
    fn read(bytes: &[u8]) -> Result<(Vec<Entry>, Trailer), ArchiveError> {
        let (mut decoder, mut entries) = (Decoder::default(), Vec::new());
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if let Some(entry) = decoder.line(line)? {
                entries.push(entry);
            }
        }
        Ok((entries, decoder.end()?))
    }

    #[test]
    fn an_archive_gives_back_every_record_as_it_was() {
        let entries = [
            page(Some("Titel \" ü"), "a\n\u{0}\r\n\"b\" \u{10ffff}"),
            page(None, " "),
            tombstone(None),
            tombstone(Some(takedown())),
            hidden(),
        ];
        let (found, trailer) = read(&archive(&entries)).unwrap();
        assert_eq!(found, entries);
        assert_eq!((trailer.records, trailer.unreadable), (5, 0));
        assert!(read(&archive(&[])).unwrap().0.is_empty());
    }

    #[test]
    fn every_flipped_bit_of_an_archive_is_refused() {
        let whole =
            archive(&[page(Some("Title"), "Text <b>&amp;"), tombstone(None), tombstone(Some(takedown())), hidden()]);
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_err(), "bit {bit} of {}", String::from_utf8_lossy(&whole));
        }
    }

    #[test]
    fn every_cut_of_an_archive_is_refused() {
        let whole = archive(&[page(Some("Title"), "Text"), tombstone(None)]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "cut to {end} bytes");
        }
        assert!(matches!(read(&[&whole[..], b"\n"].concat()), Err(ArchiveError::AfterTheEnd { line: 5 })));
    }

    #[test]
    fn missing_doubled_or_reordered_lines_are_refused() {
        let whole = archive(&[page(None, "one"), page(None, "two")]);
        let lines: Vec<_> = whole.split_inclusive(|&byte| byte == b'\n').collect();
        for order in [&[0, 1, 3][..], &[0, 1, 1, 2, 3], &[0, 2, 1, 3], &[0, 3]] {
            let other = order.iter().map(|&at| lines[at]).collect::<Vec<_>>().concat();
            assert!(matches!(read(&other), Err(ArchiveError::WrongDigest)), "{order:?}");
        }
        assert!(matches!(read(&[lines[0], lines[0]].concat()), Err(ArchiveError::Malformed { line: 2, .. })));
    }

    #[test]
    fn a_whole_line_that_no_store_may_have_is_refused() {
        let good = record_line(&page(Some("T"), "x"));
        let covered = String::from_utf8(covered(good.as_bytes()).unwrap().to_vec()).unwrap();
        let header = archive(&[]).split_inclusive(|&byte| byte == b'\n').next().unwrap().to_vec();
        for (from, to) in [
            ("a-page-22222222", "A-page-22222222"),
            ("\"version\":3", "\"version\":0"),
            ("\"content\":", "\"html\":\"<script>\",\"content\":"),
            ("\"state\":\"active\"", "\"state\":\"archived\""),
            ("\"state\":\"active\"", "\"state\":\"deleted\""),
            (",\"content\":\"x\"", ""),
            ("\"title\":\"T\"", "\"title\":\"a\\u202eb\""),
            ("\"content\":\"x\"", "\"content\":\"\""),
            ("1969-12-31T", "1969-12-32T"),
            ("\"key_sha256\":\"", "\"key_sha256\":\"+"),
        ] {
            let changed = covered.replacen(from, to, 1);
            assert_ne!(changed, covered, "{from}");
            let digits = sum(changed.as_bytes());
            let line = format!("{{\"sum\":\"{digits}\",{changed}\n");
            let mut decoder = Decoder::default();
            decoder.line(&header).unwrap();
            assert!(matches!(decoder.line(line.as_bytes()), Err(ArchiveError::Malformed { line: 2, .. })), "{to}");
        }
    }

    #[test]
    fn a_later_version_is_refused_by_its_number() {
        let covered = r#""header":{"format":"handbill-archive","version":2,"created_at":"1970-01-01T00:00:00.000Z","generator":"x","new":1}}"#;
        let digits = sum(covered.as_bytes());
        let error = Decoder::default().line(format!("{{\"sum\":\"{digits}\",{covered}\n").as_bytes()).unwrap_err();
        assert!(matches!(error, ArchiveError::Newer(2)), "{error}");
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let expected = include_str!("archive/version_1.ndjson");
        let entries = [page(Some("T"), "x\n"), tombstone(None)];
        assert_eq!(String::from_utf8(archive(&entries)).unwrap(), expected);
    }

    #[test]
    fn the_largest_page_fits_in_a_line() {
        let line = record_line(&page(Some(&"\u{10ffff}".repeat(200)), &"\u{1}".repeat(102_400)));
        assert!(line.len() < MAX_LINE_BYTES, "{}", line.len());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..4)) {
            let mut decoder = Decoder::default();
            for line in lines {
                if decoder.line(&line).is_err() {
                    return Ok(());
                }
            }
            prop_assert!(decoder.end().is_err());
        }

        #[test]
        fn any_text_travels_byte_for_byte(content in any::<String>().prop_filter("not empty", |text| !text.is_empty())) {
            let entries = [page(None, &content)];
            prop_assert_eq!(&read(&archive(&entries)).unwrap().0, &entries);
        }
    }
}
