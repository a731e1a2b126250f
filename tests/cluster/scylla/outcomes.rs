//! Writes with an unknown outcome, and how the store finds the outcome, on a real server behind a proxy that lies.

use std::sync::Arc;
use std::time::Duration;

use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::head::{PageHead, PageVersion};
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_store_scylla::{Limits, ScyllaStore};
use handbill_test_support::pages::{CREATED, edited, insert, page, page_at, replace, slug};
use scylla_proxy::{Reaction, RequestReaction, RequestRule};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;

use super::faults::{DbError, next_write_of, paxos_timeout, requests_with};
use super::server::{PATIENT, Proxied, proxied, store};

/// The store stops waiting for a lost answer after this time. Nothing else in these tests may take this long.
const GIVING_UP_SOON: Limits = Limits { attempt: Duration::from_millis(400), ..PATIENT };

async fn inserted(store: &ScyllaStore, content: &str) -> Arc<Page> {
    let page = Arc::new(page(content));
    assert_eq!(insert(store, page.clone()).await, PutResult::Done);
    page
}

fn setting(proxied: &Proxied, head: &PageHead, next: Record) -> JoinHandle<Result<PutResult, StoreError>> {
    let (store, expected) = (proxied.store.clone(), Expected::page(head));
    tokio::spawn(async move { store.put(expected, next, None).await })
}

/// Inserts, replaces and deletes a page, each after `lie`, and expects that each is done once.
async fn every_write_is_done_once(mut proxied: Proxied, lie: impl Fn(&mut Proxied, &Page)) {
    let first = Arc::new(page("first text"));
    lie(&mut proxied, &first);
    assert_eq!(insert(&*proxied.store, first.clone()).await, PutResult::Done);
    assert_eq!(proxied.store.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(first.clone())));

    let next = edited(&first, "next text");
    lie(&mut proxied, &next);
    let swapped = replace(&*proxied.store, &first.head, Record::Active(next.clone())).await;
    assert_eq!(swapped, PutResult::Done);
    assert_eq!(proxied.store.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(next.clone())));

    let tombstone = next.head.tombstone(UnixMillis::new(CREATED + 9));
    lie(&mut proxied, &next);
    let swapped = replace(&*proxied.store, &next.head, Record::Deleted(tombstone.clone())).await;
    assert_eq!(swapped, PutResult::Done);
    assert_eq!(proxied.store.lookup(&first.head.slug).await.unwrap(), Some(Record::Deleted(tombstone)));
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_done() {
    every_write_is_done_once(proxied(GIVING_UP_SOON).await, |proxied, _| proxied.lose_the_next_verdict()).await;
}

#[tokio::test]
async fn a_write_that_was_applied_and_answered_by_a_timeout_is_done() {
    every_write_is_done_once(proxied(PATIENT).await, |proxied, _| proxied.deny_the_next_verdict()).await;
}

#[tokio::test]
async fn a_write_whose_connection_breaks_before_the_answer_is_done() {
    every_write_is_done_once(proxied(PATIENT).await, |proxied, _| proxied.break_the_connection_at_the_next_verdict())
        .await;
}

#[tokio::test]
async fn a_write_that_never_arrived_is_sent_again() {
    let swallow = |proxied: &mut Proxied, page: &Page| {
        let rule = RequestRule(next_write_of(&page.head.slug), RequestReaction::drop_frame());
        proxied.rules(vec![rule], Vec::new());
    };
    every_write_is_done_once(proxied(GIVING_UP_SOON).await, swallow).await;
}

#[tokio::test]
async fn a_write_that_arrives_after_it_was_looked_for_is_done_once() {
    // The first attempt arrives after the store has given it up and not found its effect. The second arrives after the first,
    // and is refused because of it.
    let delay = |proxied: &mut Proxied, page: &Page| {
        let late = |after| {
            let delayed = RequestReaction::delay(GIVING_UP_SOON.attempt * after / 4);
            RequestRule(next_write_of(&page.head.slug), delayed)
        };
        proxied.rules(vec![late(6), late(3)], Vec::new());
    };
    every_write_is_done_once(proxied(GIVING_UP_SOON).await, delay).await;
}

#[tokio::test]
async fn a_write_that_a_node_refused_for_now_is_sent_again() {
    let refuse = |proxied: &mut Proxied, page: &Page| {
        let starting = RequestReaction::forge_with_error(DbError::IsBootstrapping);
        proxied.rules(vec![RequestRule(next_write_of(&page.head.slug), starting)], Vec::new());
    };
    every_write_is_done_once(proxied(PATIENT).await, refuse).await;
}

/// After a write that was applied without an answer, `others` more writes come before the store reads the outcome back.
async fn overtaken(others: u64) -> (Result<PutResult, StoreError>, PageVersion) {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let first = inserted(&other, "first text").await;
    let ours = edited(&first, "our text");
    let mut looked = proxied.apply_the_next_write_in_secret(&first.head.slug);
    let setting = setting(&proxied, &first.head, Record::Active(ours.clone()));
    looked.recv().await.unwrap();

    let mut page = ours;
    for round in 0..others {
        let next = edited(&page, &format!("another text {round}"));
        let swapped = replace(&*other, &page.head, Record::Active(next.clone())).await;
        assert_eq!(swapped, PutResult::Done, "ours was applied");
        page = next;
    }
    proxied.be_honest();
    let outcome = setting.await.unwrap();
    let found = other.lookup(&page.head.slug).await.unwrap();
    assert_eq!(found, Some(Record::Active(page.clone())), "nothing was written after them");
    (outcome, page.head.version)
}

#[tokio::test]
async fn a_write_that_others_came_after_is_done() {
    let (outcome, version) = overtaken(1).await;
    assert_eq!(outcome.unwrap(), PutResult::Done);
    assert_eq!(version.get(), 3);
    assert_eq!(overtaken(7).await.0.unwrap(), PutResult::Done);
}

#[tokio::test]
async fn a_write_of_unknown_outcome_that_another_beat_is_stale() {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let first = inserted(&other, "first text").await;
    let mut looked = proxied.swallow_the_next_write(&first.head.slug);
    let setting = setting(&proxied, &first.head, Record::Active(edited(&first, "our text")));
    looked.recv().await.unwrap();
    let theirs = edited(&first, "their text");
    replace(&*other, &first.head, Record::Active(theirs.clone())).await;
    proxied.be_honest();
    assert_eq!(setting.await.unwrap().unwrap(), PutResult::Refused);
    assert_eq!(other.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(theirs)));
}

#[tokio::test]
async fn an_insert_of_unknown_outcome_is_done_after_many_changes() {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let ours = Arc::new(page("our text"));
    let mut looked = proxied.apply_the_next_write_in_secret(&ours.head.slug);
    let (store, inserting) = (proxied.store.clone(), ours.clone());
    let inserting = tokio::spawn(async move { store.put(Expected::Absent, Record::Active(inserting), None).await });
    looked.recv().await.unwrap();
    let newest = often_edited(&other, ours).await;
    proxied.be_honest();
    assert_eq!(inserting.await.unwrap().unwrap(), PutResult::Done);
    assert_eq!(other.lookup(&newest.head.slug).await.unwrap(), Some(Record::Active(newest)));
}

#[tokio::test]
async fn an_insert_of_unknown_outcome_is_refused_if_it_was_there() {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let first = inserted(&other, "first text").await;
    let newest = often_edited(&other, first.clone()).await;
    let timeout = RequestReaction::forge_with_error(paxos_timeout());
    proxied.rules(vec![RequestRule(next_write_of(&first.head.slug), timeout)], Vec::new());
    let again = proxied.store.put(Expected::Absent, Record::Active(first), None).await;
    assert_eq!(again.unwrap(), PutResult::Refused);
    assert_eq!(other.lookup(&newest.head.slug).await.unwrap(), Some(Record::Active(newest)));
}

/// The page after more edits than a row has ids of.
async fn often_edited(store: &ScyllaStore, mut page: Arc<Page>) -> Arc<Page> {
    for round in 0..12 {
        let next = edited(&page, &format!("another text {round}"));
        let swapped = replace(store, &page.head, Record::Active(next.clone())).await;
        assert_eq!(swapped, PutResult::Done);
        page = next;
    }
    page
}

#[tokio::test]
async fn an_insert_of_unknown_outcome_is_refused_if_another_won() {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let ours = Arc::new(page("our text"));
    let theirs = Arc::new(page_at(ours.head.slug.clone(), "their text"));
    let mut looked = proxied.swallow_the_next_write(&ours.head.slug);
    let store = proxied.store.clone();
    let inserting = tokio::spawn(async move { store.put(Expected::Absent, Record::Active(ours), None).await });
    looked.recv().await.unwrap();
    assert_eq!(insert(&*other, theirs.clone()).await, PutResult::Done);
    proxied.be_honest();
    assert_eq!(inserting.await.unwrap().unwrap(), PutResult::Refused);
    assert_eq!(other.lookup(&theirs.head.slug).await.unwrap(), Some(Record::Active(theirs)));
}

#[tokio::test]
async fn an_operation_ends_within_its_time_when_nothing_answers() {
    let limits = Limits { operation: Duration::from_millis(600), attempt: Duration::from_millis(200), ..PATIENT };
    let mut proxied = proxied(limits).await;
    let page = Arc::new(page("text"));
    let silence = RequestRule(requests_with(page.head.slug.as_str()), RequestReaction::drop_frame());
    proxied.rules(vec![silence], Vec::new());
    let found = proxied.store.lookup(&page.head.slug).await;
    assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
    let inserted = proxied.store.put(Expected::Absent, Record::Active(page), None).await;
    assert!(matches!(inserted, Err(StoreError::OutcomeUnknown(_))), "{inserted:?}");
}

#[tokio::test]
async fn too_many_calls_at_once_are_refused_and_never_sent() {
    let limits = Limits { writes: 1, permit: Duration::from_millis(50), ..PATIENT };
    let mut proxied = proxied(limits).await;
    let (first, second) = (page("first text"), Arc::new(page("second text")));
    let mut looked = proxied.swallow_the_next_write(&first.head.slug);
    let store = proxied.store.clone();
    let inserting =
        tokio::spawn(async move { store.put(Expected::Absent, Record::Active(Arc::new(first)), None).await });
    looked.recv().await.unwrap();
    let refused = proxied.store.put(Expected::Absent, Record::Active(second.clone()), None).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    proxied.be_honest();
    assert_eq!(inserting.await.unwrap().unwrap(), PutResult::Done);
    assert_eq!(proxied.store.lookup(&second.head.slug).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hung_pages_cost_other_pages_nothing() {
    // The permits of a service, with enough time on any machine: only an operation without a permit fails.
    let Limits { reads, writes, .. } = Limits::OF_REQUESTS;
    let mut proxied = proxied(Limits { reads, writes, ..PATIENT }).await;
    let mut present = inserted(&proxied.store, "text").await;
    let hot = [slug(), slug(), slug()];
    let (tell, mut silenced) = unbounded_channel();
    let silence = |slug: &Slug| {
        let drop_frame = RequestReaction::drop_frame().with_feedback_when_performed(tell.clone());
        RequestRule(requests_with(slug.as_str()), drop_frame)
    };
    proxied.rules(hot.iter().map(silence).collect(), Vec::new());
    let hanging: Vec<_> = (0..332)
        .map(|number: usize| {
            let (store, slug) = (proxied.store.clone(), hot[number % 3].clone());
            tokio::spawn(async move {
                if number < 300 {
                    drop(store.lookup(&slug).await);
                } else {
                    insert(&*store, Arc::new(page_at(slug, "hot"))).await;
                }
            })
        })
        .collect();
    for _ in 0..hanging.len() {
        silenced.recv().await.unwrap();
    }
    for round in 0..5 {
        assert_eq!(proxied.store.lookup(&present.head.slug).await.unwrap(), Some(Record::Active(present.clone())));
        let next = edited(&present, &format!("round {round}"));
        let next_record = Record::Active(next.clone());
        assert_eq!(replace(&*proxied.store, &present.head, next_record).await, PutResult::Done);
        present = next;
    }
    inserted(&proxied.store, "a page that is published meanwhile").await;
    assert!(hanging.iter().all(|task| !task.is_finished()), "no node answers for the hot pages");
    hanging.iter().for_each(JoinHandle::abort);
}
