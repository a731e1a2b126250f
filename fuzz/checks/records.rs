//! Bytes of the embedded store's file are a record or an error; what was read is written and read again alike, and a bit
//! that flips is never another record.

use handbill::domain::slug::Slug;
use handbill::ports::page_store::Record;
use xxhash_rust::xxh3::xxh3_64;

use super::record::{active_version, decode, encode};

/// The version that is written, which is also in what the checksum is of.
const VERSION: u8 = 1;

pub(crate) fn check(input: &[u8]) {
    let slug = Slug::parse("a-page-22222222").expect("it is in the grammar");
    // A checksum that was made up is seldom right, so that what is behind one is tried on its own.
    read(&slug, input);
    let checksum = xxh3_64(&[slug.as_str().as_bytes(), &[VERSION], input].concat());
    let mut sealed = [&[VERSION], &checksum.to_le_bytes()[..], input].concat();
    let Some(record) = read(&slug, &sealed) else { return };
    assert_eq!(record.slug(), &slug);

    let elsewhere = Slug::parse("a-page-33333333").expect("it is in the grammar");
    assert!(read(&elsewhere, &sealed).is_none(), "it was read under another slug");
    // Any bit will do, and each is tried in time.
    let bit = usize::try_from(checksum % (8 * sealed.len() as u64)).expect("it is below the length");
    sealed[bit / 8] ^= 1 << (bit % 8);
    assert!(read(&slug, &sealed).is_none(), "bit {bit} flipped unseen");
}

/// The record in `bytes`, if they are one.
fn read(slug: &Slug, bytes: &[u8]) -> Option<Record> {
    let version = active_version(slug, bytes);
    let record = decode(slug.clone(), bytes).ok()?;
    match &record {
        Record::Active(page) => assert_eq!(version, Ok(Some(page.version))),
        Record::Deleted(_) => assert_eq!(version, Ok(None)),
    }
    let written = encode(&record).expect("what was read can be written");
    assert_eq!(decode(slug.clone(), &written).as_ref(), Ok(&record));
    Some(record)
}
