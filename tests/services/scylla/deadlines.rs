//! A store that is told by when the answer to a write is needed.

use std::sync::Arc;
use std::time::Duration;

use handbill_pages::ports::page_store::{Expected, Lookup, PageStore, PutResult, Record, StoreError};
use scylla_proxy::{Reaction, RequestReaction, RequestRule};
use tokio::time::Instant;

use super::faults::requests_with;
use super::server::{PATIENT, proxied};
use super::traffic::Traffic;
use crate::support::pages::{edited, page};

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_in_time_is_not_sent() {
    let mut proxied = proxied(PATIENT).await;
    let page = Arc::new(page("first"));
    assert_eq!(proxied.store.put(Expected::Absent, Record::Active(page.clone()), None).await.unwrap(), PutResult::Done);
    let edit = || Record::Active(edited(&page, "second"));

    let mut traffic = Traffic::of(&mut proxied);
    let store = Arc::clone(&proxied.store);
    let too_late = store.put(Expected::Version(page.head.version), edit(), Some(Instant::now())).await;
    assert!(matches!(too_late, Err(StoreError::Unavailable(_))), "{too_late:?}");
    assert_eq!(traffic.take_those_with(&[page.head.slug.as_str()]).requests, 0);

    let silence = RequestRule(requests_with(page.head.slug.as_str()), RequestReaction::drop_frame());
    proxied.rules(vec![silence], Vec::new());
    let began = Instant::now();
    let needed_by = Some(began + Duration::from_secs(1));
    let unanswered = store.put(Expected::Version(page.head.version), edit(), needed_by).await;
    assert!(matches!(unanswered, Err(StoreError::Unavailable(_))), "{unanswered:?}");
    assert!(began.elapsed() < PATIENT.attempt, "the store's own limits are longer: {:?}", began.elapsed());
    proxied.rules(Vec::new(), Vec::new());
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
}
