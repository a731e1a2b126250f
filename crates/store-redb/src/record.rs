//! The bytes of a page or tombstone in the file: a version byte, a checksum of 8 bytes, then `postcard`.
//!
//! The checksum covers the slug, the version byte and the body. The slug is the record's key and not part of the
//! record, so a record under a wrong key does not match either. `redb` has checksums of its own, but verifies them only
//! after a crash and never when it reads. Without the record's checksum, a flipped bit would be served as part of the
//! page's text.
//!
//! Once a release has written these records, a new field needs a new version of the types here and a second arm in
//! [`decode`]. Older records remain unchanged.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use crate::domain::content::Content;
use crate::domain::edit_key::EditKeyHash;
use crate::domain::language::Language;
use crate::domain::markdown::Rendered;
use crate::domain::page::{Page, PageHead, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::{Takedown, TakedownReason};
use crate::domain::timestamp::UnixMillis;
use crate::domain::title::Title;
use crate::ports::page_store::{Head, Record};

/// The version that [`encode`] writes.
const VERSION: u8 = 1;

/// Size of the checksum, in bytes: `XXH3` of 64 bits. It misses random damage once in 2⁶⁴ times. It does not protect against
/// somebody who can write the file.
const CHECKSUM_BYTES: usize = 8;

/// Size of the part before the body, in bytes.
const HEAD_BYTES: usize = 1 + CHECKSUM_BYTES;

/// A record that this version of Handbill cannot read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum RecordError {
    #[error("the record is empty")]
    Empty,
    #[error("the record has version {0}, this Handbill knows up to {VERSION}")]
    Newer(u8),
    /// These are not the bytes that were written under this slug.
    #[error("the record does not match its checksum")]
    Damaged,
    /// The bytes do not decode as a record of the version that they name.
    #[error("the record does not decode: {0}")]
    Malformed(#[from] postcard::Error),
    #[error("the record has {0} bytes too many")]
    TooLong(usize),
}

/// A record of version 1. The order of its variants and fields is part of the format and must not change.
#[derive(Serialize, Deserialize)]
enum StoredV1<'a> {
    #[serde(borrow)]
    Active(PageV1<'a>),
    Deleted(TombstoneV1),
}

/// `version` comes first, because [`HeadV1`] reads it there.
#[derive(Serialize, Deserialize)]
struct PageV1<'a> {
    version: u64,
    created_at: i64,
    updated_at: i64,
    key_hash: EditKeyHash,
    title: Option<Cow<'a, Title>>,
    #[serde(borrow)]
    content: Cow<'a, str>,
    html: Cow<'a, str>,
    excerpt: Cow<'a, str>,
    code_blocks: Cow<'a, [u32]>,
    link_origins: Cow<'a, [String]>,
    /// A code of BCP 47.
    language: Option<Cow<'a, str>>,
    renderer_version: u16,
}

/// `version` comes first, because [`HeadV1`] reads it there.
#[derive(Serialize, Deserialize)]
struct TombstoneV1 {
    version: u64,
    created_at: i64,
    deleted_at: i64,
    takedown: Option<TakedownV1>,
}

/// Why an operator deleted the page, and who.
#[derive(Serialize, Deserialize)]
struct TakedownV1 {
    reason: TakedownReason,
    by: String,
}

impl TombstoneV1 {
    fn into_tombstone(self, slug: Slug) -> Tombstone {
        Tombstone {
            slug,
            version: PageVersion::new(self.version),
            created_at: UnixMillis::new(self.created_at),
            deleted_at: UnixMillis::new(self.deleted_at),
            takedown: self.takedown.map(|TakedownV1 { reason, by }| Takedown { reason, by }),
        }
    }
}

/// The beginning of a [`StoredV1`]: enough to compare versions without copying a page.
#[derive(Deserialize)]
enum HeadV1 {
    Active { version: u64 },
    Deleted,
}

/// The same bytes as a [`StoredV1`], read without copying the page's text.
#[derive(Deserialize)]
enum BorrowedV1<'a> {
    #[serde(borrow)]
    Active(BorrowedPageV1<'a>),
    Deleted(TombstoneV1),
}

/// The fields of [`PageV1`], in its order.
#[derive(Deserialize)]
struct BorrowedPageV1<'a> {
    version: u64,
    created_at: i64,
    updated_at: i64,
    key_hash: EditKeyHash,
    title: Option<Title>,
    _content: &'a str,
    _html: &'a str,
    _excerpt: &'a str,
    _code_blocks: Vec<u32>,
    link_origins: Vec<String>,
    _language: Option<&'a str>,
    renderer_version: u16,
}

/// The bytes of `record`.
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, RecordError> {
    let stored = match record {
        Record::Active(page) => StoredV1::Active(PageV1 {
            version: page.version.get(),
            created_at: page.created_at.get(),
            updated_at: page.updated_at.get(),
            key_hash: page.key_hash,
            title: page.title.as_ref().map(Cow::Borrowed),
            content: Cow::Borrowed(page.content.as_str()),
            html: Cow::Borrowed(&page.rendered.html),
            excerpt: Cow::Borrowed(&page.rendered.excerpt),
            code_blocks: Cow::Borrowed(&page.rendered.code_blocks),
            link_origins: Cow::Borrowed(&page.rendered.link_origins),
            language: page.rendered.language.map(|language| Cow::Borrowed(language.code())),
            renderer_version: page.rendered.renderer_version,
        }),
        Record::Deleted(tombstone) => StoredV1::Deleted(TombstoneV1 {
            version: tombstone.version.get(),
            created_at: tombstone.created_at.get(),
            deleted_at: tombstone.deleted_at.get(),
            takedown: tombstone
                .takedown
                .as_ref()
                .map(|Takedown { reason, by }| TakedownV1 { reason: *reason, by: by.clone() }),
        }),
    };
    let mut bytes = Vec::with_capacity(HEAD_BYTES + estimate(record));
    bytes.resize(HEAD_BYTES, VERSION);
    let mut bytes = postcard::to_extend(&stored, bytes)?;
    let checksum = checksum(record.slug(), &bytes[HEAD_BYTES..]);
    bytes[1..HEAD_BYTES].copy_from_slice(&checksum);
    Ok(bytes)
}

/// Size of everything in a record but its texts, in bytes, for most records.
const SMALL_PARTS_BYTES: usize = 128;

/// About the size of the body of `record`, in bytes. A buffer that grew from nothing would be copied ten times.
fn estimate(record: &Record) -> usize {
    let texts = match record {
        Record::Active(page) => {
            let Rendered { html, excerpt, code_blocks, link_origins, .. } = &page.rendered;
            let title = page.title.as_ref().map_or(0, |title| title.as_str().len());
            let origins = link_origins.iter().map(|origin| origin.len() + 1).sum::<usize>();
            title + page.content.as_str().len() + html.len() + excerpt.len() + size_of_val(&code_blocks[..]) + origins
        }
        Record::Deleted(_) => 0,
    };
    texts + SMALL_PARTS_BYTES
}

/// The record with these `bytes` under `slug`.
pub(super) fn decode(slug: Slug, bytes: &[u8]) -> Result<Record, RecordError> {
    let (stored, rest) = postcard::take_from_bytes::<StoredV1>(body(&slug, bytes)?)?;
    if !rest.is_empty() {
        return Err(RecordError::TooLong(rest.len()));
    }
    Ok(match stored {
        StoredV1::Active(page) => Record::Active(Arc::new(Page {
            slug,
            title: page.title.map(Cow::into_owned),
            content: Content::from_stored(page.content),
            rendered: Rendered {
                html: page.html.into_owned(),
                excerpt: page.excerpt.into_owned(),
                code_blocks: page.code_blocks.into_owned(),
                link_origins: page.link_origins.into_owned(),
                language: page.language.as_deref().and_then(Language::from_code),
                renderer_version: page.renderer_version,
            },
            key_hash: page.key_hash,
            version: PageVersion::new(page.version),
            created_at: UnixMillis::new(page.created_at),
            updated_at: UnixMillis::new(page.updated_at),
        })),
        StoredV1::Deleted(tombstone) => Record::Deleted(tombstone.into_tombstone(slug)),
    })
}

/// The head of the record with these `bytes` under `slug`.
pub(super) fn decode_head(slug: Slug, bytes: &[u8]) -> Result<Head, RecordError> {
    let (stored, rest) = postcard::take_from_bytes::<BorrowedV1>(body(&slug, bytes)?)?;
    if !rest.is_empty() {
        return Err(RecordError::TooLong(rest.len()));
    }
    Ok(match stored {
        BorrowedV1::Active(page) => Head::Active(PageHead {
            slug,
            title: page.title,
            key_hash: page.key_hash,
            version: PageVersion::new(page.version),
            created_at: UnixMillis::new(page.created_at),
            updated_at: UnixMillis::new(page.updated_at),
            link_origins: page.link_origins,
            renderer_version: page.renderer_version,
        }),
        BorrowedV1::Deleted(tombstone) => Head::Deleted(tombstone.into_tombstone(slug)),
    })
}

/// The version of the page with these `bytes` under `slug`; `None` if it is a tombstone.
pub(super) fn active_version(slug: &Slug, bytes: &[u8]) -> Result<Option<PageVersion>, RecordError> {
    Ok(match postcard::from_bytes::<HeadV1>(body(slug, bytes)?)? {
        HeadV1::Active { version } => Some(PageVersion::new(version)),
        HeadV1::Deleted => None,
    })
}

/// Verifies the checksum, and returns the part after the version byte and the checksum.
fn body<'a>(slug: &Slug, bytes: &'a [u8]) -> Result<&'a [u8], RecordError> {
    match bytes.first() {
        None => return Err(RecordError::Empty),
        Some(&VERSION) => {}
        Some(&newer) => return Err(RecordError::Newer(newer)),
    }
    let (head, body) = bytes.split_at_checked(HEAD_BYTES).ok_or(RecordError::Damaged)?;
    if head[1..] == checksum(slug, body) { Ok(body) } else { Err(RecordError::Damaged) }
}

fn checksum(slug: &Slug, body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Xxh3::new();
    hash.update(slug.as_str().as_bytes());
    // No slug contains the version byte. It separates the slug from the body, so no part of the body can pass as a part
    // of the slug.
    hash.update(&[VERSION]);
    hash.update(body);
    hash.digest().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use crate::domain::edit_key::EditKey;

    use super::*;

    fn slug() -> Slug {
        Slug::parse("a-page-22222222").unwrap()
    }

    fn page(title: Option<&str>) -> Record {
        Record::Active(Arc::new(Page {
            slug: slug(),
            title: title.map(|title| Title::parse(title).unwrap()),
            content: Content::parse("# ü".to_owned()).unwrap(),
            rendered: Rendered {
                html: "<h2>ü</h2>".to_owned(),
                excerpt: "ü".to_owned(),
                code_blocks: vec![300],
                link_origins: vec!["https://a.example".to_owned()],
                language: Language::from_code("de"),
                renderer_version: 7,
            },
            key_hash: EditKey::random(|_| 0).hash(),
            version: PageVersion::new(300),
            created_at: UnixMillis::new(1),
            updated_at: UnixMillis::new(-1),
        }))
    }

    fn tombstone() -> Record {
        Record::Deleted(Tombstone {
            slug: slug(),
            version: PageVersion::new(2),
            created_at: UnixMillis::new(3),
            deleted_at: UnixMillis::new(4),
            takedown: None,
        })
    }

    fn taken_down() -> Record {
        let Record::Deleted(tombstone) = tombstone() else { unreachable!() };
        let takedown = Takedown::new(TakedownReason::Phishing, "desk").unwrap();
        Record::Deleted(Tombstone { takedown: Some(takedown), ..tombstone })
    }

    #[test]
    fn a_record_decodes_to_what_was_encoded() {
        for record in [page(Some("Title")), page(None), tombstone(), taken_down()] {
            assert_eq!(decode(slug(), &encode(&record).unwrap()), Ok(record));
        }
    }

    #[test]
    fn a_head_is_that_of_the_whole_record() {
        for record in [page(Some("Title")), page(None), tombstone()] {
            let head = decode_head(slug(), &encode(&record).unwrap());
            let expected = match record {
                Record::Active(page) => Head::Active(page.head()),
                Record::Deleted(tombstone) => Head::Deleted(tombstone),
            };
            assert_eq!(head, Ok(expected));
        }
    }

    #[test]
    fn the_version_is_read_without_the_rest() {
        assert_eq!(active_version(&slug(), &encode(&page(None)).unwrap()), Ok(Some(PageVersion::new(300))));
        assert_eq!(active_version(&slug(), &encode(&tombstone()).unwrap()), Ok(None));
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let mut expected = vec![0, 0xac, 0x02, 2, 1];
        let Record::Active(written) = page(Some("T")) else { unreachable!() };
        expected.extend(postcard::to_allocvec(&written.key_hash).unwrap());
        expected.extend(b"\x01\x01T\x04# \xc3\xbc\x0b<h2>\xc3\xbc</h2>\x02\xc3\xbc\x01\xac\x02\x01\x11https://a.example\x01\x02de\x07");
        let bytes = encode(&Record::Active(written)).unwrap();
        assert_eq!((bytes[0], &bytes[HEAD_BYTES..]), (1, expected.as_slice()));
        let checksum = xxhash_rust::xxh3::xxh3_64(b"a-page-22222222\x01\x01\x02\x06\x08\x00").to_le_bytes();
        assert_eq!(encode(&tombstone()).unwrap(), [&[1][..], &checksum, &[1, 2, 6, 8, 0]].concat());
        assert_eq!(encode(&taken_down()).unwrap()[HEAD_BYTES..], *b"\x01\x02\x06\x08\x01\x01\x04desk");
    }

    #[test]
    fn any_flipped_bit_is_an_error() {
        for record in [page(Some("Title")), tombstone(), taken_down()] {
            let whole = encode(&record).unwrap();
            for bit in 0..whole.len() * 8 {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(slug(), &flipped).is_err(), "bit {bit}");
                assert!(decode_head(slug(), &flipped).is_err(), "bit {bit}");
                assert!(active_version(&slug(), &flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_under_another_slug_is_an_error() {
        for record in [page(Some("Title")), tombstone(), taken_down()] {
            let whole = encode(&record).unwrap();
            let other = Slug::parse("a-page-22222223").unwrap();
            assert_eq!(decode(other.clone(), &whole), Err(RecordError::Damaged));
            assert_eq!(active_version(&other, &whole), Err(RecordError::Damaged));
        }
    }

    #[test]
    fn what_is_newer_or_cut_or_too_long_is_an_error_and_no_panic() {
        let whole = encode(&page(Some("Title"))).unwrap();
        for end in 0..whole.len() {
            assert!(decode(slug(), &whole[..end]).is_err());
        }
        let mut newer = whole.clone();
        newer[0] = 2;
        assert_eq!(decode(slug(), &newer), Err(RecordError::Newer(2)));
        assert_eq!(active_version(&slug(), &newer), Err(RecordError::Newer(2)));

        let mut longer = whole.clone();
        longer.push(0);
        assert_eq!(decode(slug(), &longer), Err(RecordError::Damaged));
        let checksum = checksum(&slug(), &longer[HEAD_BYTES..]);
        longer[1..HEAD_BYTES].copy_from_slice(&checksum);
        assert_eq!(decode(slug(), &longer), Err(RecordError::TooLong(1)));
    }
}
