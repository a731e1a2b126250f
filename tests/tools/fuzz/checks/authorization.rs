//! Only the page's own key opens a page, sent in exactly one `Authorization` header, and no answer repeats the key.
//!
//! Requests go through the real router over a store in memory. The first line of an input is the query string, and each
//! further line is the value of an `Authorization` header. The byte 1, which occurs in neither, is replaced by the page's
//! key, which helps inputs to come close to opening the page.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use handbill::app::{Deps, PublicSettings, public};
use handbill_pages::ports::random::Random;
use handbill_pages::service::RenderInPlace;
use handbill_pages::values::client::Peer;
use handbill_pages::values::origin::Origin;
use handbill_store_sqlite::SqliteStore;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::Runtime;
use tower::ServiceExt;
use url::form_urlencoded;

struct Service {
    runtime: Mutex<Runtime>,
    front: Router,
    slug: String,
    key: String,
}

struct Answer {
    status: StatusCode,
    text: String,
    body: Value,
}

static SERVICE: LazyLock<Service> = LazyLock::new(Service::start);

/// Asks for an update without fields. It changes nothing, and answers 200 if the request has the key.
pub(crate) fn check(input: &[u8]) {
    let service = &*SERVICE;
    let mut lines = input.split(|&byte| byte == b'\n').map(|line| {
        let written = line.iter().flat_map(|byte| match byte {
            1 => service.key.as_bytes(),
            other => std::slice::from_ref(other),
        });
        written.copied().collect::<Vec<u8>>()
    });
    let query = lines.next().and_then(|line| String::from_utf8(line).ok()).unwrap_or_default();
    // A `#` ends the query: the rest is a fragment, which no server sees.
    let query = query.split('#').next().unwrap_or_default();
    let lines: Vec<HeaderValue> = lines.filter_map(|line| HeaderValue::from_bytes(&line).ok()).collect();
    let target = format!("/api/pages/{}?{query}", service.slug);
    let Some(answer) = service.ask(Method::PATCH, &target, &lines, "{}") else { return };
    assert!(!answer.text.contains(&service.key), "the key is shown: {}", answer.text);
    let in_query = holds(query, &service.key);
    match answer.status {
        StatusCode::OK => {
            let [line] = &lines[..] else { panic!("{} headers open the page", lines.len()) };
            let line = String::from_utf8_lossy(line.as_bytes());
            let scheme = line.get(..7).unwrap_or_default();
            assert!(scheme.eq_ignore_ascii_case("bearer "), "{line:?} opens the page");
            assert_eq!(line[7..].trim(), service.key, "{line:?} opens the page");
            assert!(!in_query, "{query:?} does not close it");
        }
        StatusCode::UNAUTHORIZED => {
            let code = answer.body["error"].as_str().unwrap_or_default();
            assert!(["key_in_query", "missing_key", "invalid_key"].contains(&code), "{}", answer.text);
            assert!(!in_query || code == "key_in_query", "{query:?} is {code}");
            let is_right = lines.len() == 1 && lines[0].as_bytes() == format!("Bearer {}", service.key).as_bytes();
            assert!(!is_right || code == "key_in_query", "the right header is {code}");
        }
        // The byte 1 becomes many, so the headers can be too large.
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {}
        other => panic!("an update is answered {other}: {}", answer.text),
    }
}

/// Whether any parameter of `query`, decoded, holds `key`.
fn holds(query: &str, key: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name.contains(key) || value.contains(key))
}

impl Service {
    /// A service without rate limits and with one page.
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Every byte in turn in place of random bytes, so that each run has the same key.
        let next = AtomicU8::new(0);
        let count = move |bytes: &mut [u8]| bytes.fill_with(|| next.fetch_add(1, Ordering::Relaxed));
        let deps =
            Deps { random: Random::Controlled(Arc::new(count)), renderer: Arc::new(RenderInPlace), ..Deps::system() };
        let base_url = Origin::parse("https://pages.example").unwrap();
        let front = public(Arc::new(SqliteStore::temporary().unwrap()), PublicSettings::open(base_url), &deps);
        let mut service = Self { runtime: Mutex::new(runtime), front, slug: String::new(), key: String::new() };
        let page = r#"{"title": "A page", "content": "Text"}"#;
        let created = service.ask(Method::POST, "/api/pages", &[], page).unwrap();
        created.body["slug"].as_str().unwrap().clone_into(&mut service.slug);
        created.body["edit_key"].as_str().unwrap().clone_into(&mut service.key);
        service
    }

    /// The answer to a request; `None` if the arguments do not make a valid request.
    fn ask(&self, method: Method, target: &str, authorization: &[HeaderValue], body: &'static str) -> Option<Answer> {
        let request = Request::builder().method(method).uri(target).header(HOST, "pages.example");
        let request = request.header(CONTENT_TYPE, "application/json").extension(Peer(([192, 0, 2, 1], 4711).into()));
        let mut request = request.body(Body::from(body)).ok()?;
        for line in authorization {
            request.headers_mut().append(AUTHORIZATION, line.clone());
        }
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        Some(runtime.block_on(async {
            let Ok(response) = self.front.clone().oneshot(request).await;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let text = format!("{:?} {}", parts.headers, String::from_utf8_lossy(&body));
            Answer { status: parts.status, text, body: serde_json::from_slice(&body).unwrap_or_default() }
        }))
    }
}
