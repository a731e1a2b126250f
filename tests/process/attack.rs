//! The short form of `loadtest/attack`: clients that hold on to all that they can get, from one address and by
//! hundreds. The tests check effects and bytes: the process lives, an honest client is served, and memory is bounded.

use std::time::Instant;

use handbill_test_support::client::{
    Answer, Connection, JSON, MCP_ACCEPT, get, page_json, post, request_bytes, tool_call,
};
use handbill_test_support::environment::TEST_TIMEOUT;
use handbill_test_support::server::Server;
use serde_json::json;

const READERS: usize = 400;
const MIB: f64 = 1024.0 * 1024.0;

const ATTACKER: (&str, &str) = ("X-Forwarded-For", "198.51.100.1");
const HONEST: (&str, &str) = ("X-Forwarded-For", "198.51.100.2");

fn get_page(slug: &str) -> Vec<u8> {
    let call = tool_call("get_page", &json!({"slug": slug}));
    let headers = [JSON, MCP_ACCEPT, ("MCP-Protocol-Version", "2025-11-25"), ATTACKER];
    request_bytes("POST", "/mcp", &headers, call.as_bytes())
}

/// Of a text among those that take a renderer the most memory.
fn preview() -> Vec<u8> {
    let of_form = [("Content-Type", "text/markdown"), ("Accept", "application/json"), ATTACKER];
    request_bytes("POST", "/?action=preview", &of_form, "<a@b.c>".repeat(14_000).as_bytes())
}

fn assert_honest_clients_are_served(server: &Server) {
    let created = honest(server, "POST", "/api/pages", page_json("Honest", "Words.").as_bytes());
    assert_eq!(created.status, 201, "{}", created.text());
    let slug = created.json()["slug"].as_str().unwrap().to_owned();
    let read = honest(server, "GET", &format!("/api/pages/{slug}"), b"");
    assert_eq!(read.status, 200, "{}", read.text());
    assert_eq!(get(server.admin, "/livez").unwrap().status, 200);
}

fn honest(server: &Server, method: &str, target: &str, body: &[u8]) -> Answer {
    served(server, &request_bytes(method, target, &[JSON, HONEST], body))
}

/// Until the attackers' share is free again, or on a busy machine, a client may be told to retry, and does.
fn served(server: &Server, request: &[u8]) -> Answer {
    let began = Instant::now();
    loop {
        let mut connection = Connection::open(server.address).unwrap();
        connection.send(request).unwrap();
        let answer = connection.answer().unwrap();
        if answer.status != 503 {
            return answer;
        }
        assert!(answer.header("retry-after").is_some(), "{}", answer.text());
        assert!(began.elapsed() < TEST_TIMEOUT, "it is never served: {}", answer.text());
    }
}

/// In bytes: `VmRSS` is what the process has, `VmHWM` the most that it has had.
fn memory(server: &Server, kind: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
    line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

/// Rendered again and again, a text needs some 10 MiB. By itself, the allocator would keep four times as much.
#[test]
fn freed_memory_goes_back_to_the_system_at_once() {
    let server = Server::temporary(&[]);
    assert_honest_clients_are_served(&server);
    let before = memory(&server, "VmRSS");
    for _ in 0..10 {
        assert_eq!(served(&server, &preview()).status, 200);
    }
    let began = Instant::now();
    while memory(&server, "VmRSS") > before + 20.0 * MIB {
        assert!(began.elapsed() < TEST_TIMEOUT, "it keeps {} MiB", (memory(&server, "VmRSS") - before) / MIB);
    }
}

#[test]
fn readers_previews_and_nested_json_at_once_fit_into_240_mib() {
    let server = Server::temporary(&["--trusted-proxies", "127.0.0.0/8"]);
    // Its answers are long: each of its characters is escaped twice.
    let worst = post(server.address, "Worst", &"\"".repeat(60_000)).unwrap().json();
    let slug = worst["slug"].as_str().unwrap();
    assert_honest_clients_are_served(&server);
    let (wide, deep) = (vec![r#"{"":{"":0}}"#; 10_300].join(","), "[".repeat(60_000) + &"]".repeat(60_000));
    let nested = [format!("[{wide}]"), deep, format!("[{}]", "{},".repeat(40_000) + "0")];
    let posts = nested.iter().map(|value| {
        let body = format!(r#"{{"title": "T", "content": "c", "x": {value}}}"#);
        request_bytes("POST", "/api/pages", &[JSON, ATTACKER], body.as_bytes())
    });
    let calls = nested.iter().map(|value| {
        let call = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {{"_meta": {{"x": {value}}}, "name": "get_page", "arguments": {{"slug": "{slug}"}}}}}}"#
        );
        request_bytes("POST", "/mcp", &[JSON, MCP_ACCEPT, ATTACKER], call.as_bytes())
    });
    let refused: Vec<_> = posts.chain(calls).collect();
    let reads = [get_page(slug), preview(), refused[3].clone()];
    let crowd = |requests: &[Vec<u8>], rounds: usize| -> Vec<Connection> {
        let sent = (0..rounds).flat_map(|_| requests).map(|request| {
            let mut connection = Connection::open(server.address).unwrap();
            let _ = connection.send(request);
            connection
        });
        sent.collect()
    };
    let readers = crowd(&reads, READERS);
    assert_honest_clients_are_served(&server);
    drop(readers);
    for mut connection in crowd(&refused, READERS / 4) {
        let status = connection.answer().unwrap().status;
        // On a busy machine a body is not read in time.
        assert!(matches!(status, 400 | 408 | 503), "{status}");
    }
    assert_honest_clients_are_served(&server);
    assert!(memory(&server, "VmHWM") < 240.0 * MIB, "it had {} MiB", memory(&server, "VmHWM") / MIB);
    assert_eq!(server.stop().0.code(), Some(0));
}
