//! HTTP as the running service speaks it: what is too large, malformed, unusual or out of order.

use std::time::Instant;

use handbill_test_support::client::{Connection, JSON, bearer, get, post, request, request_bytes};
use handbill_test_support::environment::TEST_TIMEOUT;
use handbill_test_support::server::{Server, handbill_after};

#[test]
fn a_head_over_16_kib_is_answered_431_in_words() {
    let server = Server::temporary(&[]);
    let large = |bytes| request(server.address, "GET", "/", &[("X-Large", &"x".repeat(bytes))], b"");
    assert_eq!(large(15 * 1024).unwrap().status, 200);
    for bytes in [16 * 1024, 17 * 1024] {
        assert_eq!(large(bytes).unwrap().problem(), (431, "headers_too_large".to_owned()));
    }
    // What hyper refuses has no body, and the end of the connection may overtake it.
    assert!(large(200 * 1024).is_ok_and(|answer| answer.status == 431) || large(200 * 1024).is_err());
    assert_eq!(get(server.address, "/").unwrap().status, 200);
}

#[test]
fn a_request_without_one_host_is_answered_400_in_words() {
    let server = Server::temporary(&[]);
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
fn a_declared_length_over_the_limit_is_answered_in_its_turn() {
    let server = Server::temporary(&[]);
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
            // The body is declared and not sent.
            let mut connection = Connection::open(server.address).unwrap();
            connection.send(request_bytes(method, target, &[headers, expected].concat(), b"")).unwrap();
            let answer = connection.answer().unwrap();
            assert_eq!(answer.status, problem.0, "{method} {target}: {}", answer.text());
            assert!(answer.text().contains(problem.1) && answer.closes(), "{method} {target}: {}", answer.text());
        }
    }
}

#[test]
fn errors_reach_clients_that_send_a_body_too_large_or_where_none_is_read() {
    let server = Server::temporary(&[]);
    let body = vec![b' '; 4 * 1024 * 1024];
    let long = "x".repeat(17 * 1024);
    for (method, target, headers, problem) in [
        ("POST", "/nowhere/at/all", &[][..], (404, "not_found")),
        ("POST", "/api/pages", &[JSON], (413, "body_too_large")),
        ("POST", "/api/pages", &[], (413, "body_too_large")),
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
fn the_body_of_a_delete_is_read_and_ignored() {
    let server = Server::temporary(&[]);
    let large = vec![b'x'; 200_000];
    for (body, closes) in [(&b"{\"unknown\": 1}"[..], false), (&large, true)] {
        let created = post(server.address, "A page", "x").unwrap().json();
        let path = format!("/api/pages/{}", created["slug"].as_str().unwrap());
        let key = bearer(created["edit_key"].as_str().unwrap());
        let mut connection = Connection::open(server.address).unwrap();
        let deleted = connection.request("DELETE", &path, &[("Authorization", &key)], body).unwrap();
        assert_eq!((deleted.status, deleted.closes()), (204, closes));
        if !closes {
            assert_eq!(connection.get(&path).unwrap().status, 410);
        }
    }
}

#[test]
fn few_file_descriptors_lower_the_number_of_connections() {
    let server = Server::temporary_as(handbill_after("ulimit -n 64"), &["--create-limit", "0"]);
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
    assert_eq!(post(server.address, "a", "b").unwrap().status, 201);
    let (status, _, log) = server.stop();
    assert!(status.success() && !log.contains("cannot accept"), "{log}");
}

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
