//! The token endpoint (spec §4.5; contract, decision 14; RFC 6749).
//!
//! That every one of its answers is no-store, and every error has both OAuth's and our text in the characters that RFC
//! 6749 §5.2 allows and holds no key, `TestApp::send` holds against each.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;

use crate::support::app::{Published, Setup, TestApp};
use crate::support::exchange::{Request, TOKEN};
use crate::support::stores::{Calls, Fault, Operation};

const GRANT: &str = "grant_type=client_credentials";
const NEVER_USED: &str = "never-was-2222bbbb";

fn post_form(page: &Published) -> String {
    format!("{GRANT}&client_id={}&client_secret={}", page.slug, page.key)
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

/// A right form with `form` after it.
fn with(page: &Published, form: &str) -> Request {
    Request::token(format!("{}&{form}", post_form(page)))
}

/// A service whose client may ask for one more token, and a page on it.
async fn limited_to(limit: u32) -> (TestApp, Published) {
    let app = Setup::new().token_limit(limit).start();
    let page = app.published().await;
    (app, page)
}

#[tokio::test]
async fn slug_and_key_in_the_form_give_the_same_key_as_a_bearer_token() {
    let app = TestApp::new();
    let page = app.published().await;
    let answer = app.send(Request::token(post_form(&page))).await;
    let expected = json!({"access_token": page.key, "token_type": "Bearer", "scope": "post:edit post:delete"});
    assert_eq!(answer.has(200).json(), expected);
    assert_eq!(answer.header("content-type"), "application/json");
    let update = Request::update(&page.slug, r#"{"content": "new"}"#).key(&answer.field("access_token"));
    app.send(update).await.has(200);
}

#[tokio::test]
async fn slug_and_key_by_http_basic_give_a_token() {
    let app = TestApp::new();
    let page = app.published().await;
    let encoded = |text: &str| text.replace('_', "%5f").replace('-', "%2D");
    for authorization in [
        basic(&page.slug, &page.key),
        basic(&page.slug, &page.key).replacen("Basic", "bASIC", 1),
        // Each half is encoded as in a form before they are joined (RFC 6749 §2.3.1).
        basic(&encoded(&page.slug), &encoded(&page.key)),
    ] {
        let answer = app.send(Request::token(GRANT).header("authorization", &authorization)).await;
        assert_eq!(answer.has(200).field("access_token"), page.key);
    }
}

#[tokio::test]
async fn a_client_that_uses_http_basic_may_name_itself_in_the_form_too() {
    let app = TestApp::new();
    let page = app.published().await;
    let named = |id: &str| {
        let form = format!("{GRANT}&client_id={id}&client_secret=");
        Request::token(form).header("authorization", basic(&page.slug, &page.key))
    };
    app.send(named(&page.slug)).await.has(200);
    app.send(named(NEVER_USED)).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn the_form_may_have_a_charset_and_fields_that_mean_nothing_here() {
    let app = TestApp::new();
    let page = app.published().await;
    let form = format!("{}&resource=https%3A%2F%2Fpages.example&x=", post_form(&page));
    let content_type = "Application/X-WWW-Form-URLEncoded; charset=UTF-8";
    let request = Request::new("POST", TOKEN).header("content-type", content_type).body(form);
    app.send(request).await.has(200);
    app.send(Request::token(post_form(&page)).query("trace=1")).await.has(200);
}

#[tokio::test]
async fn the_token_does_not_expire_and_cannot_be_refreshed() {
    let app = TestApp::new();
    let page = app.published().await;
    let token = app.send(Request::token(post_form(&page))).await.json();
    assert!(token.get("expires_in").is_none() && token.get("refresh_token").is_none(), "{token}");
}

#[tokio::test]
async fn a_token_allows_both_scopes_whichever_of_them_are_asked_for() {
    let app = TestApp::new();
    let page = app.published().await;
    for scope in ["", "post:edit", "post:delete", "post:delete+post:edit", "post%3Aedit%20post%3Adelete"] {
        let answer = app.send(with(&page, &format!("scope={scope}"))).await;
        assert_eq!(answer.has(200).field("scope"), "post:edit post:delete", "{scope}");
    }
}

#[tokio::test]
async fn a_scope_beyond_what_there_is_answers_400_invalid_scope() {
    let app = TestApp::new();
    let page = app.published().await;
    for scope in ["post:read", "post:edit+admin", "POST:EDIT", "post%3Aedit%2Cpost%3Adelete", "post:edit%09"] {
        app.send(with(&page, &format!("scope={scope}"))).await.fails(400, "invalid_scope");
    }
}

#[tokio::test]
async fn a_missing_or_empty_grant_type_answers_400_invalid_request() {
    let app = TestApp::new();
    let page = app.published().await;
    let credentials = format!("client_id={}&client_secret={}", page.slug, page.key);
    for form in
        [credentials.clone(), format!("{credentials}&grant_type="), format!("{credentials}&grant_type"), String::new()]
    {
        let answer = app.send(Request::token(form)).await;
        assert!(answer.fails(400, "invalid_request").field("message").contains("`grant_type`"), "{answer:?}");
    }
}

#[tokio::test]
async fn another_grant_answers_400_unsupported_grant_type() {
    let app = TestApp::new();
    let page = app.published().await;
    for grant in ["authorization_code", "password", "refresh_token", "Client_Credentials", "client_credentials%20"] {
        let form = format!("grant_type={grant}&client_id={}&client_secret={}", page.slug, page.key);
        app.send(Request::token(form)).await.fails(400, "unsupported_grant_type");
    }
}

#[tokio::test]
async fn a_field_that_is_there_twice_answers_400_invalid_request() {
    let app = TestApp::new();
    let page = app.published().await;
    for (form, named) in [
        (GRANT.to_owned(), "`grant_type`"),
        (format!("client_id={}", page.slug), "`client_id`"),
        (format!("client_secret={}", page.key), "`client_secret`"),
        ("client%5Fsecret=".to_owned(), "`client_secret`"),
        ("scope=post:edit&scope=post:delete".to_owned(), "`scope`"),
        ("resource=a&resource=b".to_owned(), "twice"),
    ] {
        let answer = app.send(with(&page, &form)).await;
        assert!(answer.fails(400, "invalid_request").field("message").contains(named), "{form}: {answer:?}");
    }
    let twice = Request::token(GRANT).header("authorization", basic(&page.slug, &page.key));
    app.send(twice.header("authorization", basic(&page.slug, &page.key))).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn the_name_of_a_field_that_is_there_twice_is_not_repeated_where_it_may_be_a_key() {
    let app = TestApp::new();
    let page = app.published().await;
    let answer = app.send(Request::token(format!("{GRANT}&{key}=1&{key}=2", key = page.key))).await;
    assert!(!answer.fails(400, "invalid_request").text().contains(&page.key[4..]), "{answer:?}");
}

#[tokio::test]
async fn two_ways_to_authenticate_at_once_answer_400_invalid_request() {
    let app = TestApp::new();
    let page = app.published().await;
    for authorization in [basic(&page.slug, &page.key), format!("Bearer {}", page.key), "Basic nonsense".to_owned()] {
        let request = Request::token(post_form(&page)).header("authorization", &authorization);
        app.send(request).await.fails(400, "invalid_request");
    }
}

#[tokio::test]
async fn credentials_in_the_query_answer_400_invalid_request_even_beside_a_right_form() {
    let app = TestApp::new();
    let page = app.published().await;
    for query in [
        format!("client_id={}", page.slug),
        "client_secret=x".to_owned(),
        "client%5Fsecret=".to_owned(),
        format!("a={}", page.key),
        page.key.clone(),
        "access_token=x".to_owned(),
    ] {
        app.send(Request::token(post_form(&page)).query(&query)).await.fails(400, "invalid_request");
    }
    let all = format!("{}&client_id={}&client_secret={}", GRANT, page.slug, page.key);
    app.send(Request::token("").query(&all)).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn another_content_type_or_an_encoding_answers_400_invalid_request() {
    let app = TestApp::new();
    let page = app.published().await;
    let json = json!({"grant_type": "client_credentials", "client_id": page.slug, "client_secret": page.key});
    app.send(Request::new("POST", TOKEN).json(json.to_string())).await.fails(400, "invalid_request");
    app.send(Request::new("POST", TOKEN).body(post_form(&page))).await.fails(400, "invalid_request");
    for content_type in ["text/plain", "multipart/form-data; boundary=x", "", "application/x-www-form-urlencodedx"] {
        let request = Request::token(post_form(&page)).without("content-type").header("content-type", content_type);
        app.send(request).await.fails(400, "invalid_request");
    }
    let encoded = Request::token(post_form(&page)).header("content-encoding", "identity");
    app.send(encoded).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn missing_or_empty_credentials_answer_401_invalid_client() {
    let app = TestApp::new();
    let page = app.published().await;
    let (slug, key) = (&page.slug, &page.key);
    for form in [
        GRANT.to_owned(),
        format!("{GRANT}&client_id={slug}"),
        format!("{GRANT}&client_secret={key}"),
        format!("{GRANT}&client_id={slug}&client_secret="),
        format!("{GRANT}&client_id=&client_secret={key}"),
    ] {
        app.send(Request::token(form)).await.fails(401, "invalid_client");
    }
    for authorization in [
        basic("", ""),
        basic(slug, ""),
        basic("", key),
        format!("Basic {}", BASE64_STANDARD.encode(slug)),
        "Basic".to_owned(),
        "Basic !".to_owned(),
        format!("Basic {slug}:{key}"),
        format!("Bearer {key}"),
        key.clone(),
    ] {
        let request = Request::token(GRANT).header("authorization", &authorization);
        app.send(request).await.fails(401, "invalid_client");
    }
    app.send(Request::token(GRANT).header("authorization", b"Basic \xff")).await.fails(401, "invalid_client");
    assert_eq!(app.store.calls().lookups, 0, "nobody is looked for who has not said who they are");
}

#[tokio::test]
async fn wrong_or_unknown_credentials_and_a_deleted_page_answer_401_invalid_client_alike() {
    let app = TestApp::new();
    let (page, other, deleted) = (app.published().await, app.published().await, app.deleted().await);
    let last = if page.key.ends_with('x') { "y" } else { "x" };
    let nearly = format!("{}{last}", &page.key[..page.key.len() - 1]);
    let mut texts = Vec::new();
    for (id, secret) in [
        (page.slug.as_str(), other.key.as_str()),
        (&page.slug, &nearly),
        (&page.slug, "nonsense"),
        (&page.slug, "%ff"),
        (NEVER_USED, &page.key),
        ("no_slug", &page.key),
        ("%ff", &page.key),
        (&deleted.slug, &deleted.key),
        // The two mixed up.
        (&page.key, &page.slug),
    ] {
        let form = format!("{GRANT}&client_id={id}&client_secret={secret}");
        let by_form = app.send(Request::token(form)).await;
        let by_basic = app.send(Request::token(GRANT).header("authorization", basic(id, secret))).await;
        texts.push(by_form.fails(401, "invalid_client").field("message"));
        by_basic.fails(401, "invalid_client");
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

#[tokio::test]
async fn a_401_asks_for_basic_credentials_and_says_where_the_metadata_is() {
    let app = TestApp::new();
    for form in [GRANT.to_owned(), format!("{GRANT}&client_id={NEVER_USED}&client_secret=x")] {
        let answer = app.send(Request::token(form)).await;
        assert_eq!(answer.has(401).header("www-authenticate"), r#"Basic realm="handbill", charset="UTF-8""#);
        assert!(answer.field("message").contains("/.well-known/oauth-authorization-server"), "{answer:?}");
    }
}

#[tokio::test]
async fn the_order_is_rate_limit_form_grant_client_scope() {
    let (app, page) = limited_to(5).await;
    let right = format!("client_id={}&client_secret={}", page.slug, page.key);
    // Each has every fault that comes after its own.
    app.send(Request::token("scope=admin")).await.fails(400, "invalid_request");
    app.send(Request::token("grant_type=password&client_id=x&client_id=y")).await.fails(400, "invalid_request");
    app.send(Request::token("grant_type=password&scope=admin")).await.fails(400, "unsupported_grant_type");
    app.send(Request::token(format!("{GRANT}&scope=admin"))).await.fails(401, "invalid_client");
    app.send(Request::token(format!("{GRANT}&{right}&scope=admin"))).await.fails(400, "invalid_scope");
    let before = app.store.calls();
    app.send(Request::token(" ".repeat(131_073))).await.fails(429, "rate_limited");
    app.send(Request::token("scope=admin")).await.fails(429, "rate_limited");
    app.send(Request::token(post_form(&page))).await.fails(429, "rate_limited");
    assert_eq!(app.store.calls(), before);
}

#[tokio::test]
async fn sixty_attempts_an_hour_are_admitted_whatever_becomes_of_them_and_the_next_is_not() {
    let app = TestApp::new();
    let page = app.published().await;
    for _ in 0..20 {
        app.send(Request::token(post_form(&page))).await.has(200);
        app.send(Request::token(GRANT)).await.has(401);
        app.send(Request::token("")).await.has(400);
    }
    let refused = app.send(Request::token(post_form(&page))).await;
    refused.fails(429, "rate_limited");
    assert_eq!(refused.retry_after(), 3600);
    assert!(refused.field("message").contains("3600 seconds"), "{refused:?}");
    app.send(Request::token(post_form(&page)).peer("192.0.2.9")).await.has(200);
    app.clock.advance(Duration::from_secs(3_599));
    app.send(Request::token(post_form(&page))).await.has(429);
    app.clock.advance(Duration::from_secs(1));
    app.send(Request::token(post_form(&page))).await.has(200);
}

#[tokio::test]
async fn tokens_have_a_window_of_their_own() {
    let app = Setup::new().limits(1, 1).token_limit(1).start();
    let page = app.published().await;
    app.update(&page, json!({})).await.has(200);
    app.send(Request::token(post_form(&page))).await.has(200);
    app.send(Request::token(post_form(&page))).await.has(429);
    let (app, page) = limited_to(1).await;
    app.send(Request::token("")).await.has(400);
    app.send(Request::token("")).await.has(429);
    app.update(&page, json!({})).await.has(200);
    app.published().await;
}

#[tokio::test]
async fn every_answer_behind_the_limit_says_what_is_left_of_it() {
    let (app, page) = limited_to(3).await;
    for (left, form) in [(2, post_form(&page)), (1, GRANT.to_owned()), (0, String::new()), (0, String::new())] {
        let answer = app.send(Request::token(form)).await;
        assert_eq!(answer.header("ratelimit"), format!(r#""token";r={left};t=3600"#), "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), r#""token";q=3;w=3600"#, "{answer:?}");
    }
}

#[tokio::test]
async fn a_limit_of_0_is_off() {
    let (app, page) = limited_to(0).await;
    for _ in 0..100 {
        let answer = app.send(Request::token(post_form(&page))).await;
        assert!(!answer.has(200).headers.contains_key("ratelimit"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_of_over_128_kib_answers_413_and_one_of_exactly_that_is_read() {
    let app = TestApp::new();
    let page = app.published().await;
    let form = |bytes: usize| {
        let form = format!("{}&x=", post_form(&page));
        format!("{form}{}", "x".repeat(bytes - form.len()))
    };
    app.send(Request::token(form(131_072))).await.has(200);
    app.send(Request::token(form(131_073))).await.fails(413, "body_too_large");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_answers_408() {
    let app = TestApp::new();
    let stalled = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    app.send(Request::token(stalled)).await.fails(408, "timeout");
}

#[tokio::test]
async fn a_body_that_breaks_off_answers_400_invalid_request() {
    let app = TestApp::new();
    let broken = Body::from_stream(stream::iter([Ok(Bytes::from(GRANT)), Err(std::io::Error::other("gone"))]));
    app.send(Request::token(broken)).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn another_method_answers_405_that_allows_post_alone() {
    let app = TestApp::new();
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "BREW"] {
        let answer = app.send(Request::new(method, TOKEN)).await;
        assert_eq!(answer.has(405).members("allow"), ["post"]);
        if method != "HEAD" {
            assert!(answer.fails(405, "method_not_allowed").field("message").contains("POST"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn too_many_headers_a_bug_and_an_outage_are_answered_as_oauth_has_it_too() {
    let app = TestApp::new();
    let page = app.published().await;
    let request = || Request::token(post_form(&page));
    app.send(request().header("x-long", "x".repeat(40_000))).await.fails(431, "headers_too_large");
    app.store.next(Operation::Lookup, Fault::Panic);
    app.send(request()).await.fails(500, "internal");
    app.store.next(Operation::Lookup, Fault::Unavailable);
    app.send(request()).await.fails(503, "unavailable");
    app.send(request()).await.has(200);
}

#[tokio::test]
async fn a_store_that_never_answers_is_answered_503_in_time() {
    let app = TestApp::new();
    let page = app.published().await;
    tokio::time::pause();
    app.store.next(Operation::Lookup, Fault::Hang);
    app.send(Request::token(post_form(&page))).await.fails(503, "unavailable");
}

#[tokio::test]
async fn a_preflight_spends_nothing_and_a_page_elsewhere_may_ask_for_a_token() {
    let (app, page) = limited_to(1).await;
    for _ in 0..3 {
        let preflight = Request::new("OPTIONS", TOKEN)
            .header("origin", "https://elsewhere.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type");
        assert!(app.send(preflight).await.members("access-control-allow-methods").contains(&"post".to_owned()));
    }
    app.send(Request::token(post_form(&page))).await.has(200);
}

#[tokio::test]
async fn a_token_is_given_without_a_write() {
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.store.calls();
    app.send(Request::token(post_form(&page))).await.has(200);
    assert_eq!(app.store.calls(), Calls { lookups: before.lookups + 1, ..before });
}

#[tokio::test]
async fn a_token_of_a_deleted_page_opens_nothing() {
    let app = TestApp::new();
    let page = app.published().await;
    let token = app.send(Request::token(post_form(&page))).await.field("access_token");
    app.delete(&page).await.has(204);
    app.send(Request::update(&page.slug, "{}").key(&token)).await.fails(410, "gone");
    app.send(Request::token(post_form(&page))).await.fails(401, "invalid_client");
}
