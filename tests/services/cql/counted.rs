//! The instruments of a store on a real server: each operation counts under its own label.

use std::sync::Arc;
use std::time::Duration;

use handbill_core::ports::page_store::{InsertResult, Lookup, PageStore, StoreError};
use handbill_core::ports::random::Random;
use handbill_store_cql::metrics::{ClusterMetrics, PermitLabels, RetryLabels, UnsentLabels};
use handbill_store_cql::{CqlStore, CqlTimeouts};
use scylla_proxy::{Reaction, RequestReaction, RequestRule, example_db_errors};

use super::faults::{next_request_with, requests_with};
use super::server::{PATIENT, Proxied, migrated_keyspace, proxied_session, settings};
use crate::support::pages::page;

/// The present numbers: running reads and writes, refused reads and writes, and retries.
fn counted(metrics: &ClusterMetrics) -> ([i64; 2], [u64; 2], u64) {
    let each = ["read", "write"];
    let running = each.map(|operation| metrics.in_flight.get_or_create(&PermitLabels { operation }).get());
    let refused =
        each.map(|operation| metrics.unsent.get_or_create(&UnsentLabels { operation, reason: "no_permit" }).get());
    (running, refused, metrics.retries.get_or_create(&RetryLabels { outcome: "sent" }).get())
}

#[tokio::test]
async fn what_runs_and_what_is_refused_or_sent_again_is_counted_for_reads_and_for_writes() {
    let keyspace = migrated_keyspace().await;
    let (through_proxy, proxy) = proxied_session(&settings(keyspace, &[]), 1).await;
    let limits = CqlTimeouts { in_flight: 1, permit: Duration::from_millis(50), ..PATIENT };
    let store = CqlStore::on(through_proxy, keyspace, Random::System, limits).await.unwrap();
    let metrics = ClusterMetrics::default();
    let store = Arc::new(store.observed_by(&metrics));
    let mut proxied = Proxied { store: Arc::clone(&store), proxy };

    let (first, second) = (Arc::new(page("first text")), Arc::new(page("second text")));
    let mut looked = proxied.swallow_the_next_write(&first.head.slug, "first text").await;
    let (running, refused, _) = counted(&metrics);
    assert_eq!((running, refused), ([0, 0], [0, 0]));
    let (inserting, inserted) = (Arc::clone(&store), first.clone());
    let inserting = tokio::spawn(async move { inserting.insert_if_absent(inserted, None).await });
    looked.recv().await.unwrap();
    assert_eq!(counted(&metrics).0, [0, 1]);
    let refused = store.insert_if_absent(second.clone(), None).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let (running, refused, retries) = counted(&metrics);
    assert_eq!((running, refused), ([0, 1], [0, 1]));
    proxied.be_honest();
    assert_eq!(inserting.await.unwrap().unwrap(), InsertResult::Inserted);
    let after_the_write = counted(&metrics);
    assert_eq!((after_the_write.0, after_the_write.1), ([0, 0], [0, 1]));
    assert!(after_the_write.2 > retries, "the write was sent again");

    let (tell, mut reading) = tokio::sync::mpsc::unbounded_channel();
    let slow = RequestReaction::delay(Duration::from_millis(400)).with_feedback_when_performed(tell);
    proxied.rules(vec![RequestRule(requests_with(first.head.slug.as_str()), slow)], Vec::new());
    let looking = tokio::spawn({
        let (store, slug) = (Arc::clone(&store), first.head.slug.clone());
        async move { store.lookup(&slug).await }
    });
    reading.recv().await.unwrap();
    assert_eq!(counted(&metrics).0, [1, 0]);
    let refused = store.lookup(&second.head.slug).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(counted(&metrics).1, [1, 1]);
    assert_eq!(looking.await.unwrap().unwrap(), Lookup::Active(first.clone()));

    let before = counted(&metrics).2;
    let refuse = RequestReaction::forge_with_error(example_db_errors::server_error());
    proxied.rules(vec![RequestRule(next_request_with(first.head.slug.as_str()), refuse)], Vec::new());
    assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Lookup::Active(first));
    let after = counted(&metrics);
    assert_eq!(after.0, [0, 0]);
    assert!(after.2 > before, "the read was sent again");
}
