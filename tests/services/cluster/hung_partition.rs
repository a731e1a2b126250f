//! Three pages that everybody wants, and of which no node answers: readers and writers of other pages do not notice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures_util::future::join_all;
use handbill::backends::cql::CqlTimeouts;
use handbill::config::CqlSettings;
use handbill::domain::slug::Slug;
use handbill::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record};
use scylla::client::session::Session;
use scylla_proxy::{Reaction, RequestReaction, RequestRule};

use super::nodes::Nodes;
use crate::cql::faults::requests_with;
use crate::cql::server::{proxied_session, store_in};
use crate::deployment::migrated;
use crate::support::pages::{edited, page, page_at, slug};

/// The limits of a service, but with enough time on any machine. Only an operation that gets no permit fails.
const LIMITS: CqlTimeouts = CqlTimeouts {
    operation: Duration::from_mins(2),
    attempt: Duration::from_mins(2),
    permit: Duration::from_mins(1),
    in_flight: 64,
    share_percent: 25,
    silent_after: Duration::from_secs(1),
    refused_for: Duration::from_millis(250),
};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: CqlSettings,
}

/// The token range of `slug`, as the store counts them.
fn range(session: &Session, keyspace: &str, slug: &Slug) -> i64 {
    session.get_cluster_state().compute_token(keyspace, "pages", &(slug.as_str(),)).unwrap().value() >> 58
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hot_pages_that_no_node_answers_cost_readers_and_writers_of_other_pages_nothing() {
    let nodes = Nodes::all().await;
    let keyspace = migrated(nodes.shared(), "hung").await;
    let addresses = nodes.shared().addresses();
    let line = ["handbill", "--scylla-nodes", &addresses, "--scylla-keyspace", &keyspace];
    let settings = Line::try_parse_from(line).unwrap().settings;
    let (session, mut proxy) = proxied_session(&settings, 3).await;
    session.refresh_metadata().await.unwrap();
    let store = store_in(Arc::clone(&session), &keyspace, LIMITS).await;

    let hot: Vec<Slug> = (0..3).map(|_| slug()).collect();
    let sick: HashSet<i64> = hot.iter().map(|slug| range(&session, &keyspace, slug)).collect();
    let mut others = Vec::new();
    while others.len() < 20 {
        let slug = slug();
        if !sick.contains(&range(&session, &keyspace, &slug)) {
            let other = Arc::new(page_at(slug, "text"));
            assert_eq!(store.insert_if_absent(other.clone()).await.unwrap(), InsertResult::Inserted);
            others.push(other);
        }
    }
    for slug in &hot {
        let page = Arc::new(page_at(slug.clone(), "hot"));
        assert_eq!(store.insert_if_absent(page).await.unwrap(), InsertResult::Inserted);
    }

    let silence = || hot.iter().map(|slug| RequestRule(requests_with(slug.as_str()), RequestReaction::drop_frame()));
    for node in &mut proxy.running_nodes {
        node.change_request_rules(Some(silence().collect()));
    }
    // Each of the three pages alone would take every permit.
    let readers: Vec<_> = (0..300)
        .map(|reader: usize| {
            let (store, slug) = (Arc::clone(&store), hot[reader % 3].clone());
            tokio::spawn(async move {
                while store.lookup(&slug).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        })
        .collect();
    // Writers of the hot pages hang too.
    let writers: Vec<_> = (0..200)
        .map(|writer: usize| {
            let (store, hot) = (Arc::clone(&store), page_at(hot[writer % 3].clone(), "hot"));
            tokio::spawn(async move { drop(store.insert_if_absent(Arc::new(hot)).await) })
        })
        .collect();
    join_all(others.into_iter().map(|other| {
        let store = Arc::clone(&store);
        async move {
            let mut present = other;
            for round in 0..5 {
                assert_eq!(store.lookup(&present.slug).await.unwrap(), Lookup::Active(present.clone()));
                let next = edited(&present, &format!("round {round}"));
                let swapped = store.compare_and_set(present.version, Record::Active(next.clone())).await;
                assert_eq!(swapped.unwrap(), CasResult::Swapped);
                present = next;
            }
        }
    }))
    .await;
    let fresh = Arc::new(page("a page that is published meanwhile"));
    if !sick.contains(&range(&session, &keyspace, &fresh.slug)) {
        assert_eq!(store.insert_if_absent(fresh).await.unwrap(), InsertResult::Inserted);
    }
    assert!(readers.iter().all(|reader| !reader.is_finished()), "no node answers for the hot pages");
    for task in readers.into_iter().chain(writers) {
        task.abort();
    }
}
