//! HTTP as the running service speaks it: what is too large, malformed, unusual or out of order.

use std::io::Write;
use std::time::Instant;

use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::client::{Connection, JSON, get, page_json, request, request_bytes};
use crate::support::{PATIENCE, Server, handbill_after};

fn server() -> (TempDir, Server) {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    (directory, server)
}

#[test]
fn a_head_over_32_kib_is_answered_431_in_words_however_long_it_is() {
    let (_directory, server) = server();
    let large = |bytes| get_with_header(&server, &"x".repeat(bytes));
    assert_eq!(large(31 * 1024).0, 200);
    for bytes in [32 * 1024, 33 * 1024, 34 * 1024, 64 * 1024, 200 * 1024] {
        for _ in 0..5 {
            let (status, body) = large(bytes);
            assert_eq!(status, 431);
            assert!(body.contains(r#""error":"headers_too_large""#), "{body}");
        }
    }
}

fn get_with_header(server: &Server, value: &str) -> (u16, String) {
    let answer = request(server.address, "GET", "/", &[("X-Large", value)], b"").unwrap();
    (answer.status, answer.text().to_owned())
}

#[test]
fn what_is_no_request_is_answered_400_alone_and_the_connection_closed() {
    let (_directory, server) = server();
    for nonsense in [
        "NONSENSE\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        "GET / HTTP/1.1\r\nX: \0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}",
    ] {
        let mut connection = Connection::open(server.address).unwrap();
        connection.send(nonsense).unwrap();
        let answer = connection.answer().unwrap_or_else(|error| panic!("{error} to {nonsense:?}"));
        assert_eq!((answer.status, answer.text()), (400, ""), "{nonsense:?}");
        assert_eq!(connection.rest().unwrap(), b"");
    }
    assert_eq!(get(server.address, "/").unwrap().status, 200);
}

#[test]
fn a_body_of_two_lengths_is_refused() {
    let (_directory, server) = server();
    for lengths in ["Content-Length: 3\r\nContent-Length: 4\r\n", "Content-Length: 4, 5\r\n"] {
        let mut connection = Connection::open(server.address).unwrap();
        connection.send(format!("POST /api/pages HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\nabcd")).unwrap();
        assert_eq!(connection.answer().unwrap().status, 400, "{lengths}");
        assert_eq!(connection.rest().unwrap(), b"");
    }
}

#[test]
fn a_304_says_nothing_of_a_length_and_its_connection_goes_on() {
    let (_directory, server) = server();
    let mut connection = Connection::open(server.address).unwrap();
    let tag = connection.get("/robots.txt").unwrap().header("etag").unwrap().to_owned();
    for method in ["GET", "HEAD", "GET"] {
        let answer = connection.request(method, "/robots.txt", &[("If-None-Match", &tag)], b"").unwrap();
        assert_eq!(answer.status, 304, "{method}");
        for name in ["content-length", "transfer-encoding", "content-type", "connection"] {
            assert_eq!(answer.header(name), None, "{name}: {method}");
        }
    }
    assert_eq!(connection.get("/robots.txt").unwrap().status, 200);
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
fn a_head_request_is_answered_without_a_body_on_a_connection_that_lives_on() {
    let (_directory, server) = server();
    let mut connection = Connection::open(server.address).unwrap();
    let head = connection.request("HEAD", "/robots.txt", &[], b"").unwrap();
    let whole = connection.get("/robots.txt").unwrap();
    assert_eq!(head.header("content-length"), Some(whole.body.len().to_string().as_str()));
}

#[test]
fn a_compressed_body_is_refused() {
    let (_directory, server) = server();
    let body = page_json("Packed", "x");
    let answer =
        request(server.address, "POST", "/api/pages", &[JSON, ("Content-Encoding", "gzip")], body.as_bytes()).unwrap();
    assert_eq!(answer.problem(), (400, "invalid_body".to_owned()));
}

#[test]
fn few_file_descriptors_lower_the_number_of_connections_and_never_run_out() {
    let directory = tempdir().unwrap();
    let server = Server::start_as(handbill_after("ulimit -n 64"), directory.path(), &["--create-limit", "0"]);
    let crowd: Vec<_> = (0..100).map(|_| Connection::open(server.address).unwrap()).collect();
    // The operators' listener has descriptors of its own, whatever the public does, and tells when no more are taken.
    assert_eq!(request(server.admin, "GET", "/readyz", &[], b"").unwrap().status, 200);
    let end = Instant::now() + PATIENCE;
    loop {
        let metrics = request(server.admin, "GET", "/metrics", &[], b"").unwrap();
        assert!(metrics.text().contains("\nhandbill_connections_max 32\n"), "{}", metrics.text());
        if metrics.text().contains("\nhandbill_connections 32\n") {
            break;
        }
        assert!(Instant::now() < end, "{}", metrics.text());
    }
    drop(crowd);
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
