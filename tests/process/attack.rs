//! The short form of `loadtest/attack`: clients that hold on to all that they can get, from one address and by hundreds. What
//! is asserted are effects and bytes: the process lives, an honest client is served, and memory is bounded.

use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::client::{Answer, Connection, JSON, MCP_ACCEPT, get, post, request_bytes};
use crate::support::{PATIENCE, Server};

/// Connections of each attack: with what each could hold in 0.2.0, several times the bound.
const CONNECTIONS: usize = 400;

/// Most bytes that a process may grow by under attack: both budgets of the default options, and 64 MiB for all that is
/// counted by number, for the buffers of threads and for what an allocator keeps.
const MAX_GROWTH: f64 = 160.0 * 1024.0 * 1024.0;

fn server() -> (TempDir, Server) {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    (directory, server)
}

/// A page whose answers are as long as answers become: each of its characters is escaped twice.
fn worst_page(server: &Server) -> String {
    let created = post(server.address, "Worst", &"\"".repeat(60_000)).unwrap();
    created.json()["slug"].as_str().unwrap().to_owned()
}

fn get_page(slug: &str) -> Vec<u8> {
    let params = json!({"name": "get_page", "arguments": {"slug": slug}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    request_bytes("POST", "/mcp", &[JSON, MCP_ACCEPT, ("MCP-Protocol-Version", "2025-11-25")], call.as_bytes())
}

/// What the metrics say of `series`, all of its label values together.
fn figure(server: &Server, series: &str) -> f64 {
    let metrics = get(server.admin, "/metrics").unwrap();
    let lines = metrics.text().lines().filter(|line| line.starts_with(series));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until as many requests of `route` were answered, whatever the answer was.
fn wait_until_answered(server: &Server, route: &str, requests: usize) {
    let counts =
        format!("http_server_request_duration_seconds_count{{http_request_method=\"POST\",http_route=\"{route}\"");
    let begun = std::time::Instant::now();
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    while figure(server, &counts) < requests as f64 {
        assert!(begun.elapsed() < PATIENCE, "{} of {requests} were answered", figure(server, &counts));
        // A scrape, an honest request and its answer: time passes with work, not with sleep.
        assert_honest_clients_are_served(server);
    }
}

fn assert_honest_clients_are_served(server: &Server) -> Answer {
    let created = post(server.address, "Honest", "Words.").unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let read = get(server.address, &format!("/api/pages/{}", created.json()["slug"].as_str().unwrap())).unwrap();
    assert_eq!(read.status, 200, "{}", read.text());
    assert_eq!(get(server.admin, "/livez").unwrap().status, 200);
    read
}

fn resident(server: &Server) -> f64 {
    figure(server, "process_resident_memory_bytes ")
}

fn assert_bounded(server: &Server, before: f64) {
    assert_honest_clients_are_served(server);
    let growth = resident(server) - before;
    assert!(growth < MAX_GROWTH, "it grew by {} MiB", growth / 1024.0 / 1024.0);
}

#[test]
fn readers_that_do_not_read_neither_end_the_process_nor_keep_others_out() {
    let (_directory, server) = server();
    let slug = worst_page(&server);
    assert_honest_clients_are_served(&server);
    let before = resident(&server);
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(server.address).unwrap();
        connection.send(get_page(&slug)).unwrap();
        held.push(connection);
    }
    wait_until_answered(&server, "/mcp", CONNECTIONS);
    assert_bounded(&server, before);
    drop(held);
    assert_eq!(server.stop().0.code(), Some(0));
}

#[test]
fn stalled_bodies_neither_end_the_process_nor_keep_others_out() {
    let (_directory, server) = server();
    assert_honest_clients_are_served(&server);
    let before = resident(&server);
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(server.address).unwrap();
        let mut begun = request_bytes("POST", "/api/pages", &[JSON, ("Content-Length", "131072")], b"");
        begun.extend(vec![b' '; 126 * 1024]);
        // One that is over a budget is cut while it sends.
        let _ = connection.send(begun);
        held.push(connection);
    }
    assert_bounded(&server, before);
    drop(held);
    assert_eq!(server.stop().0.code(), Some(0));
}

#[test]
fn four_hundred_callers_at_once_are_answered_or_told_to_come_again() {
    let (_directory, server) = server();
    let slug = worst_page(&server);
    assert_honest_clients_are_served(&server);
    let before = resident(&server);
    let mut callers: Vec<_> = (0..CONNECTIONS).map(|_| Connection::open(server.address).unwrap()).collect();
    for caller in &mut callers {
        caller.send(get_page(&slug)).unwrap();
    }
    assert_honest_clients_are_served(&server);
    // Those that were cut while they waited were the slowest of one address; whoever got an answer got all of it.
    let answers: Vec<Answer> = callers.iter_mut().filter_map(|caller| caller.answer().ok()).collect();
    assert!(!answers.is_empty());
    for answer in answers {
        match answer.status {
            200 => assert!(answer.json()["result"]["isError"] != true || answer.text().contains("unavailable")),
            503 => assert!(answer.header("retry-after").is_some()),
            other => panic!("{other}: {}", answer.text()),
        }
    }
    assert_bounded(&server, before);
}
