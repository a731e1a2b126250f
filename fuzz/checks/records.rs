//! Bytes of the embedded store's file are a record or an error, and what was read is written and read again alike.

use handbill::domain::slug::Slug;

use crate::record::{active_version, decode, encode};

pub(crate) fn check(input: &[u8]) {
    let slug = Slug::parse("a-page-22222222").expect("it is in the grammar");
    let version = active_version(input);
    if let Ok(record) = decode(slug.clone(), input) {
        assert!(version.is_ok(), "a record has a version: {version:?}");
        let written = encode(&record).expect("what was read can be written");
        assert_eq!(decode(slug, &written).as_ref(), Ok(&record));
    }
}
