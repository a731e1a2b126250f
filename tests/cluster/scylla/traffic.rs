//! The cost of a request for the database: its queries and the bytes of the answers, counted by the proxy between them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use handbill::app::{Deps, PublicSettings, public};
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::origin::Origin;
use handbill_pages::values::record::Record;
use handbill_test_support::histories::in_process::InProcess;
use handbill_test_support::histories::transport::Transport;
use handbill_test_support::pages::{edited, insert, page};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH};
use http::{Method, Request, Response, StatusCode};
use scylla_proxy::{
    Condition, Reaction, RequestFrame, RequestOpcode, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode,
    ResponseReaction, ResponseRule, TargetShard,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use super::faults::requests_with;
use super::server::{PATIENT, Proxied, proxied};

/// Bytes of the header of each frame of CQL.
const FRAME_HEADER_BYTES: usize = 9;

/// The frames that pass the proxy, apart from the connection by which the driver watches the cluster.
struct Traffic {
    requests: UnboundedReceiver<(RequestFrame, Option<TargetShard>)>,
    answers: UnboundedReceiver<(ResponseFrame, Option<TargetShard>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    requests: usize,
    answer_bytes: usize,
}

impl Traffic {
    fn of(proxied: &mut Proxied) -> Self {
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

    fn take(&mut self) -> Count {
        let mut count = Count { requests: 0, answer_bytes: 0 };
        while self.requests.try_recv().is_ok() {
            count.requests += 1;
        }
        while let Ok((answer, _)) = self.answers.try_recv() {
            count.answer_bytes += FRAME_HEADER_BYTES + answer.body.len();
        }
        count
    }
}

fn replica_over(proxied: &Proxied) -> Router {
    let base_url = Origin::parse("https://pages.example").unwrap();
    public(proxied.store.clone(), PublicSettings::open(base_url), &Deps::system())
}

async fn send(
    replica: &Router,
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

async fn publish(replica: &Router, content: &str) -> (String, String) {
    let body = json!({"title": "A title of usual length", "content": content});
    let created = send(replica, Method::POST, "/api/pages", &[], Some(body)).await;
    assert_eq!(created.status(), StatusCode::CREATED, "{created:?}");
    let created: Value = serde_json::from_slice(created.body()).unwrap();
    let [slug, key] = ["slug", "edit_key"].map(|field| created[field].as_str().unwrap().to_owned());
    (slug, key)
}

async fn get(replica: &Router, path: &str, held: Option<&str>) -> Response<Bytes> {
    let fields = held.map(|tag| (IF_NONE_MATCH, tag)).into_iter().chain([(ACCEPT, "*/*")]).collect::<Vec<_>>();
    send(replica, Method::GET, path, &fields, None).await
}

fn addresses(slug: &str) -> [String; 3] {
    [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_memory_is_sent_after_one_query_of_a_kilobyte() {
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
    assert_eq!(first.requests, 1, "the whole row");
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
async fn a_304_of_a_page_not_in_memory_takes_one_query() {
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
async fn a_create_makes_one_request_of_the_database() {
    let mut proxied = proxied(PATIENT).await;
    let replica = replica_over(&proxied);
    publish(&replica, "the first request may find statements that are not prepared").await;
    let mut traffic = Traffic::of(&mut proxied);
    publish(&replica, "text").await;
    assert_eq!(traffic.take().requests, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_in_time_is_not_sent() {
    let mut proxied = proxied(PATIENT).await;
    let page = Arc::new(page("first"));
    assert_eq!(insert(&*proxied.store, page.clone()).await, PutResult::Done);
    let edit = || Record::Active(edited(&page, "second"));

    let mut traffic = Traffic::of(&mut proxied);
    let store = Arc::clone(&proxied.store);
    let too_late = store.put(Expected::page(&page.head), edit(), Some(Instant::now())).await;
    assert!(matches!(too_late, Err(StoreError::Unavailable(_))), "{too_late:?}");
    assert_eq!(traffic.take().requests, 0);

    let silence = RequestRule(requests_with(page.head.slug.as_str()), RequestReaction::drop_frame());
    proxied.rules(vec![silence], Vec::new());
    let began = Instant::now();
    let needed_by = Some(began + Duration::from_secs(1));
    let unanswered = store.put(Expected::page(&page.head), edit(), needed_by).await;
    assert!(matches!(unanswered, Err(StoreError::Unavailable(_))), "{unanswered:?}");
    assert!(began.elapsed() < PATIENT.attempt, "the store's own limits are longer: {:?}", began.elapsed());
    proxied.rules(Vec::new(), Vec::new());
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Active(page)));
}
