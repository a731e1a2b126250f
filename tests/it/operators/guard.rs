//! The token of the operators' API.

use std::fs;

use serde_json::json;

use super::{Operated, TOKEN, request};

/// Every route of the operators' API.
const ROUTES: [(&str, &str); 8] = [
    ("POST", "/takedown"),
    ("GET", "/inspect/a-page-22222222"),
    ("POST", "/scan"),
    ("GET", "/audit"),
    ("GET", "/creates"),
    ("PATCH", "/creates"),
    ("GET", "/log"),
    ("PUT", "/log"),
];

#[tokio::test]
async fn without_a_token_file_every_route_is_closed_and_says_what_to_set() {
    let operated = Operated::closed();
    for (method, path) in ROUTES {
        for token in [None, Some(TOKEN), Some("")] {
            let answer = operated.send(request(method, path, token, "")).await.expect(403);
            assert_eq!(answer.json()["error"], "forbidden");
            assert!(answer.text.contains("--admin-token-file"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn without_the_token_nothing_is_shown_and_nothing_is_taken_down() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    for token in [None, Some(""), Some(&TOKEN[1..]), Some(&*format!("{TOKEN}0")), Some(&*TOKEN.to_uppercase())] {
        for (method, path) in ROUTES {
            let body = json!({"slugs": [page.slug], "reason": "spam", "by": "nobody"});
            let answer = operated.send(request(method, path, token, body)).await.expect(401);
            assert_eq!(answer.json()["error"], "unauthorized", "{method} {path}");
            assert!(answer.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"), "{answer:?}");
        }
    }
    operated.app.read(&page.slug).await.expect_status(200);
    assert_eq!(operated.audit().await.len(), 0);
}

#[tokio::test]
async fn a_new_token_in_the_file_counts_at_once_and_the_old_one_does_not() {
    let operated = Operated::start();
    let new = "fedcba9876543210fedcba9876543210";
    fs::write(&operated.token_file, new).unwrap();
    operated.send(request("GET", "/audit", Some(new), "")).await.expect(200);
    operated.send(request("GET", "/audit", Some(TOKEN), "")).await.expect(401);
}

#[tokio::test]
async fn a_token_that_can_be_guessed_or_not_be_read_closes_the_routes() {
    let operated = Operated::start();
    for short in ["", "\n", "short", &TOKEN[1..]] {
        fs::write(&operated.token_file, short).unwrap();
        operated.send(request("GET", "/audit", Some(short.trim()), "")).await.expect(403);
    }
    fs::remove_file(&operated.token_file).unwrap();
    operated.ask("GET", "/audit", "").await.expect(403);
}
