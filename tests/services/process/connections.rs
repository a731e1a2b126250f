//! HTTP as the running service speaks it: what is too large, malformed, unusual or out of order.

use std::io::Write;
use std::time::Instant;

use serde_json::json;
use tempfile::{TempDir, tempdir};

use super::client::{Answer, Connection, JSON, bearer, get, page_json, post, request, request_bytes};
use super::support::{Server, handbill_after};
use crate::environment::TEST_TIMEOUT;

fn server() -> (TempDir, Server) {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    (directory, server)
}

#[test]
fn a_head_over_32_kib_is_answered_431_in_words_and_a_longer_one_is_refused_too() {
    let (_directory, server) = server();
    let large = |bytes| request(server.address, "GET", "/", &[("X-Large", &"x".repeat(bytes))], b"");
    assert_eq!(large(31 * 1024).unwrap().status, 200);
    for bytes in [32 * 1024, 33 * 1024] {
        assert_eq!(large(bytes).unwrap().problem(), (431, "headers_too_large".to_owned()));
    }
    // What hyper refuses has no body, and the end of the connection may overtake it.
    assert!(large(200 * 1024).is_ok_and(|answer| answer.status == 431) || large(200 * 1024).is_err());
    assert_eq!(get(server.address, "/").unwrap().status, 200);
}

/// Fails unless `bytes` are answered 400 once, and the connection ends.
fn assert_refused(server: &Server, bytes: &str) {
    let mut connection = Connection::open(server.address).unwrap();
    connection.send(bytes).unwrap();
    let answer = connection.answer().unwrap_or_else(|error| panic!("{error} to {bytes:?}"));
    assert_eq!(answer.status, 400, "{bytes:?}");
    assert!(connection.is_ended(), "{bytes:?}");
}

#[test]
fn bytes_that_are_no_request_are_answered_400_and_the_connection_ends() {
    let (_directory, server) = server();
    for nonsense in [
        "NONSENSE\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nabcde",
        "GET / HTTP/1.1\r\nHost: a\r\n Content-Length: 5\r\n\r\nabcde",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}",
    ] {
        assert_refused(&server, nonsense);
    }
    assert_eq!(get(server.address, "/").unwrap().status, 200);
}

#[test]
fn a_body_of_two_lengths_or_of_another_encoding_is_refused() {
    let (_directory, server) = server();
    for lengths in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 4, 5\r\n",
        "Content-Length: 4, 4\r\n",
        "Content-Length: many\r\n",
        "Content-Length: +4\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let request =
            format!("POST /api/pages HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n0\r\n\r\nGET / HTTP/1.1\r\n");
        assert_refused(&server, &request);
    }
}

#[test]
fn a_request_that_does_not_name_one_host_is_answered_400_in_words() {
    let (_directory, server) = server();
    for headers in ["", "Host:\r\n", "Host: a b\r\n", "Host: user@a\r\n", "Host: a\r\nHost: a\r\n"] {
        for target in ["/api/pages/a-22222222", "/mcp"] {
            let mut connection = Connection::open(server.address).unwrap();
            connection.send(format!("GET {target} HTTP/1.1\r\n{headers}\r\n")).unwrap();
            let answer = connection.answer().unwrap();
            assert!(answer.status == 400 && answer.text().contains("`Host`"), "{headers:?}: {}", answer.text());
        }
    }
}

#[test]
fn a_body_in_chunks_is_read_like_any_other() {
    let (_directory, server) = server();
    let mut connection = Connection::open(server.address).unwrap();
    let body = page_json("In chunks", "A *first* page.");
    let mut bytes = request_bytes("POST", "/api/pages", &[JSON, ("Transfer-Encoding", "chunked")], b"");
    for chunk in body.as_bytes().chunks(7) {
        write!(bytes, "{:x}\r\n", chunk.len()).unwrap();
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    connection.send(bytes).unwrap();
    let answer = connection.answer().unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(connection.get("/robots.txt").unwrap().status, 200, "the connection can be used again");
}

#[test]
fn a_client_that_asks_whether_to_send_its_body_is_told_to() {
    let (_directory, server) = server();
    let mut connection = Connection::open(server.address).unwrap();
    let body = page_json("Expected", "A page.");
    let length = body.len().to_string();
    let headers = [JSON, ("Expect", "100-continue"), ("Content-Length", length.as_str())];
    connection.send(request_bytes("POST", "/api/pages", &headers, b"")).unwrap();
    assert_eq!(connection.answer().unwrap().status, 100);
    connection.send(body).unwrap();
    assert_eq!(connection.answer().unwrap().status, 201);
}

/// The first answer to a request whose body is declared and not sent.
fn answer_to_head(server: &Server, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let mut connection = Connection::open(server.address).unwrap();
    connection.send(request_bytes(method, target, headers, b"")).unwrap();
    connection.answer().unwrap()
}

#[test]
fn a_declared_length_over_the_limit_is_answered_in_its_turn_without_the_body() {
    let (_directory, server) = server();
    let created = post(server.address, "A page", "x").unwrap().json();
    let (slug, key) = (created["slug"].as_str().unwrap(), bearer(created["edit_key"].as_str().unwrap()));
    let (page, nowhere) = (format!("/api/pages/{slug}"), "/api/pages/nothing-22222222");
    let key = ("Authorization", key.as_str());
    for expected in [&[("Content-Length", "131073")][..], &[("Content-Length", "131073"), ("Expect", "100-continue")]] {
        for (method, target, headers, problem) in [
            ("POST", "/api/pages", &[JSON][..], (413, "body_too_large")),
            ("POST", "/oauth/token", &[], (413, "body_too_large")),
            ("POST", "/mcp", &[JSON], (413, "body_too_large")),
            ("PATCH", nowhere, &[JSON, key], (404, "not_found")),
            ("PATCH", &page, &[JSON], (401, "missing_key")),
            ("PATCH", &page, &[JSON, key], (413, "body_too_large")),
        ] {
            let answer = answer_to_head(&server, method, target, &[headers, expected].concat());
            assert_eq!(answer.status, problem.0, "{method} {target}: {}", answer.text());
            assert!(answer.text().contains(problem.1) && answer.closes(), "{method} {target}: {}", answer.text());
        }
    }
}

#[test]
fn a_body_over_the_limit_is_answered_413_though_its_client_sends_to_the_end_first() {
    let (_directory, server) = server();
    let body = vec![b' '; 4 * 1024 * 1024];
    for _ in 0..5 {
        for headers in [&[JSON][..], &[]] {
            let answer = request(server.address, "POST", "/api/pages", headers, &body).unwrap();
            assert_eq!(answer.problem(), (413, "body_too_large".to_owned()));
        }
    }
}

#[test]
fn errors_reach_clients_that_send_a_body_where_none_is_read() {
    let (_directory, server) = server();
    let body = vec![b'x'; 1024 * 1024];
    let long = "x".repeat(33 * 1024);
    for (method, target, headers, problem) in [
        ("POST", "/nowhere/at/all", &[][..], (404, "not_found")),
        ("PUT", "/api/pages", &[], (405, "method_not_allowed")),
        ("DELETE", "/api/pages/nothing-22222222", &[], (404, "not_found")),
        ("POST", "/api/pages", &[("X-Long", long.as_str())], (431, "headers_too_large")),
    ] {
        for _ in 0..5 {
            let answer = request(server.address, method, target, headers, &body);
            let answer = answer.unwrap_or_else(|error| panic!("{error} to {method} {target}"));
            assert_eq!(answer.problem(), (problem.0, problem.1.to_owned()), "{method} {target}");
        }
    }
}

#[test]
fn requests_in_one_piece_are_answered_in_their_order() {
    let (_directory, server) = server();
    let mut connection = Connection::open(server.address).unwrap();
    let mut bytes = Vec::new();
    for round in 0..50 {
        bytes.extend(request_bytes("POST", "/api/pages", &[JSON], page_json(&format!("Page {round}"), "x").as_bytes()));
        bytes.extend(request_bytes("GET", "/nowhere/at/all", &[], b""));
    }
    connection.send(bytes).unwrap();
    for round in 0..50 {
        let created = connection.answer().unwrap();
        assert!(created.json()["slug"].as_str().unwrap().starts_with(&format!("page-{round}-")));
        assert_eq!(connection.answer().unwrap().status, 404);
    }
}

#[test]
fn http_1_0_and_connection_close_end_the_connection_after_the_answer() {
    let (_directory, server) = server();
    for head in ["GET /robots.txt HTTP/1.0\r\n\r\n", "GET /robots.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
    {
        let mut connection = Connection::open(server.address).unwrap();
        connection.send(head).unwrap();
        assert_eq!(connection.answer().unwrap().status, 200);
        assert_eq!(connection.rest().unwrap(), b"");
    }
}

#[test]
fn few_file_descriptors_lower_the_number_of_connections_and_never_run_out() {
    let directory = tempdir().unwrap();
    let server = Server::start_as(handbill_after("ulimit -n 64"), directory.path(), &["--create-limit", "0"]);
    let crowd: Vec<_> = (0..100).map(|_| Connection::open(server.address).unwrap()).collect();
    // The admin port has descriptors of its own, so it answers even when the public listener takes no more.
    assert_eq!(request(server.admin, "GET", "/readyz", &[], b"").unwrap().status, 200);
    let until_open = |connections: usize| {
        until_metrics(&server, |metrics| {
            assert!(metrics.contains("\nhandbill_connections_max 32\n"), "{metrics}");
            metrics.contains(&format!("\nhandbill_connections {connections}\n"))
        });
    };
    until_open(32);
    drop(crowd);
    // All places stay taken until the server has noticed that the crowd has closed its connections.
    until_open(0);
    // Most of the crowd may still wait to be accepted. Whether this request is answered or refused, it is behind all of them.
    let _ = request(server.address, "GET", "/robots.txt", &[], b"");
    until_open(0);
    let answer = request(
        server.address,
        "POST",
        "/api/pages",
        &[JSON],
        json!({"title": "a", "content": "b"}).to_string().as_bytes(),
    );
    assert_eq!(answer.unwrap().status, 201);
    let (status, _, log) = server.stop();
    assert!(status.success() && !log.contains("could not accept"), "{log}");
}

/// Reads the server's metrics until they are as expected.
pub(crate) fn until_metrics(server: &Server, are_as_expected: impl Fn(&str) -> bool) {
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let answer = request(server.admin, "GET", "/metrics", &[], b"").unwrap();
        let metrics = answer.text();
        if are_as_expected(metrics) {
            return;
        }
        assert!(Instant::now() < end, "{metrics}");
    }
}
