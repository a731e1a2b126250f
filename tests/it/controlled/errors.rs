//! Errors of a store that fails, and those that a load balancer or the HTTP library would answer itself (spec §7; contract, decision 3).

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use handbill::admin::blocklist::Blocklist;
use handbill::http::error::Code;
use handbill_pages::service::PublishingPolicy;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Calls, Fault, Operation};
use crate::spec::errors::{ask_in_malformed_percent_encoding, no_route_takes, requests};
use crate::support::app::BASE_URL;
use crate::support::calls::new_key;
use crate::support::exchange::{Answer, Request};

#[tokio::test]
async fn connect_is_a_method_like_any_other() {
    // A load balancer takes CONNECT for a request to open a tunnel, and refuses it because of its target.
    no_route_takes(&["CONNECT"]).await;
}

#[tokio::test]
async fn a_head_of_very_many_headers_answers_431_on_every_route() {
    // Through a network, hyper refuses more than a hundred headers before it has made a request of them.
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.page(&page.slug).await;
    for request in requests(&page) {
        let many = (0..400).fold(request, |request, number| request.header(&format!("x-{number}"), "x".repeat(100)));
        app.send(many).await.expect_error(431, "headers_too_large");
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn malformed_percent_encoding_reaches_no_store() {
    let app = TestApp::new();
    ask_in_malformed_percent_encoding(&app).await;
    assert_eq!(app.store.calls(), Calls::default());
}

/// An answer with each error, from a service with a page and a deleted page, and from one that has used up its limits.
async fn every_error() -> Vec<Answer> {
    let mut errors = Vec::new();
    let app = TestApp::new();
    let (page, deleted) = (app.published().await, app.deleted().await);
    let (slug, key) = (&page.slug, &page.key);
    let form = |form: &str| Request::token(form.to_owned());
    let with_a_key = |key: &str, content: &str| {
        Request::create(json!({"title": "T", "content": content, "edit_key": key}).to_string())
    };
    let new_key = new_key();
    app.send(with_a_key(&new_key, "first")).await.expect_status(201);
    let client = format!("client_id={slug}&client_secret={key}");
    for request in [
        Request::create("nonsense"),
        Request::create(r#"{"title": "T", "content": ""}"#),
        with_a_key(&new_key, "second"),
        Request::update(slug, "{}"),
        Request::update(slug, "{}").key("wrong"),
        Request::update(slug, "{}").query("key=x"),
        Request::get("/api/pages/never-was-2222bbbb"),
        Request::get("/no/such/route"),
        Request::new("PUT", "/api/pages"),
        Request::new("POST", format!("/api/pages/{slug}")),
        Request::get(format!("/api/pages/{}", deleted.slug)),
        Request::update(slug, "{}").key(key).header("if-match", "\"9-json-1\""),
        Request::create(json!({"title": "T", "content": "a".repeat(102_401)}).to_string()),
        Request::create(" ".repeat(131_073)),
        Request::get("/").header("x-long", "x".repeat(40_000)),
        form(""),
        form("grant_type=password"),
        form("grant_type=client_credentials"),
        form("grant_type=client_credentials&client_id=x&client_secret=y"),
        form(&format!("grant_type=client_credentials&scope=all&{client}")),
        form(&"x".repeat(131_073)),
        Request::get("/oauth/token"),
        Request::new("POST", "/").header("sec-fetch-site", "cross-site"),
    ] {
        errors.push(app.send(request).await);
    }
    for fault in [Fault::Panic, Fault::Unavailable, Fault::Unreadable, Fault::NotDoneAndUnknown] {
        app.store.next(Operation::Lookup, fault);
        errors.push(app.read(slug).await);
    }
    let policy = PublishingPolicy::default();
    Blocklist::parse("spam.example", &[]).unwrap().put_into_force(&policy);
    let operated = Setup::new().policy(policy).start();
    errors.push(operated.create(r#"{"title": "T", "content": "https://spam.example/"}"#).await);
    let used_up = Setup::new().limits(1, 1).token_limit(1).start();
    let page = used_up.published().await;
    used_up.update(&page, json!({})).await.expect_status(200);
    used_up.send(form("")).await.expect_status(400);
    errors.push(used_up.create(r#"{"title": "T", "content": "c"}"#).await);
    errors.push(used_up.update(&page, json!({})).await);
    errors.push(used_up.send(form("")).await);
    tokio::time::pause();
    errors.push(app.create(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())).await);
    errors
}

/// Words about the next step, for each code. A message must contain at least one of them.
const NEXT_STEPS: [(&str, &[&str]); 23] = [
    ("invalid_body", &["Send", "Use 1 to", "Allowed:"]),
    ("empty_content", &["Send at least one character"]),
    ("content_refused", &["Remove it, or ask the operators"]),
    ("key_in_use", &["Make a new key for a new page"]),
    ("missing_key", &["Send the page's edit key"]),
    ("invalid_key", &["Use the one that was shown"]),
    ("key_in_query", &["Send the edit key in the header"]),
    ("cross_origin", &["Use the form on this site's home page"]),
    ("not_found", &["Check the slug: it is the last part of the page's URL", "`/llms.txt` explains how"]),
    ("method_not_allowed", &["Use "]),
    ("timeout", &["send the request again"]),
    ("gone", &["publish a new page instead"]),
    ("precondition_failed", &["read the page again"]),
    ("content_too_large", &["Shorten it or split it"]),
    ("body_too_large", &["Shorten `content`", "Send `grant_type`, `client_id` and `client_secret` only"]),
    ("rate_limited", &["Retry in"]),
    ("headers_too_large", &["Send fewer or shorter ones"]),
    ("internal", &["read the page before you try again"]),
    ("unavailable", &["retry in"]),
    ("invalid_request", &["Send"]),
    ("invalid_client", &["Send the page's slug", "Check that `client_id`"]),
    ("unsupported_grant_type", &["Send `grant_type=client_credentials`"]),
    ("invalid_scope", &["Leave it out"]),
];

#[tokio::test]
async fn every_error_says_by_its_message_alone_what_to_do_next() {
    let errors = every_error().await;
    let met: BTreeSet<String> = errors.iter().map(|answer| answer.field("error")).collect();
    assert_eq!(met, Code::all().map(|code| code.as_str().to_owned()).collect(), "every code was met");
    for answer in errors {
        let (code, message) = (answer.field("error"), answer.field("message"));
        let (_, steps) = NEXT_STEPS.iter().find(|(of, _)| *of == code).unwrap();
        assert!(
            steps.iter().any(|step| message.contains(step)),
            "{code}: {message:?} has none of {steps:?}. If the new words say the next step as well, change NEXT_STEPS"
        );
        match answer.status {
            401 => {
                let metadata = if code == "invalid_client" {
                    "/.well-known/oauth-authorization-server"
                } else {
                    let url = format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource\"");
                    assert!(answer.header("www-authenticate").contains(&url), "{answer:?}");
                    "/.well-known/oauth-protected-resource"
                };
                assert!(message.contains(&format!("`{metadata}`")), "{code}: {message}");
            }
            405 => {
                for method in answer.members("allow") {
                    assert!(message.contains(&method.to_ascii_uppercase()), "{method}: {message}");
                }
            }
            429 | 503 => {
                let seconds = answer.retry_after();
                assert!(message.contains(&format!("in {seconds} seconds")), "{code}: {message}");
            }
            _ => {}
        }
    }
}
