//! The cost of a request for the database: its queries and the bytes of the answers, counted by the proxy between them.

use std::sync::Arc;

use bytes::Bytes;
use handbill::backends::single_flight_store::SingleFlightStore;
use handbill::http::Front;
use handbill::telemetry::metrics::Metrics;
use handbill_core::domain::page::Page;
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record};
use handbill_store_scylla::ScyllaStore;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH};
use http::{Method, Request, Response, StatusCode};
use scylla_proxy::{
    Condition, Reaction, RequestFrame, RequestOpcode, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode,
    ResponseReaction, ResponseRule, TargetShard,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::server::{PATIENT, Proxied, proxied, store};
use crate::linearizability::histories::transport::Transport;
use crate::linearizability::in_process::InProcess;
use crate::linearizability::replica;
use crate::support::pages::edited;

/// Bytes of the header of each frame of CQL.
const FRAME_HEADER_BYTES: usize = 9;

/// The frames that pass the proxy, apart from the connection by which the driver watches the cluster.
pub(crate) struct Traffic {
    requests: UnboundedReceiver<(RequestFrame, Option<TargetShard>)>,
    answers: UnboundedReceiver<(ResponseFrame, Option<TargetShard>)>,
}

/// The traffic since the last count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) requests: usize,
    pub(crate) answer_bytes: usize,
}

impl Traffic {
    /// Counts what passes `proxied` from now on.
    pub(crate) fn of(proxied: &mut Proxied) -> Self {
        let (tell_request, requests) = unbounded_channel();
        let (tell_answer, answers) = unbounded_channel();
        let is_ours = || Condition::not(Condition::ConnectionRegisteredAnyEvent);
        let requested = Condition::RequestOpcode(RequestOpcode::Execute).and(is_ours());
        let answered = Condition::ResponseOpcode(ResponseOpcode::Result).and(is_ours());
        proxied.rules(
            vec![RequestRule(requested, RequestReaction::noop().with_feedback_when_performed(tell_request))],
            vec![ResponseRule(answered, ResponseReaction::noop().with_feedback_when_performed(tell_answer))],
        );
        Self { requests, answers }
    }

    /// Counts the requests that contain all of `texts`, and all bytes of answers.
    pub(crate) fn take_those_with(&mut self, texts: &[&str]) -> Count {
        let mut count = Count { requests: 0, answer_bytes: 0 };
        while let Ok((request, _)) = self.requests.try_recv() {
            let contains = |text: &&str| request.body.windows(text.len()).any(|bytes| bytes == text.as_bytes());
            count.requests += usize::from(texts.iter().all(contains));
        }
        while let Ok((answer, _)) = self.answers.try_recv() {
            count.answer_bytes += FRAME_HEADER_BYTES + answer.body.len();
        }
        count
    }

    fn take(&mut self) -> Count {
        self.take_those_with(&[])
    }
}

/// A replica in this process over `proxied`, which shares reads as a real one does.
pub(crate) fn replica_over(proxied: &Proxied) -> Front {
    replica(Arc::new(SingleFlightStore::new(proxied.store.clone(), &Arc::new(Metrics::new()))))
}

/// Sends a request to `replica`.
pub(crate) async fn send(
    replica: &Front,
    method: Method,
    path: &str,
    fields: &[(http::HeaderName, &str)],
    body: Option<Value>,
) -> Response<Bytes> {
    let mut request = Request::builder().method(method).uri(path).header(HOST, "pages.example");
    for (name, value) in fields {
        request = request.header(name, *value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    let body = body.map(|body| body.to_string().into()).unwrap_or_default();
    InProcess(vec![replica.clone()]).connect(0).send(request.body(body).unwrap()).await.unwrap()
}

/// Publishes a page. Returns its slug and key.
pub(crate) async fn publish(replica: &Front, content: &str) -> (String, String) {
    let body = json!({"title": "A title of usual length", "content": content});
    let created = send(replica, Method::POST, "/api/pages", &[], Some(body)).await;
    assert_eq!(created.status(), StatusCode::CREATED, "{created:?}");
    let created: Value = serde_json::from_slice(created.body()).unwrap();
    let [slug, key] = ["slug", "edit_key"].map(|field| created[field].as_str().unwrap().to_owned());
    (slug, key)
}

/// Reads `path`, with the entity tag that the client holds.
async fn get(replica: &Front, path: &str, held: Option<&str>) -> Response<Bytes> {
    let fields = held.map(|tag| (IF_NONE_MATCH, tag)).into_iter().chain([(ACCEPT, "*/*")]).collect::<Vec<_>>();
    send(replica, Method::GET, path, &fields, None).await
}

/// The addresses of a page.
fn addresses(slug: &str) -> [String; 3] {
    [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_memory_is_sent_after_one_query_whose_answer_has_less_than_a_kilobyte() {
    let mut proxied = proxied(PATIENT).await;
    let replica = replica_over(&proxied);
    // The longest page that there may be.
    let (slug, key) = publish(&replica, &"Hundred kilobytes. ".repeat(5_389)).await;
    // The row has the ids of eight writes.
    for number in 0..8 {
        let title = json!({"title": format!("Title {number}")});
        let fields = [(http::header::AUTHORIZATION, format!("Bearer {key}"))];
        let fields = fields.each_ref().map(|(name, value)| (name.clone(), value.as_str()));
        let updated = send(&replica, Method::PATCH, &format!("/api/pages/{slug}"), &fields, Some(title)).await;
        assert_eq!(updated.status(), StatusCode::OK);
    }
    let mut traffic = Traffic::of(&mut proxied);
    get(&replica, &format!("/{slug}"), None).await;
    let first = traffic.take();
    assert_eq!(first.requests, 2, "the head, and then the whole row");
    for address in addresses(&slug) {
        let answer = get(&replica, &address, None).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.body().len() > 100_000);
        let count = traffic.take();
        println!("a read of a page in memory: {count:?}");
        assert!(count.requests == 1 && count.answer_bytes <= 1024, "{address}: {count:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_304_of_a_page_that_is_not_in_memory_takes_one_query_whose_answer_has_less_than_a_kilobyte() {
    let mut proxied = proxied(PATIENT).await;
    let (replica, other) = (replica_over(&proxied), replica_over(&proxied));
    let (slug, _) = publish(&replica, &"Hundred kilobytes. ".repeat(5_200)).await;
    for address in addresses(&slug) {
        let full = get(&replica, &address, None).await;
        let tag = full.headers()[ETAG].to_str().unwrap();
        let mut traffic = Traffic::of(&mut proxied);
        for replica in [&replica, &other] {
            let short = get(replica, &address, Some(tag)).await;
            assert_eq!(short.status(), StatusCode::NOT_MODIFIED);
            let count = traffic.take();
            println!("a 304: {count:?}");
            assert!(count.requests == 1 && count.answer_bytes <= 1024, "{address}: {count:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_there_or_is_gone_takes_one_query() {
    let mut proxied = proxied(PATIENT).await;
    let replica = replica_over(&proxied);
    let (slug, key) = publish(&replica, "text").await;
    let key = format!("Bearer {key}");
    let fields = [(http::header::AUTHORIZATION, key.as_str())];
    let deleted = send(&replica, Method::DELETE, &format!("/api/pages/{slug}"), &fields, None).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let mut traffic = Traffic::of(&mut proxied);
    for (slug, status) in [(slug.as_str(), StatusCode::GONE), ("never-there-2222bbbb", StatusCode::NOT_FOUND)] {
        assert_eq!(get(&replica, &format!("/{slug}"), None).await.status(), status);
        assert_eq!(traffic.take().requests, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_makes_one_request_of_the_database() {
    let mut proxied = proxied(PATIENT).await;
    let replica = replica_over(&proxied);
    publish(&replica, "the first request may find statements that are not prepared").await;
    let mut traffic = Traffic::of(&mut proxied);
    publish(&replica, "text").await;
    assert_eq!(traffic.take().requests, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_another_replica_changed_or_deleted_is_not_sent_from_memory() {
    let (proxied, other) = (proxied(PATIENT).await, store().await);
    let replica = replica_over(&proxied);
    let (slug, _) = publish(&replica, "first").await;
    get(&replica, &format!("/{slug}.md"), None).await;
    change_behind_its_back(&other, &slug, "second").await;
    assert_eq!(get(&replica, &format!("/{slug}.md"), None).await.body(), "second");
    delete_behind_its_back(&other, &slug).await;
    assert_eq!(get(&replica, &format!("/{slug}.md"), None).await.status(), StatusCode::GONE);
}

async fn found(store: &ScyllaStore, slug: &str) -> Arc<Page> {
    match store.lookup(&Slug::parse(slug).unwrap()).await.unwrap() {
        Lookup::Active(page) => page,
        other => panic!("{other:?}"),
    }
}

/// Replaces the text of a page as another replica does.
async fn change_behind_its_back(other: &ScyllaStore, slug: &str, content: &str) {
    let page = found(other, slug).await;
    let swapped = other.compare_and_set(page.head.version, Record::Active(edited(&page, content)), None).await;
    assert_eq!(swapped.unwrap(), CasResult::Swapped);
}

/// Deletes a page as another replica does.
async fn delete_behind_its_back(other: &ScyllaStore, slug: &str) {
    let page = found(other, slug).await;
    let tombstone = page.head.tombstone(UnixMillis::new(page.head.updated_at.get() + 1));
    let swapped = other.compare_and_set(page.head.version, Record::Deleted(tombstone), None).await;
    assert_eq!(swapped.unwrap(), CasResult::Swapped);
}
