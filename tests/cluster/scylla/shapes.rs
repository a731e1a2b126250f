//! Both servers' answers to conditional writes. ScyllaDB's answers are forged, following its documentation: beside
//! `[applied]` they always have the key and the columns of the condition, with nulls if there was no row.

use std::sync::Arc;

use handbill_pages::ports::page_store::PutResult;
use handbill_pages::values::record::Record;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_test_support::pages::{CREATED, edited, insert, page, replace};
use scylla_proxy::{Reaction, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode};

use super::faults::writes_of;
use super::server::{PATIENT, proxied, store};

const BOOLEAN: &[u16] = &[0x04];
const BLOB: &[u16] = &[0x03];
const TEXT: &[u16] = &[0x0d];
const BIGINT: &[u16] = &[0x02];
pub(super) const TEXTS: &[u16] = &[0x21, 0x0d, 0x0d];

pub(super) fn texts(entries: &[(&str, &str)]) -> Vec<u8> {
    let size = |length: usize| i32::try_from(length).unwrap().to_be_bytes();
    let string = |text: &str| [&size(text.len())[..], text.as_bytes()].concat();
    let entry = |(key, value): &(&str, &str)| [string(key), string(value)].concat();
    [&size(entries.len())[..], &entries.iter().flat_map(entry).collect::<Vec<_>>()].concat()
}

/// A column of a row: name, type, value.
type Column<'a> = (&'a str, &'a [u16], Option<&'a [u8]>);

/// The body of a RESULT frame with one row of `columns`.
pub(super) fn one_row(columns: &[Column<'_>]) -> Vec<u8> {
    let string = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    let count = i32::try_from(columns.len()).unwrap().to_be_bytes();
    // Rows, with one table for all columns.
    let mut body = [&2_i32.to_be_bytes()[..], &1_i32.to_be_bytes(), &count].concat();
    body.extend(string("handbill"));
    body.extend(string("pages"));
    for (name, kind, _) in columns {
        body.extend(string(name));
        body.extend(kind.iter().flat_map(|part| part.to_be_bytes()));
    }
    body.extend(1_i32.to_be_bytes());
    for (_, _, value) in columns {
        let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap());
        body.extend(length.to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    body
}

pub(super) fn answering(body: Vec<u8>) -> RequestReaction {
    let body: bytes::Bytes = body.into();
    RequestReaction::forge_response(Arc::new(move |frame| {
        ResponseFrame::new(frame.params.for_response(), ResponseOpcode::Result, body.clone())
    }))
}

#[tokio::test]
async fn a_verdict_is_found_in_scylladbs_answers_to_an_insert() {
    let mut proxied = proxied(PATIENT).await;
    let slug = "taken-22222222";
    for applied in [true, false] {
        // The old values: nulls if there was no row, else the row that was in the way.
        let old = |value: &'static [u8]| (!applied).then_some(value);
        let answer = one_row(&[
            ("[applied]", BOOLEAN, Some(&[u8::from(applied)])),
            ("slug", TEXT, old(slug.as_bytes())),
            ("revision", BIGINT, old(&[0, 0, 0, 0, 0, 0, 0, 1])),
            ("write_ids", BLOB, old(&[7; 16])),
        ]);
        let page = Arc::new(page("text"));
        let inserted = if applied { PutResult::Done } else { PutResult::Refused };
        if !applied {
            insert(&*store().await, page.clone()).await;
        }
        proxied.rules(vec![RequestRule(writes_of(&page.head.slug), answering(answer))], Vec::new());
        assert_eq!(insert(&*proxied.store, page).await, inserted);
    }
}

#[tokio::test]
async fn a_verdict_is_found_in_scylladbs_answers_to_an_update() {
    let mut proxied = proxied(PATIENT).await;
    let first = page("first");
    insert(&*proxied.store, Arc::new(first.clone())).await;
    let replaced = Record::Active(edited(&first, "next"));
    let buried = Record::Deleted(first.head.tombstone(UnixMillis::new(CREATED)));
    // Whether it was applied, and the revision of the row if there was one.
    for (applied, version, swapped) in
        [(true, Some(1_i64), PutResult::Done), (false, Some(9), PutResult::Refused), (false, None, PutResult::Refused)]
    {
        let version = version.map(i64::to_be_bytes);
        let answer = one_row(&[
            ("[applied]", BOOLEAN, Some(&[u8::from(applied)])),
            ("slug", TEXT, version.map(|_| first.head.slug.as_str().as_bytes())),
            ("revision", BIGINT, version.as_ref().map(<[u8; 8]>::as_slice)),
            ("write_ids", BLOB, version.map(|_| [7; 16].as_slice())),
        ]);
        proxied.rules(vec![RequestRule(writes_of(&first.head.slug), answering(answer))], Vec::new());
        for next in [replaced.clone(), buried.clone()] {
            assert_eq!(replace(&*proxied.store, &first.head, next).await, swapped);
        }
    }
}
