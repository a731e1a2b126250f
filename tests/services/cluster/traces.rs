//! Traces over the real databases, as a collector receives them: what a request asked of Cassandra and of Redis.
//!
//! `tests/services/process` holds traces to the rest of their rules, with the embedded store.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;

use super::calls::{Published, publish, read, rewrite};
use super::service::{Service, Settings};
use crate::collector::{Collector, Manner, attributes};
use crate::connection::send;
use crate::replica::Replica;
use crate::support::revision::{MODERN, headers, message};

/// A step of a request: its name, its kind and its attributes by name.
type Step = (String, SpanKind, Vec<(String, String)>);

/// A replica of `service` whose spans `collector` takes.
async fn traced(service: &Service, collector: &Collector) -> Replica {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint = ["--otlp-endpoint".to_owned(), collector.endpoint()];
    let replica = Replica::start(anywhere, anywhere, service.replica_settings.iter().chain(&endpoint)).await;
    replica.ready().await;
    replica
}

fn limited() -> Settings {
    Settings { create_limit: 10, edit_limit: 60, drain_delay: Duration::ZERO, ..Settings::unlimited() }
}

/// The spans of each trace, in the order in which they began. Traces are in the order of their first spans.
fn traces(collector: &Collector) -> Vec<Vec<Span>> {
    let mut traces: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
    for span in collector.spans() {
        traces.entry(span.trace_id.clone()).or_default().push(span);
    }
    let mut traces: Vec<_> = traces.into_values().collect();
    for spans in &mut traces {
        spans.sort_by_key(|span| span.start_time_unix_nano);
    }
    traces.sort_by_key(|spans| spans[0].start_time_unix_nano);
    traces
}

/// A call of `system`, made and answered.
fn call(system: &str, name: &str, outcome: &str) -> Step {
    let (operation, target) = name.split_once(' ').expect("an operation on something");
    let mut pairs = vec![("db.operation.name", operation), ("db.system.name", system), ("handbill.outcome", outcome)];
    if system == "cassandra" {
        pairs.insert(0, ("db.collection.name", target));
    }
    step(name, SpanKind::Client, &pairs)
}

fn decision(limit: &str) -> Step {
    let (name, kind, mut pairs) = call("redis", "decide limits", "admitted");
    pairs.insert(2, ("handbill.limit".to_owned(), limit.to_owned()));
    (name, kind, pairs)
}

fn rendering() -> Step {
    step("render markdown", SpanKind::Internal, &[("handbill.outcome", "done")])
}

fn step(name: &str, kind: SpanKind, pairs: &[(&str, &str)]) -> Step {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    (name.to_owned(), kind, pairs.collect())
}

/// All that is asked of others while a page is published.
fn publishing() -> Vec<Step> {
    vec![decision("create"), rendering(), call("cassandra", "insert_if_absent pages", "done")]
}

/// Fails unless `spans` are these steps, one after another, each directly below `parent` and within it.
fn check_steps(parent: &Span, spans: &[Span], expected: &[Step]) {
    let found: Vec<Step> =
        spans.iter().map(|span| (span.name.clone(), span.kind(), attributes(&span.attributes))).collect();
    assert_eq!(found, expected, "below {}", parent.name);
    let mut before = parent.start_time_unix_nano;
    for span in spans {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&parent.trace_id, &parent.span_id), "{}", span.name);
        assert!(
            before <= span.start_time_unix_nano && span.end_time_unix_nano <= parent.end_time_unix_nano,
            "{span:?}"
        );
        assert!(span.status.as_ref().is_none_or(|status| status.code == 0) && span.links.is_empty(), "{span:?}");
        before = span.end_time_unix_nano;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_one_trace_with_a_span_for_each_call_of_a_database() {
    let collector = Collector::start(Manner::Takes);
    let service = Service::start(limited()).await;
    let replica = traced(&service, &collector).await;
    let page = publish(replica.public).await;
    let other = publish(replica.public).await;
    read(replica.public, &page).await.expect_status(200);
    rewrite(replica.public, &page, "second").await.expect_status(200);
    rewrite(replica.public, &Published { key: other.key, ..page }, "third").await.expect_status(401);
    assert!(replica.stop().await.success());

    let head = || call("cassandra", "head pages", "active");
    let edit = [decision("edit"), head(), rendering(), call("cassandra", "compare_and_set pages", "done")];
    let expected = [
        ("POST /api/pages", "201", publishing()),
        ("POST /api/pages", "201", publishing()),
        ("GET /api/pages/{slug}", "200", vec![head(), call("cassandra", "page pages", "active")]),
        ("PATCH /api/pages/{slug}", "200", edit.to_vec()),
        // A wrong key is a refusal and no error, and nothing is rendered for it.
        ("PATCH /api/pages/{slug}", "401", edit[..2].to_vec()),
    ];
    let traces = traces(&collector);
    assert_eq!(traces.len(), expected.len(), "{traces:#?}");
    for (spans, (name, status, steps)) in traces.iter().zip(expected) {
        let (root, below) = spans.split_first().expect("a trace has a span");
        assert_eq!((root.name.as_str(), root.kind(), root.parent_span_id.len()), (name, SpanKind::Server, 0));
        let attributes: BTreeMap<_, _> = attributes(&root.attributes).into_iter().collect();
        assert_eq!(attributes["http.response.status_code"], status, "{name}");
        assert!(!attributes.contains_key("error.type"), "{name}");
        check_steps(root, below, &steps);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_by_an_agent_is_part_of_the_trace_that_its_message_names() {
    const TRACE_ID: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
    const PARENT_ID: u64 = 0xb7ad_6b71_6920_3331;
    let collector = Collector::start(Manner::Takes);
    let service = Service::start(limited()).await;
    let replica = traced(&service, &collector).await;
    let arguments = json!({"title": "By an agent", "content": "first"});
    let mut call = message(MODERN, "tools/call", json!({"name": "create_page", "arguments": arguments}));
    call["params"]["_meta"]["traceparent"] = format!("00-{TRACE_ID:032x}-{PARENT_ID:016x}-01").into();
    let mut request = Request::post("/mcp").header(CONTENT_TYPE, "application/json");
    for (name, value) in headers(MODERN, &call) {
        request = request.header(name, value);
    }
    let request = request.header("host", service.balancer.to_string()).body(Bytes::from(call.to_string()));
    let answer = send(replica.public, request.expect("it is valid")).await.expect("it is answered");
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert!(replica.stop().await.success());

    let traces = traces(&collector);
    let [of_request, of_agent] = traces.as_slice() else { panic!("not two traces: {traces:#?}") };
    assert_eq!(of_request.len(), 1, "{of_request:#?}");
    assert_eq!((of_request[0].name.as_str(), of_request[0].kind()), ("POST /mcp", SpanKind::Server));
    let (tool, below) = of_agent.split_first().expect("a trace has a span");
    assert_eq!((tool.name.as_str(), tool.kind()), ("tools/call create_page", SpanKind::Server));
    assert_eq!(
        (&tool.trace_id[..], &tool.parent_span_id[..]),
        (&TRACE_ID.to_be_bytes()[..], &PARENT_ID.to_be_bytes()[..])
    );
    assert!(tool.links.len() == 1 && tool.links[0].span_id == of_request[0].span_id, "{tool:#?}");
    check_steps(tool, below, &publishing());
}
