//! Three pages that everybody wants, and of which no node answers: readers and writers of other pages do not notice.
//!
//! `./tests/run --test services cluster::hung_partition -- --nocapture` prints how long readers of other pages wait over
//! HTTP, alone and beside the three pages.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use futures_util::future::join_all;
use handbill::app::Deps;
use handbill::http::drain::Phase;
use handbill::http::listener::{Limits, ListenerMetrics, serve};
use handbill_pages::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record};
use handbill_pages::values::page::Page;
use handbill_pages::values::slug::Slug;
use handbill_store_scylla::{Limits as StoreLimits, ScyllaStore};
use http::{Request, StatusCode};
use scylla::client::session::Session;
use scylla_proxy::{Reaction, RequestReaction, RequestRule, RunningProxy};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::nodes::Nodes;
use crate::deployment::keyspace;
use crate::linearizability::histories::transport::{Connection, Network, Transport};
use crate::scylla::faults::requests_with;
use crate::scylla::server::{proxied_session, store_in};
use crate::support::pages::{edited, page, page_at, slug};
use crate::unlimited;

/// The limits of a service, but with enough time on any machine. Only an operation that gets no permit fails.
const LIMITS: StoreLimits = StoreLimits {
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
            assert_eq!(store.insert_if_absent(page, None).await.unwrap(), InsertResult::Inserted);
        }
        Self { session, proxy, keyspace, hot, sick, others, _nodes: nodes }
    }

    async fn store(&self, limits: StoreLimits) -> Arc<ScyllaStore> {
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
async fn hung_hot_pages_cost_other_pages_nothing() {
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
            tokio::spawn(async move { drop(store.insert_if_absent(Arc::new(hot), None).await) })
        })
        .collect();
    join_all(pages.others.iter().cloned().map(|other| {
        let store = Arc::clone(&store);
        async move {
            let mut present = other;
            for round in 0..5 {
                assert_eq!(store.lookup(&present.head.slug).await.unwrap(), Lookup::Active(present.clone()));
                let next = edited(&present, &format!("round {round}"));
                let swapped = store.compare_and_set(present.head.version, Record::Active(next.clone()), None).await;
                assert_eq!(swapped.unwrap(), CasResult::Swapped);
                present = next;
            }
        }
    }))
    .await;
    let fresh = Arc::new(page("a page that is published meanwhile"));
    if !pages.sick.contains(&range(&pages.session, &pages.keyspace, &fresh.head.slug)) {
        assert_eq!(store.insert_if_absent(fresh, None).await.unwrap(), InsertResult::Inserted);
    }
    assert!(readers.iter().all(|reader| !reader.is_finished()), "no node answers for the hot pages");
    for task in readers.into_iter().chain(writers) {
        task.abort();
    }
}

/// Reads of other pages in each measurement, and how many clients send them, one after the other.
const READS: usize = 400;
const CLIENTS: usize = 8;

/// Clients that want the three pages, and how long one that was refused waits. With a shorter time they would take the CPU.
const HOT_CLIENTS: usize = 150;
const BEFORE_NEXT_TRY: Duration = Duration::from_secs(1);

/// On a machine where a read takes longer, reads may fail for that reason.
const SLOW: Duration = Duration::from_millis(500);

/// A replica over `store`, on a port of this machine, until it is told to stop.
async fn listening(store: Arc<ScyllaStore>) -> (SocketAddr, watch::Sender<Phase>) {
    let app = unlimited::front(store, &Deps::system());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (phase, phases) = watch::channel(Phase::Serving);
    tokio::spawn(serve(listener, app, Limits::of(1000, &[]), ListenerMetrics::default(), phases));
    (address, phase)
}

/// One read: its status, and how long it took.
async fn read(connection: &mut dyn Connection, slug: &Slug) -> (StatusCode, Duration) {
    let request = Request::builder().uri(format!("/api/pages/{slug}")).body(Bytes::new()).unwrap();
    let sent = Instant::now();
    let status = connection.send(request).await.map_or(StatusCode::GATEWAY_TIMEOUT, |answer| answer.status());
    (status, sent.elapsed())
}

/// Reads `pages`, and prints how long a read took. Returns how many reads failed for another reason than a slow machine.
async fn read_others(replica: SocketAddr, pages: &[Arc<Page>], reads: usize, who: &str) -> usize {
    let sent = AtomicUsize::new(0);
    let sent = &sent;
    let clients = (0..CLIENTS).map(async |client| {
        let mut connection = Network { public: vec![replica], operators: Vec::new() }.connect(client);
        let mut answers = Vec::new();
        loop {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            if number >= reads {
                return answers;
            }
            answers.push(read(&mut *connection, &pages[number % pages.len()].head.slug).await);
        }
    });
    let answers = join_all(clients).await.concat();
    let mut took: Vec<Duration> = answers.iter().map(|(_, took)| *took).collect();
    took.sort_unstable();
    let (half, most) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    let failed: Vec<_> = answers.iter().filter(|(status, _)| *status != StatusCode::OK).collect();
    println!("{who}: p50 {half:?}, p99 {most:?}, {} of {reads} reads failed", failed.len());
    let is_slow = answers.iter().any(|(status, took)| *status == StatusCode::OK && *took > SLOW);
    if is_slow { 0 } else { failed.len() }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_hung_hot_pages_refuse_no_reader_of_other_pages() {
    let mut pages = Pages::stored().await;
    let (replica, phase) = listening(pages.store(StoreLimits::default()).await).await;
    // The first reads connect, and read the pages' texts.
    read_others(replica, &pages.others, CLIENTS * pages.others.len(), "readers of other pages, at first").await;
    assert_eq!(read_others(replica, &pages.others, READS, "readers of other pages, alone").await, 0);
    pages.silence();
    let answered = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let hot: Vec<_> = (0..HOT_CLIENTS)
        .map(|client| {
            let (slug, answered) = (pages.hot[client % 3].clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut connection = Network { public: vec![replica], operators: Vec::new() }.connect(client);
                loop {
                    let (status, _) = read(&mut *connection, &slug).await;
                    answered[usize::from(status != StatusCode::OK)].fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(BEFORE_NEXT_TRY).await;
                }
            })
        })
        .collect();
    let refused = read_others(replica, &pages.others, READS, "readers of other pages, beside three hung ones").await;
    hot.iter().for_each(JoinHandle::abort);
    let [shown, failed] = answered.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("readers of the three pages: {shown} times 200, {failed} times an error");
    assert_eq!((refused, shown), (0, 0));
    phase.send_replace(Phase::Stopping);
}
