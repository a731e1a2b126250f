//! The bytes of a page or tombstone in the file: a version byte, a checksum of 8 bytes, then `postcard`, in which a long text is
//! compressed (see [`packed_text`](super::packed_text)).
//!
//! The checksum covers the slug, the version byte and the body. The slug is the record's key and not part of the
//! record, so a record under a wrong key does not match either. `redb` has checksums of its own, but verifies them only
//! after a crash and never when it reads. Without the record's checksum, a flipped bit would be served as part of the
//! page's text.
//!
//! A record is what `postcard` makes of [`PageHead`], [`PageText`] or [`Tombstone`], so a new field of theirs is stored
//! without a change here. Once a release has written these records, such a change also needs a new [`VERSION`], the older type here, and
//! a second arm in [`decode`]: `the_bytes_of_version_1_stay_as_they_are` fails until then.

use std::sync::Arc;

use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use super::packed_text::{self, PackedText};
use crate::domain::page::{Page, PageHead, PageText, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::Takedown;
use crate::ports::page_store::{Lookup, Record};

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
    #[error("the text of the record cannot be unpacked")]
    Packed,
}

/// The first byte of the body of a page, which its [`PageHead`] and its [`PageText`] follow. Their bytes are those of these
/// types: the order of their fields is part of the format.
const ACTIVE: u8 = 0;

/// The same before a [`Tombstone`].
const DELETED: u8 = 1;

/// The same before the reason why a page is hidden, its head and its text.
const HIDDEN: u8 = 2;

/// The head of a record, as it was read.
enum Head {
    Page(PageHead),
    Deleted(Tombstone),
}

pub(super) fn encode(record: &Record) -> Result<Vec<u8>, RecordError> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + SMALL_PARTS_BYTES);
    bytes.resize(HEAD_BYTES, VERSION);
    let mut bytes = match record {
        Record::Active(page) => {
            let Page { head, text } = &**page;
            let mut bytes = match head.hidden.as_deref() {
                Some(hiding) => postcard::to_extend(&(HIDDEN, hiding, head), bytes),
                None => postcard::to_extend(&(ACTIVE, head), bytes),
            }?;
            packed_text::append(&postcard::to_allocvec(text)?, &mut bytes);
            bytes
        }
        Record::Deleted(tombstone) => postcard::to_extend(&(DELETED, tombstone), bytes)?,
    };
    let checksum = checksum(record.slug(), &bytes[HEAD_BYTES..]);
    bytes[1..HEAD_BYTES].copy_from_slice(&checksum);
    Ok(bytes)
}

/// Size of a head, in bytes, for most records.
const SMALL_PARTS_BYTES: usize = 256;

pub(super) fn decode(slug: &Slug, bytes: &[u8]) -> Result<Record, RecordError> {
    decode_up_to(usize::MAX, slug, bytes).map(|record| record.expect("no text is larger"))
}

/// Does the same unless the text takes more than `max_bytes` in memory: then `None`.
pub(super) fn decode_up_to(max_bytes: usize, slug: &Slug, bytes: &[u8]) -> Result<Option<Record>, RecordError> {
    let (head, rest) = head(slug, bytes)?;
    let (record, rest) = match head {
        Head::Page(head) => {
            let packed = PackedText::of(rest).ok_or(RecordError::Packed)?;
            if packed.len() > max_bytes {
                return Ok(None);
            }
            let text = packed.unpacked().ok_or(RecordError::Packed)?;
            let (text, rest) = postcard::take_from_bytes::<PageText>(&text)?;
            (Record::Active(Arc::new(Page { head, text })), rest.len())
        }
        Head::Deleted(tombstone) => (Record::Deleted(tombstone), rest.len()),
    };
    if rest == 0 { Ok(Some(record)) } else { Err(RecordError::TooLong(rest)) }
}

/// The head of the record with these `bytes` under `slug`. The text is not decoded.
pub(super) fn decode_head(slug: &Slug, bytes: &[u8]) -> Result<Lookup<PageHead>, RecordError> {
    Ok(match head(slug, bytes)?.0 {
        Head::Page(head) => head.into(),
        Head::Deleted(tombstone) => Lookup::Deleted(tombstone),
    })
}

/// The head of the record with these `bytes` under `slug`, and the bytes after it.
fn head<'a>(slug: &Slug, bytes: &'a [u8]) -> Result<(Head, &'a [u8]), RecordError> {
    let (head, rest) = match body(slug, bytes)? {
        [ACTIVE, head @ ..] => {
            let (head, rest) = postcard::take_from_bytes(head)?;
            (Head::Page(head), rest)
        }
        [HIDDEN, both @ ..] => {
            let ((hiding, head), rest) = postcard::take_from_bytes::<(Takedown, PageHead)>(both)?;
            (Head::Page(PageHead { hidden: Some(Box::new(hiding)), ..head }), rest)
        }
        [DELETED, tombstone @ ..] => {
            let (tombstone, rest) = postcard::take_from_bytes(tombstone)?;
            (Head::Deleted(tombstone), rest)
        }
        [] => return Err(postcard::Error::DeserializeUnexpectedEnd.into()),
        _ => return Err(postcard::Error::DeserializeBadEnum.into()),
    };
    let (Head::Page(PageHead { slug: own, .. }) | Head::Deleted(Tombstone { slug: own, .. })) = &head;
    if own == slug { Ok((head, rest)) } else { Err(RecordError::Damaged) }
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
    use super::*;
    use crate::domain::content::Content;
    use crate::domain::edit_key::EditKey;
    use crate::domain::language::Language;
    use crate::domain::page::PageVersion;
    use crate::domain::takedown::{Takedown, TakedownReason};
    use crate::domain::timestamp::UnixMillis;
    use crate::domain::title::Title;

    fn slug() -> Slug {
        Slug::parse("a-page-22222222").unwrap()
    }

    fn page(title: Option<&str>) -> Record {
        let head = PageHead {
            slug: slug(),
            title: title.map(|title| Title::parse(title).unwrap()),
            key_hash: EditKey::random(|_| 0).hash(),
            version: PageVersion::new(300),
            created_at: UnixMillis::new(1),
            updated_at: UnixMillis::new(-1),
            link_origins: vec!["https://a.example".to_owned()],
            renderer_version: 7,
            hidden: None,
        };
        let text = PageText {
            content: Content::parse("# ü".to_owned()).unwrap(),
            html: "<h2>ü</h2>".to_owned(),
            excerpt: "ü".to_owned(),
            code_blocks: vec![300],
            language: Language::from_code("de"),
        };
        Record::Active(Arc::new(Page { head, text }))
    }

    /// A page whose text is stored compressed.
    fn long() -> Record {
        let Record::Active(page) = page(Some("Long")) else { unreachable!() };
        let content = Content::parse("Some text with words in it. ".repeat(50)).unwrap();
        Record::Active(Arc::new(Page { head: page.head.clone(), text: PageText { content, ..page.text.clone() } }))
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

    fn hidden() -> Record {
        let Record::Active(page) = page(Some("T")) else { unreachable!() };
        let takedown = Takedown::new(TakedownReason::Phishing, "desk").unwrap();
        let head = PageHead { hidden: Some(Box::new(takedown)), ..page.head.clone() };
        Record::Active(Arc::new(Page { head, text: page.text.clone() }))
    }

    #[test]
    fn a_record_decodes_to_what_was_encoded() {
        for record in [page(Some("Title")), page(None), long(), tombstone(), taken_down(), hidden()] {
            assert_eq!(decode(&slug(), &encode(&record).unwrap()), Ok(record));
        }
    }

    #[test]
    fn a_head_is_that_of_the_whole_record() {
        for record in [page(Some("Title")), page(None), long(), tombstone(), hidden()] {
            let head = decode_head(&slug(), &encode(&record).unwrap());
            let expected = match record {
                Record::Active(page) => page.head.clone().into(),
                Record::Deleted(tombstone) => Lookup::Deleted(tombstone),
            };
            assert_eq!(head, Ok(expected));
        }
    }

    #[test]
    fn any_flipped_bit_is_an_error() {
        for record in [page(Some("Title")), long(), tombstone(), taken_down(), hidden()] {
            let whole = encode(&record).unwrap();
            for bit in 0..whole.len() * 8 {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&slug(), &flipped).is_err(), "bit {bit}");
                assert!(decode_head(&slug(), &flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_under_another_slug_is_an_error() {
        for record in [page(Some("Title")), tombstone(), taken_down()] {
            let whole = encode(&record).unwrap();
            let other = Slug::parse("a-page-22222223").unwrap();
            assert_eq!(decode(&other, &whole), Err(RecordError::Damaged));
            assert_eq!(decode_head(&other, &whole), Err(RecordError::Damaged));
        }
    }

    #[test]
    fn a_text_is_unpacked_only_up_to_the_bytes_that_it_takes_in_memory() {
        let whole = encode(&long()).unwrap();
        assert!(whole.len() < 400, "{} bytes", whole.len());
        assert_eq!(decode_up_to(1000, &slug(), &whole), Ok(None));
        assert_eq!(decode_up_to(2000, &slug(), &whole), Ok(Some(long())));
    }

    #[test]
    fn what_is_newer_or_cut_or_too_long_is_an_error_and_no_panic() {
        let whole = encode(&page(Some("Title"))).unwrap();
        for end in 0..whole.len() {
            assert!(decode(&slug(), &whole[..end]).is_err());
        }
        let mut newer = whole.clone();
        newer[0] = 2;
        assert_eq!(decode(&slug(), &newer), Err(RecordError::Newer(2)));
        assert_eq!(decode_head(&slug(), &newer), Err(RecordError::Newer(2)));

        let mut longer = whole.clone();
        longer.push(0);
        assert_eq!(decode(&slug(), &longer), Err(RecordError::Damaged));
        let checksum = checksum(&slug(), &longer[HEAD_BYTES..]);
        longer[1..HEAD_BYTES].copy_from_slice(&checksum);
        assert_eq!(decode(&slug(), &longer), Err(RecordError::TooLong(1)));
    }
}
