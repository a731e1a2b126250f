//! The token endpoint (spec §4.5; contract, decision 14; RFC 6749).
//!
//! `TestApp::send` checks that each of its answers is no-store. It also checks that each error has both OAuth's and our
//! text, uses only the characters that RFC 6749 §5.2 allows, and holds no key.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::json;

use super::authentication::queries_around;
use crate::in_process::app::{BASE_URL, Published, TestApp};
use crate::in_process::exchange::{NEVER_USED, Request, TOKEN};

pub(crate) const GRANT: &str = "grant_type=client_credentials";

pub(crate) fn post_form(page: &Published) -> String {
    format!("{GRANT}&client_id={}&client_secret={}", page.slug, page.key)
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

fn with(page: &Published, form: &str) -> Request {
    Request::token(format!("{}&{form}", post_form(page)))
}

#[tokio::test]
async fn slug_and_key_in_the_form_give_the_same_key_as_a_bearer_token() {
    let (app, page) = TestApp::with_page().await;
    let answer = app.send(Request::token(post_form(&page))).await;
    let expected = json!({"access_token": page.key, "token_type": "Bearer", "scope": "post:edit post:delete"});
    assert_eq!(answer.expect_status(200).json(), expected);
    assert_eq!(answer.header("content-type"), "application/json");
    let update = Request::update(&page.slug, r#"{"content": "new"}"#).key(&answer.field("access_token"));
    app.send(update).await.expect_status(200);
}

#[tokio::test]
async fn slug_and_key_by_http_basic_give_a_token() {
    let (app, page) = TestApp::with_page().await;
    let encoded = |text: &str| text.replace('_', "%5f").replace('-', "%2D");
    for authorization in [
        basic(&page.slug, &page.key),
        basic(&page.slug, &page.key).replacen("Basic", "bASIC", 1),
        // Each half is encoded as in a form before they are joined (RFC 6749 §2.3.1).
        basic(&encoded(&page.slug), &encoded(&page.key)),
    ] {
        let answer = app.send(Request::token(GRANT).header("authorization", &authorization)).await;
        assert_eq!(answer.expect_status(200).field("access_token"), page.key);
    }
}

#[tokio::test]
async fn a_client_of_http_basic_may_name_itself_in_the_form_too() {
    let (app, page) = TestApp::with_page().await;
    let named = |id: &str| {
        let form = format!("{GRANT}&client_id={id}&client_secret=");
        Request::token(form).header("authorization", basic(&page.slug, &page.key))
    };
    app.send(named(&page.slug)).await.expect_status(200);
    app.send(named(NEVER_USED)).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn the_form_may_have_a_charset_and_other_fields() {
    let (app, page) = TestApp::with_page().await;
    let form = format!("{}&resource=https%3A%2F%2Fpages.example&x=", post_form(&page));
    let content_type = "Application/X-WWW-Form-URLEncoded; charset=UTF-8";
    let request = Request::new("POST", TOKEN).header("content-type", content_type).body(form);
    app.send(request).await.expect_status(200);
    app.send(Request::token(post_form(&page)).query("trace=1")).await.expect_status(200);
}

#[tokio::test]
async fn a_token_allows_both_scopes_whichever_of_them_are_asked_for() {
    let (app, page) = TestApp::with_page().await;
    for scope in ["", "post:edit", "post:delete", "post:delete+post:edit", "post%3Aedit%20post%3Adelete"] {
        let answer = app.send(with(&page, &format!("scope={scope}"))).await;
        assert_eq!(answer.expect_status(200).field("scope"), "post:edit post:delete", "{scope}");
    }
}

#[tokio::test]
async fn a_fault_of_the_form_has_its_code_and_names_its_field() {
    let (app, page) = TestApp::with_page().await;
    let credentials = format!("client_id={}&client_secret={}", page.slug, page.key);
    let without_grant = ["", &credentials, &format!("{credentials}&grant_type="), &format!("{credentials}&grant_type")];
    let missing = without_grant.map(|form| (form.to_owned(), "invalid_request", "`grant_type`"));
    let grants = ["authorization_code", "password", "refresh_token", "Client_Credentials", "client_credentials%20"];
    let other =
        grants.map(|grant| (format!("grant_type={grant}&{credentials}"), "unsupported_grant_type", "`grant_type`"));
    let twice = [
        (GRANT, "`grant_type`"),
        (&*format!("client_id={}", page.slug), "`client_id`"),
        (&*format!("client_secret={}", page.key), "`client_secret`"),
        ("client%5Fsecret=", "`client_secret`"),
        ("scope=post:edit&scope=post:delete", "`scope`"),
        ("resource=a&resource=b", "twice"),
    ]
    .map(|(field, named)| (format!("{}&{field}", post_form(&page)), "invalid_request", named));
    let scopes = ["post:read", "post:edit+admin", "POST:EDIT", "post%3Aedit%2Cpost%3Adelete", "post:edit%09"];
    let beyond = scopes.map(|scope| (format!("{}&scope={scope}", post_form(&page)), "invalid_scope", "`scope`"));
    for (form, code, named) in missing.into_iter().chain(other).chain(twice).chain(beyond) {
        let answer = app.send(Request::token(form.clone())).await;
        assert!(answer.expect_error(400, code).field("message").contains(named), "{form}: {answer:?}");
    }
    let answer = app.send(Request::token(format!("{GRANT}&{key}=1&{key}=2", key = page.key))).await;
    assert!(!answer.expect_error(400, "invalid_request").text().contains(&page.key[4..]), "{answer:?}");
    let twice = Request::token(GRANT).header("authorization", basic(&page.slug, &page.key));
    app.send(twice.header("authorization", basic(&page.slug, &page.key))).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn two_ways_to_authenticate_at_once_answer_400_invalid_request() {
    let (app, page) = TestApp::with_page().await;
    for authorization in [basic(&page.slug, &page.key), format!("Bearer {}", page.key), "Basic nonsense".to_owned()] {
        let request = Request::token(post_form(&page)).header("authorization", &authorization);
        app.send(request).await.expect_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn credentials_in_the_query_answer_400_beside_a_right_form() {
    let (app, page) = TestApp::with_page().await;
    let mut queries = queries_around(&page.key);
    queries.push(format!("client_id={}", page.slug));
    queries.extend(["client_secret=x", "client%5Fsecret=", "access_token=x"].map(str::to_owned));
    for query in queries {
        app.send(Request::token(post_form(&page)).query(&query)).await.expect_error(400, "invalid_request");
    }
    let all = format!("{}&client_id={}&client_secret={}", GRANT, page.slug, page.key);
    app.send(Request::token("").query(&all)).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn another_content_type_or_an_encoding_answers_400() {
    let (app, page) = TestApp::with_page().await;
    let json = json!({"grant_type": "client_credentials", "client_id": page.slug, "client_secret": page.key});
    app.send(Request::new("POST", TOKEN).json(json.to_string())).await.expect_error(400, "invalid_request");
    app.send(Request::new("POST", TOKEN).body(post_form(&page))).await.expect_error(400, "invalid_request");
    for content_type in ["text/plain", "multipart/form-data; boundary=x", "", "application/x-www-form-urlencodedx"] {
        let request = Request::token(post_form(&page)).without("content-type").header("content-type", content_type);
        app.send(request).await.expect_error(400, "invalid_request");
    }
    let encoded = Request::token(post_form(&page)).header("content-encoding", "identity");
    app.send(encoded).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn missing_or_empty_credentials_answer_401_invalid_client() {
    let (app, page) = TestApp::with_page().await;
    let (slug, key) = (&page.slug, &page.key);
    for form in [
        GRANT.to_owned(),
        format!("{GRANT}&client_id={slug}"),
        format!("{GRANT}&client_secret={key}"),
        format!("{GRANT}&client_id={slug}&client_secret="),
        format!("{GRANT}&client_id=&client_secret={key}"),
    ] {
        app.send(Request::token(form)).await.expect_error(401, "invalid_client");
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
        app.send(request).await.expect_error(401, "invalid_client");
    }
    app.send(Request::token(GRANT).header("authorization", b"Basic \xff")).await.expect_error(401, "invalid_client");
}

#[tokio::test]
async fn wrong_or_unknown_credentials_answer_401_alike() {
    let app = TestApp::new();
    let (page, other, deleted) = (app.published().await, app.published().await, app.deleted().await);
    let last = if page.key.ends_with('x') { "y" } else { "x" };
    let nearly = format!("{}{last}", &page.key[..page.key.len() - 1]);
    let (url, link) = (format!("{BASE_URL}/{}", page.slug), format!("{BASE_URL}/{}/edit#{}", page.slug, page.key));
    let mut texts = Vec::new();
    for (id, secret) in [
        (page.slug.as_str(), other.key.as_str()),
        (&page.slug, &nearly),
        (&page.slug, "nonsense"),
        (NEVER_USED, &page.key),
        ("no_slug", &page.key),
        (&deleted.slug, &deleted.key),
        // The slug and the key are swapped.
        (&page.key, &page.slug),
        (&url, &page.key),
        (&page.slug, &link),
    ] {
        let form = format!("{GRANT}&client_id={id}&client_secret={secret}");
        let by_form = app.send(Request::token(form)).await;
        let by_basic = app.send(Request::token(GRANT).header("authorization", basic(id, secret))).await;
        texts.push(by_form.expect_error(401, "invalid_client").field("message"));
        by_basic.expect_error(401, "invalid_client");
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    for told in ["the last part of its URL", "`hbk_` and 43 characters", "in an edit link the part after `#`"] {
        assert!(texts[0].contains(told), "{texts:?}");
    }
}

#[tokio::test]
async fn a_form_that_is_not_utf_8_answers_400_invalid_request() {
    let (app, page) = TestApp::with_page().await;
    let right = post_form(&page).into_bytes();
    let after = |bytes: &[u8]| [&right, b"&".as_slice(), bytes].concat();
    for form in [
        after(b"x=\xff"),
        after(b"\xc3=x"),
        after(b"%C3%28=x"),
        // Two halves of a character are no character.
        after(b"%c3=%a9"),
        after(b"x=%c3&y=%a9"),
        // A surrogate, as some encoders write it, and a slash in more bytes than it needs.
        after(b"x=%ed%a0%80"),
        after(b"x=%c0%af"),
        format!("grant_type=%ff&client_id={}&client_secret={}", page.slug, page.key).into_bytes(),
    ] {
        let answer = app.send(Request::token(form.clone())).await;
        answer.expect_error(400, "invalid_request");
        assert!(answer.field("message").contains("UTF-8"), "{}: {answer:?}", form.escape_ascii());
    }
    app.send(Request::token(after("caf\u{e9}=%C3%A9+%F0%9F%93%9C".as_bytes()))).await.expect_status(200);
}

#[tokio::test]
async fn an_empty_authorization_header_is_no_second_way() {
    let (app, page) = TestApp::with_page().await;
    app.send(Request::token(post_form(&page)).header("authorization", "")).await.expect_status(200);
    app.send(Request::token(GRANT).header("authorization", "")).await.expect_error(401, "invalid_client");
    let twice = Request::token(GRANT).header("authorization", basic(&page.slug, &page.key));
    app.send(twice.header("authorization", "")).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn a_401_asks_for_basic_and_says_where_the_metadata_is() {
    let app = TestApp::new();
    for form in [GRANT.to_owned(), format!("{GRANT}&client_id={NEVER_USED}&client_secret=x")] {
        let answer = app.send(Request::token(form)).await;
        assert_eq!(answer.expect_status(401).header("www-authenticate"), r#"Basic realm="handbill", charset="UTF-8""#);
        assert!(answer.field("message").contains("/.well-known/oauth-authorization-server"), "{answer:?}");
    }
}
