//! Three pages that everybody wants, and of which no node answers: readers and writers of other pages do not notice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures_util::future::join_all;
use handbill_pages::ports::page_store::{Expected, Lookup, PageStore, PutResult, Record};
use handbill_pages::values::page::Page;
use handbill_pages::values::slug::Slug;
use handbill_store_scylla::{Limits, ScyllaStore};
use scylla::client::session::Session;
use scylla_proxy::{Reaction, RequestReaction, RequestRule, RunningProxy};

use super::nodes::Nodes;
use crate::deployment::keyspace;
use crate::scylla::faults::requests_with;
use crate::scylla::server::{proxied_session, store_in};
use crate::support::pages::{edited, page, page_at, slug};

/// The limits of a service, but with enough time on any machine. Only an operation that gets no permit fails.
const LIMITS: Limits = Limits {
    operation: Duration::from_mins(2),
    attempt: Duration::from_mins(2),
    permit: Duration::from_mins(1),
    reads: 512,
    writes: 64,
    ranges: 1,
};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: handbill::settings::ScyllaSettings,
}

/// The token range of `slug`, as the store counts them.
fn range(session: &Session, keyspace: &str, slug: &Slug) -> i64 {
    session.get_cluster_state().compute_token(keyspace, "pages", &(slug.as_str(),)).unwrap().value() >> 58
}

/// Three pages, and twenty others that are in none of their token ranges.
struct Pages {
    session: Arc<Session>,
    proxy: RunningProxy,
    keyspace: String,
    hot: Vec<Slug>,
    sick: HashSet<i64>,
    others: Vec<Arc<Page>>,
    _nodes: Nodes,
}

impl Pages {
    async fn stored() -> Self {
        let nodes = Nodes::all().await;
        let keyspace = keyspace(nodes.shared()).await;
        let addresses = nodes.shared().addresses();
        let line = ["handbill", "--scylla-nodes", &addresses, "--scylla-keyspace", &keyspace];
        let settings = Line::try_parse_from(line).unwrap().settings.store();
        let (session, proxy) = proxied_session(&settings, 3).await;
        session.refresh_metadata().await.unwrap();
        let store = store_in(Arc::clone(&session), &keyspace, LIMITS).await;

        let hot: Vec<Slug> = (0..3).map(|_| slug()).collect();
        let sick: HashSet<i64> = hot.iter().map(|slug| range(&session, &keyspace, slug)).collect();
        let mut others = Vec::new();
        while others.len() < 20 {
            let slug = slug();
            if !sick.contains(&range(&session, &keyspace, &slug)) {
                others.push(Arc::new(page_at(slug, "text")));
            }
        }
        for page in hot.iter().map(|slug| Arc::new(page_at(slug.clone(), "hot"))).chain(others.iter().cloned()) {
            assert_eq!(store.put(Expected::Absent, Record::Active(page), None).await.unwrap(), PutResult::Done);
        }
        Self { session, proxy, keyspace, hot, sick, others, _nodes: nodes }
    }

    async fn store(&self, limits: Limits) -> Arc<ScyllaStore> {
        store_in(Arc::clone(&self.session), &self.keyspace, limits).await
    }

    /// No node answers for the three pages from now on.
    fn silence(&mut self) {
        let silence =
            || self.hot.iter().map(|slug| RequestRule(requests_with(slug.as_str()), RequestReaction::drop_frame()));
        for node in &mut self.proxy.running_nodes {
            node.change_request_rules(Some(silence().collect()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hung_pages_cost_other_pages_nothing() {
    let mut pages = Pages::stored().await;
    let store = pages.store(LIMITS).await;
    pages.silence();
    let hot = &pages.hot;
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
    let writers: Vec<_> = (0..32)
        .map(|writer: usize| {
            let (store, hot) = (Arc::clone(&store), page_at(hot[writer % 3].clone(), "hot"));
            tokio::spawn(async move { drop(store.put(Expected::Absent, Record::Active(Arc::new(hot)), None).await) })
        })
        .collect();
    join_all(pages.others.iter().cloned().map(|other| {
        let store = Arc::clone(&store);
        async move {
            let mut present = other;
            for round in 0..5 {
                assert_eq!(store.lookup(&present.head.slug).await.unwrap(), Lookup::Active(present.clone()));
                let next = edited(&present, &format!("round {round}"));
                let swapped =
                    store.put(Expected::Version(present.head.version), Record::Active(next.clone()), None).await;
                assert_eq!(swapped.unwrap(), PutResult::Done);
                present = next;
            }
        }
    }))
    .await;
    let fresh = Arc::new(page("a page that is published meanwhile"));
    if !pages.sick.contains(&range(&pages.session, &pages.keyspace, &fresh.head.slug)) {
        assert_eq!(store.put(Expected::Absent, Record::Active(fresh), None).await.unwrap(), PutResult::Done);
    }
    assert!(readers.iter().all(|reader| !reader.is_finished()), "no node answers for the hot pages");
    for task in readers.into_iter().chain(writers) {
        task.abort();
    }
}
