//! The OpenAPI document and the interface's version (spec §4.7 and §9).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures_util::stream;
use handbill::http::error::Code;
use handbill::http::request::MAX_BODY_BYTES;
use handbill_pages::values::content::MAX_BYTES;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::title::{MAX_CHARS, Title, TitleError};
use serde_json::{Value, json};

use crate::in_process::app::{Published, Setup, TestApp};
use crate::in_process::document::{DOCUMENT, Document};
use crate::in_process::exchange::{NEVER_USED, Request, TOKEN};
use crate::in_process::stores::{Fault, Operation};

/// The request that succeeds on `page`.
fn valid(method: &str, template: &str, page: &Published) -> Request {
    if template == TOKEN {
        let form = format!("grant_type=client_credentials&client_id={}&client_secret={}", page.slug, page.key);
        return Request::token(form);
    }
    let request = Request::new(&method.to_uppercase(), template.replace("{slug}", &page.slug));
    match method {
        "post" => request.json(r#"{"title": "T", "content": "c"}"#),
        "patch" => request.json("{}").key(&page.key),
        "delete" => request.key(&page.key),
        _ => request,
    }
}

/// Nor does any request of the suite get another status (`TestApp::send`).
#[tokio::test]
async fn each_operation_lists_exactly_the_statuses_that_it_answers() {
    let mut expected = BTreeMap::from([
        ("post /api/pages", vec![201, 400, 408, 413, 429, 431, 500, 503]),
        ("get /api/pages/{slug}", vec![200, 304, 400, 401, 404, 410, 431, 500, 503]),
        ("patch /api/pages/{slug}", vec![200, 400, 401, 404, 408, 410, 412, 413, 429, 431, 500, 503]),
        ("delete /api/pages/{slug}", vec![204, 400, 401, 404, 410, 412, 429, 431, 500, 503]),
        ("post /oauth/token", vec![200, 400, 401, 408, 413, 429, 431, 500, 503]),
    ]);
    for (method, template, operation) in DOCUMENT.operations() {
        let app = Setup::unlimited().start();
        let (page, deleted) = (app.published().await, app.deleted().await);
        let never = Published { slug: NEVER_USED.to_owned(), ..page.clone() };
        let other_key = Published { key: deleted.key.clone(), ..page.clone() };
        let of = |page: &Published| valid(method, template, page);
        let requests = [
            of(&never),
            of(&deleted),
            of(&other_key),
            of(&page).without("host"),
            of(&page).header("x-long", "x".repeat(16 * 1024)),
            of(&page).query(&format!("x={}", page.key)),
            of(&page).header("if-match", "\"stale\""),
            of(&page).header("if-none-match", "*"),
            of(&page).body(" ".repeat(MAX_BODY_BYTES + 1)),
        ];
        let mut answered = BTreeSet::new();
        for request in requests {
            answered.insert(app.send(request).await.status);
        }
        for fault in [|| Fault::Unavailable, || Fault::Panic] {
            // It has read nothing yet.
            let other = Setup::unlimited().over_the_store_of(&app).start();
            for operation in [Operation::Insert, Operation::Lookup, Operation::Swap] {
                other.store.always(operation, fault);
            }
            answered.insert(other.send(of(&page)).await.status);
        }
        let limited = Setup::new().limits(1, 1).token_limit(1).over_the_store_of(&app).start();
        tokio::time::pause();
        let stalled = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        answered.insert(app.send(of(&page).body(stalled)).await.status);
        tokio::time::resume();
        for _ in 0..2 {
            answered.insert(limited.send(of(&page)).await.status);
        }
        let listed: BTreeSet<u16> =
            operation["responses"].as_object().unwrap().keys().map(|status| status.parse().unwrap()).collect();
        assert_eq!(answered, listed, "{method} {template}");
        let expected = expected.remove(&*format!("{method} {template}")).unwrap_or_default();
        assert_eq!(listed.into_iter().collect::<Vec<_>>(), expected, "{method} {template}");
    }
    assert!(expected.is_empty(), "{expected:?}");
}

#[test]
fn the_schemas_accept_the_titles_that_the_service_accepts() {
    let schemas = &DOCUMENT.0["components"]["schemas"];
    let valid = |schema: &str, title: &str| {
        let schema = &schemas[schema]["properties"]["title"];
        jsonschema::is_valid(schema, &Value::from(title))
    };
    let shown = ["a", " a b\t", "\nÉ…", "a\nb", "\u{1b}", "a\u{7f}", "a\u{202e}b", "a\u{2028}b", "a\u{200d}b"];
    let hidden = ["", " \n", "\u{2066}", "\u{200f}a", "\u{200b}", " \u{2800}\u{3164} ", "\u{ad}\u{301}"];
    for title in shown.into_iter().chain(hidden) {
        let parsed = Title::parse(title);
        assert_eq!(valid("CreatePage", title), parsed.is_ok(), "{title:?}");
        assert_eq!(valid("UpdatePage", title), matches!(parsed, Ok(_) | Err(TitleError::Empty)), "{title:?}");
    }
}

#[test]
fn the_operations_that_need_the_edit_key_say_so() {
    assert_eq!(DOCUMENT.0["components"]["securitySchemes"]["editKey"]["scheme"], "bearer");
    for (method, path, operation) in DOCUMENT.operations() {
        let expected = match method {
            "patch" => json!([{"editKey": []}, {"pageToken": ["post:edit"]}]),
            "delete" => json!([{"editKey": []}, {"pageToken": ["post:delete"]}]),
            _ => json!([{}]),
        };
        assert_eq!(operation["security"], expected, "{method} {path}");
    }
}

#[test]
fn an_update_and_a_delete_document_both_of_their_conditions() {
    for method in ["patch", "delete"] {
        let operation = &DOCUMENT.0["paths"]["/api/pages/{slug}"][method];
        let headers: Vec<&str> = operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|parameter| parameter["in"] == "header")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(headers, ["If-Match", "If-None-Match"], "{method}");
        let description = operation["responses"]["412"]["description"].as_str().unwrap();
        assert!(headers.iter().all(|header| description.contains(&format!("`{header}`"))), "{method}: {description}");
    }
}

#[test]
fn the_pattern_of_a_slug_accepts_what_a_slug_is() {
    let of_a_page = DOCUMENT.operations().into_iter().filter(|(_, path, _)| path.contains("{slug}"));
    let schemas: Vec<&Value> = of_a_page.map(|(.., operation)| &operation["parameters"][0]["schema"]).collect();
    assert!(!schemas.is_empty() && schemas.iter().all(|schema| schema.is_object()), "{schemas:?}");
    let (longest, too_long) = (format!("{}-2222bbbb", "a".repeat(60)), format!("{}-2222bbbb", "a".repeat(61)));
    let others =
        ["", "-22222222", "a--22222222", "22222222", "A-22222222", "a-2222222", "a_b-22222222", "a-22222222\n"];
    let of_last = (' '..='~').map(|last| format!("a-2222222{last}"));
    for slug in others.map(str::to_owned).into_iter().chain([longest, too_long]).chain(of_last) {
        for schema in &schemas {
            assert_eq!(jsonschema::is_valid(schema, &Value::from(&*slug)), Slug::parse(&slug).is_ok(), "{slug:?}");
        }
    }
}

#[test]
fn the_codes_of_errors_are_listed() {
    let schemas = &DOCUMENT.0["components"]["schemas"];
    let listed = |schema: &str| {
        let codes = schemas[schema]["properties"]["error"]["enum"].as_array().unwrap();
        codes.iter().map(|code| code.as_str().unwrap()).collect::<BTreeSet<_>>()
    };
    let (of_pages, of_tokens) = (listed("Error"), listed("TokenError"));
    // The form on the home page is no operation of the document.
    let described: Vec<Code> = Code::all().filter(|code| *code != Code::CrossOrigin).collect();
    let all_of_pages = described.iter().filter(|code| !code.is_of_oauth());
    assert_eq!(of_pages, all_of_pages.map(|code| code.as_str()).collect());
    assert_eq!(&of_pages | &of_tokens, described.iter().map(|code| code.as_str()).collect());
    assert!(!of_tokens.contains("gone") && of_tokens.contains("rate_limited") && of_tokens.contains("invalid_client"));
    for schema in ["Error", "TokenError"] {
        assert!(schemas[schema]["required"].as_array().unwrap().contains(&json!("error")), "{schema}");
    }
}

#[test]
fn tokens_come_by_the_client_credentials_flow() {
    let flows = &DOCUMENT.0["components"]["securitySchemes"]["pageToken"]["flows"];
    assert_eq!(flows.as_object().unwrap().len(), 1);
    assert_eq!(flows["clientCredentials"]["tokenUrl"], "https://pages.example/oauth/token");
    let scopes = flows["clientCredentials"]["scopes"].as_object().unwrap();
    assert_eq!(scopes.keys().collect::<Vec<_>>(), ["post:delete", "post:edit"]);
    let operation = &DOCUMENT.0["paths"]["/oauth/token"]["post"];
    let content = operation["requestBody"]["content"].as_object().unwrap();
    assert_eq!(content.keys().collect::<Vec<_>>(), ["application/x-www-form-urlencoded"]);
    let form = &DOCUMENT.0["components"]["schemas"]["TokenRequest"];
    assert_eq!(form["required"], json!(["grant_type"]), "HTTP Basic may hold the rest");
    assert_eq!(form["properties"]["grant_type"]["pattern"], "^client_credentials$");
}

#[test]
fn a_body_with_an_unknown_field_is_not_as_documented() {
    for schema in ["CreatePage", "UpdatePage"] {
        assert_eq!(DOCUMENT.0["components"]["schemas"][schema]["additionalProperties"], false, "{schema}");
    }
}

#[tokio::test]
async fn the_document_is_served_with_its_versions_and_the_base_url() {
    assert_eq!(TestApp::new().get("/openapi.json").await.json(), DOCUMENT.0);
    let other = Setup::new().base_url("https://other.example").start();
    let document = other.get("/openapi.json").await.json();
    assert_eq!((&document["openapi"], &document["info"]["version"]), (&json!("3.1.0"), &json!("0.1.0")));
    assert_eq!(document["servers"][0]["url"], "https://other.example");
    for (_, path, _) in Document(document.clone()).operations() {
        assert!((path.starts_with("/api/pages") || path == "/oauth/token") && !path.contains("/v"), "{path}");
    }
}

fn number_after(words: &str) -> usize {
    let document = include_str!("../../../docs/api.md");
    let (_, rest) = document.split_once(words).unwrap_or_else(|| panic!("docs/api.md has no {words:?}"));
    rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

pub(crate) fn max_title_chars() -> usize {
    number_after("* A **title** has 1 to ")
}

pub(crate) fn max_content_bytes() -> usize {
    number_after("* **Content** is 1 to ")
}

#[test]
fn the_limits_in_the_document_are_the_limits_in_force() {
    assert_eq!(max_title_chars(), MAX_CHARS, "Change the sentence of docs/api.md that begins with `A **title** has`");
    assert_eq!(max_content_bytes(), MAX_BYTES, "Change the sentence of docs/api.md that begins with `**Content** is`");
    let body = number_after("; a body has at most ");
    assert_eq!(body, MAX_BODY_BYTES, "Change the row of docs/api.md with the code `body_too_large`");
}
