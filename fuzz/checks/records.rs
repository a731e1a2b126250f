//! Any bytes in the embedded store's file are read as a record or as an error. A record that was read is the same after
//! it is written and read again, and a flipped bit never gives another record.

use handbill_core::domain::slug::Slug;
use handbill_core::ports::page_store::{Lookup, Record};
use xxhash_rust::xxh3::xxh3_64;

use super::record::{decode, decode_head, encode};

/// The version that is written. The checksum covers this version too.
const VERSION: u8 = 1;

pub(crate) fn check(input: &[u8]) {
    let slug = Slug::parse("a-page-22222222").expect("it is in the grammar");
    // An input seldom has the right checksum by chance, so the input is also tried behind a right checksum.
    read(&slug, input);
    let checksum = xxh3_64(&[slug.as_str().as_bytes(), &[VERSION], input].concat());
    let mut sealed = [&[VERSION], &checksum.to_le_bytes()[..], input].concat();
    let Some(record) = read(&slug, &sealed) else { return };
    assert_eq!(record.slug(), &slug);

    let elsewhere = Slug::parse("a-page-33333333").expect("it is in the grammar");
    assert!(read(&elsewhere, &sealed).is_none(), "it was read under another slug");
    // Any bit will do, and over many inputs each bit is tried.
    let bit = usize::try_from(checksum % (8 * sealed.len() as u64)).expect("it is below the length");
    sealed[bit / 8] ^= 1 << (bit % 8);
    assert!(read(&slug, &sealed).is_none(), "bit {bit} flipped unseen");
}

/// The record in `bytes`; `None` if `bytes` are not a record.
fn read(slug: &Slug, bytes: &[u8]) -> Option<Record> {
    let head = decode_head(slug, bytes);
    let record = decode(slug, bytes).ok()?;
    match &record {
        Record::Active(page) => assert_eq!(head, Ok(page.head.clone().into())),
        Record::Deleted(tombstone) => assert_eq!(head, Ok(Lookup::Deleted(tombstone.clone()))),
    }
    let written = encode(&record).expect("what was read can be written");
    assert_eq!(decode(slug, &written).as_ref(), Ok(&record));
    Some(record)
}
