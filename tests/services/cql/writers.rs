//! Many writers of one page: no replica's writers make the database work in vain.
//!
//! `./tests/run --test services cql::writers -- --nocapture` prints the edits in a second of one writer, of 48 writers of
//! one replica and of 48 writers of three replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use handbill::web::Front;
use handbill_core::domain::page::Page;
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record};
use handbill_store_cql::{CqlStore, CqlTimeouts};
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use serde_json::json;

use super::server::proxied;
use super::traffic::{Traffic, publish, replica_over, send};
use crate::support::pages::edited;

/// Writers at once, as in the promise.
const WRITERS: usize = 48;

/// Edits of each measurement: one of each writer, all at once.
const EDITS: usize = WRITERS;

async fn found(store: &CqlStore, slug: &str) -> Arc<Page> {
    match store.lookup(&Slug::parse(slug).unwrap()).await.unwrap() {
        Lookup::Active(page) => page,
        other => panic!("{other:?}"),
    }
}

/// Replaces the text of a page as another replica does.
pub(crate) async fn change_behind_its_back(other: &CqlStore, slug: &str, content: &str) {
    let page = found(other, slug).await;
    let swapped = other.compare_and_set(page.head.version, Record::Active(edited(&page, content)), None).await;
    assert_eq!(swapped.unwrap(), CasResult::Swapped);
}

/// Deletes a page as another replica does.
pub(crate) async fn delete_behind_its_back(other: &CqlStore, slug: &str) {
    let page = found(other, slug).await;
    let tombstone = page.head.tombstone(UnixMillis::new(page.head.updated_at.get() + 1));
    let swapped = other.compare_and_set(page.head.version, Record::Deleted(tombstone), None).await;
    assert_eq!(swapped.unwrap(), CasResult::Swapped);
}

/// The answers to the edits of one measurement.
struct Edited {
    done: usize,
    refused: usize,
    a_second: f64,
    slowest: Duration,
}

impl Edited {
    fn report(&self, who: &str) {
        let Self { done, refused, a_second, slowest } = self;
        println!("{who}: {a_second:.0} edits/s, {done} done, {refused} times 503, the slowest took {slowest:?}");
    }
}

/// Lets `writers` edit one page, each through one of `replicas`, until [`EDITS`] edits were asked for.
async fn edit(replicas: &[Front], writers: usize, slug: &str, key: &str) -> Edited {
    let (asked, done, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let slowest = AtomicU64::new(0);
    let authorization = format!("Bearer {key}");
    let began = Instant::now();
    let work = async |writer: usize| loop {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        if number >= EDITS {
            return;
        }
        let fields = [(AUTHORIZATION, authorization.as_str())];
        let body = json!({"content": format!("edit {number}")});
        let path = format!("/api/pages/{slug}");
        let sent = Instant::now();
        let answer = send(&replicas[writer % replicas.len()], Method::PATCH, &path, &fields, Some(body)).await;
        slowest.fetch_max(u64::try_from(sent.elapsed().as_millis()).unwrap(), Ordering::Relaxed);
        match answer.status() {
            StatusCode::OK => done.fetch_add(1, Ordering::Relaxed),
            // A slow machine may not do 48 writes in the time that a request has.
            StatusCode::SERVICE_UNAVAILABLE => refused.fetch_add(1, Ordering::Relaxed),
            _ => panic!("{answer:?}"),
        };
    };
    let work = &work;
    join_all((0..writers).map(work)).await;
    let [done, refused] = [done, refused].map(AtomicUsize::into_inner);
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    let a_second = done as f64 / began.elapsed().as_secs_f64();
    Edited { done, refused, a_second, slowest: Duration::from_millis(slowest.into_inner()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_one_page_in_one_replica_lose_no_conditional_write_to_each_other() {
    // Stores with the limits that a service has.
    let mut one = proxied(CqlTimeouts::default()).await;
    let others = [proxied(CqlTimeouts::default()).await, proxied(CqlTimeouts::default()).await];
    let replicas = [replica_over(&one), replica_over(&others[0]), replica_over(&others[1])];
    let (slug, key) = publish(&replicas[0], "text").await;

    let alone = edit(&replicas[..1], 1, &slug, &key).await;
    alone.report("one writer");
    assert!(alone.done > 0);

    let mut traffic = Traffic::of(&mut one);
    let together = edit(&replicas[..1], WRITERS, &slug, &key).await;
    together.report("48 writers of one replica");
    let conditional = traffic.take_those_with(&[slug.as_str(), "active"]).requests;
    one.be_honest();
    assert!(together.done > 0);

    let apart = edit(&replicas, WRITERS, &slug, &key).await;
    apart.report("48 writers of three replicas");
    assert!(apart.done > 0);

    let [near, far] = [&together, &apart].map(|edited| edited.a_second / alone.a_second);
    println!("in proportion to one writer: {near:.2} in one replica, {far:.2} in three");
    // A 503 may have been done, and a writer that has waited too long goes on without a turn.
    if together.refused == 0 && together.slowest < Duration::from_secs(1) {
        assert_eq!(conditional, together.done, "a conditional write was lost to a writer of the same replica");
    }
    if together.refused + apart.refused == 0 {
        let version = found(&one.store, &slug).await.head.version.get();
        assert_eq!(version, 1 + u64::try_from(alone.done + together.done + apart.done).unwrap());
    }
}
