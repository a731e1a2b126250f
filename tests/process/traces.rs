//! Traces, as a collector receives them from the real binary.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use handbill_test_support::client::{JSON, MCP_ACCEPT, get, post, request};
use handbill_test_support::port::Port;
use handbill_test_support::server::{Server, handbill};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use crate::collector::{Collector, Manner, attributes};

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT_ID: &str = "b7ad6b7169203331";

/// The variables for a share of traces so small that none of a test's traces is sampled, unless a proxy's is.
const NEXT_TO_NONE: [(&str, &str); 2] =
    [("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.000000001")];

/// A server with limits, so that all of a publish is seen, and with these variables of the SDK. It sends its traces to `collector`.
fn sampling(variables: &[(&str, &str)], collector: &Collector, args: &[&str]) -> Server {
    let mut command = handbill(["--otlp-endpoint", &collector.endpoint()]);
    command.envs(variables.iter().copied());
    Server::temporary_as(command, args)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name:?} in {spans:#?}"));
    assert!(found.next().is_none(), "two {name:?} in {spans:#?}");
    span
}

fn answered(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines.filter(|line| line["message"] == "answered").collect()
}

#[test]
fn one_publish_is_one_trace_with_a_span_for_each_step() {
    let collector = Collector::start(Manner::Takes);
    let server = sampling(&[], &collector, &[]);
    let answer = post(server.address, "Traced", "x").unwrap();
    assert_eq!(answer.status, 201);
    let (status, _, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");

    let spans = collector.spans();
    let root = named(&spans, "POST /api/pages");
    assert_eq!((root.kind(), root.parent_span_id.len()), (SpanKind::Server, 0));
    let id = answer.header("x-request-id").unwrap();
    let expected = pairs(&[
        ("handbill.request_id", id),
        ("http.request.method", "POST"),
        ("http.response.status_code", "201"),
        ("http.route", "/api/pages"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("url.scheme", "http"),
    ]);
    assert_eq!(attributes(&root.attributes), expected);
    let of_store = |operation| {
        pairs(&[
            ("db.collection.name", "pages"),
            ("db.operation.name", operation),
            ("db.system.name", "sqlite"),
            ("handbill.outcome", "done"),
        ])
    };
    let steps = [
        ("decide limits", pairs(&[("handbill.limit", "create"), ("handbill.outcome", "admitted")])),
        ("render markdown", pairs(&[("handbill.outcome", "done")])),
        ("insert_if_absent pages", of_store("insert_if_absent")),
    ];
    for (name, expected) in &steps {
        let span = named(&spans, name);
        assert_eq!((&span.trace_id, &span.parent_span_id), (&root.trace_id, &root.span_id), "{name}");
        assert_eq!((span.kind(), attributes(&span.attributes)), (SpanKind::Internal, expected.clone()), "{name}");
        assert!(span.start_time_unix_nano >= root.start_time_unix_nano, "{name}");
        assert!(span.end_time_unix_nano <= root.end_time_unix_nano, "{name}");
    }
    assert_eq!(spans.len(), 1 + steps.len(), "{spans:#?}");
    for span in &spans {
        assert!(span.events.is_empty() && span.links.is_empty() && span.status.as_ref().is_none_or(|s| s.code == 0));
    }

    let resource: BTreeMap<_, _> = collector.resource().into_iter().collect();
    let keys: Vec<_> = resource.keys().map(String::as_str).collect();
    let telemetry = ["telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version"];
    assert_eq!(keys, [&["service.instance.id", "service.name", "service.version"][..], &telemetry].concat());
    assert_eq!(resource["service.name"], "handbill");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));

    let (trace_id, lines) = (hexadecimal(&root.trace_id), answered(&log));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["trace_id"], trace_id.as_str());
    assert_eq!(lines[0]["span_id"], hexadecimal(&root.span_id).as_str());
}

fn publish_by_tool(server: &Server, meta: &Value) {
    let arguments = json!({"title": "By an agent", "content": "x"});
    let params = json!({"name": "create_page", "arguments": arguments, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let answer = request(server.address, "POST", "/mcp", &[JSON, MCP_ACCEPT], call.as_bytes()).unwrap();
    assert!(answer.json()["result"]["structuredContent"]["slug"].is_string(), "{}", answer.text());
}

#[test]
fn a_request_continues_the_sampled_trace_of_a_trusted_proxy() {
    let collector = Collector::start(Manner::Takes);
    // The server samples almost none of the traces that it begins itself, so a span is exported only because of the
    // proxy.
    let server = sampling(&NEXT_TO_NONE, &collector, &["--trusted-proxies", "127.0.0.0/8"]);
    let ask = |path: &str, flags: &str| {
        let traceparent = format!("00-{TRACE_ID}-{PARENT_ID}-{flags}");
        request(server.address, "GET", path, &[("Traceparent", traceparent.as_str())], b"").unwrap();
    };
    ask("/robots.txt", "00");
    ask("/nowhere/at/all", "01");
    let (.., log) = server.stop();
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:#?}");
    let span = named(&spans, "GET");
    assert_eq!((hexadecimal(&span.trace_id), hexadecimal(&span.parent_span_id)), (TRACE_ID.into(), PARENT_ID.into()));
    assert!(answered(&log).iter().all(|line| line["trace_id"] == TRACE_ID), "{log}");
}

#[test]
fn a_stranger_does_not_choose_what_is_sampled() {
    let traceparent = format!("00-{TRACE_ID}-{PARENT_ID}-01");
    // A trusted proxy passes the message on as it came, whoever wrote it.
    for proxies in [&[][..], &["--trusted-proxies", "127.0.0.0/8"]] {
        let collector = Collector::start(Manner::Takes);
        let server = sampling(&NEXT_TO_NONE, &collector, proxies);
        if proxies.is_empty() {
            request(server.address, "GET", "/", &[("Traceparent", traceparent.as_str())], b"").unwrap();
        }
        publish_by_tool(&server, &json!({"traceparent": traceparent}));
        let (.., log) = server.stop();
        assert_eq!(collector.messages(), Vec::<Vec<u8>>::new());
        assert!(!log.contains(TRACE_ID), "{log}");
    }
}

#[test]
fn a_collector_that_hangs_refuses_or_is_absent_changes_nothing() {
    let absent = Port::hold();
    let (hanging, refusing) = (Collector::start(Manner::Hangs), Collector::start(Manner::Refuses));
    for (what, endpoint) in [
        ("absent", format!("http://{}", absent.address)),
        ("hanging", hanging.endpoint()),
        ("refusing", refusing.endpoint()),
    ] {
        let server = Server::temporary_as(handbill(["--otlp-endpoint", &endpoint]), &[]);
        for round in 0..5 {
            let page = post(server.address, &format!("Round {round}"), "x").unwrap();
            assert_eq!(page.status, 201, "{what}");
            assert_eq!(get(server.address, "/").unwrap().status, 200, "{what}");
        }
        let (status, _, log) = server.stop();
        assert_eq!(status.code(), Some(0), "{what}: {log}");
        assert_eq!(answered(&log).len(), 10, "{what}: {log}");
    }
}
