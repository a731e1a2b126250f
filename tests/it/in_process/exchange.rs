//! A request and its answer, and what is true of every answer.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use bytes::Bytes;
use flate2::read::GzDecoder;
use handbill::http::error::Code;
use handbill_pages::values::client::Peer;
use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;

pub(crate) const TOKEN: &str = "/oauth/token";

pub(crate) const NEVER_USED: &str = "never-was-2222bbbb";

pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) target: String,
    headers: HeaderMap,
    body: Body,
    peer: IpAddr,
    /// Whether the request names the host that it goes to, as every client does.
    names_host: bool,
}

impl Request {
    pub(crate) fn new(method: &str, target: impl Into<String>) -> Self {
        Self {
            method: method.parse().unwrap(),
            target: target.into(),
            headers: HeaderMap::new(),
            body: Body::empty(),
            peer: IpAddr::from([192, 0, 2, 1]),
            names_host: true,
        }
    }

    pub(crate) fn get(target: impl Into<String>) -> Self {
        Self::new("GET", target)
    }

    /// A create with `body` as it stands, declared as JSON.
    pub(crate) fn create(body: impl Into<Body>) -> Self {
        Self::new("POST", "/api/pages").json(body)
    }

    /// An update with `body` as it stands, declared as JSON, without a key.
    pub(crate) fn update(slug: &str, body: impl Into<Body>) -> Self {
        Self::new("PATCH", format!("/api/pages/{slug}")).json(body)
    }

    pub(crate) fn delete(slug: &str) -> Self {
        Self::new("DELETE", format!("/api/pages/{slug}"))
    }

    pub(crate) fn json(self, body: impl Into<Body>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// A request for a token with `form` as it stands, declared as a form.
    pub(crate) fn token(form: impl Into<Body>) -> Self {
        Self::new("POST", TOKEN).header("content-type", "application/x-www-form-urlencoded").body(form)
    }

    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds a header line; an earlier one of the same name stays.
    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_ref()).unwrap());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self.names_host &= name != "host";
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    pub(crate) fn query(mut self, query: &str) -> Self {
        self.target = format!("{}?{query}", self.target);
        self
    }

    pub(crate) fn peer(mut self, address: &str) -> Self {
        self.peer = address.parse().unwrap();
        self
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(crate) fn into_http(self) -> http::Request<Body> {
        let mut request = http::Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.target.parse().unwrap();
        *request.headers_mut() = self.headers;
        if self.names_host {
            request.headers_mut().entry(HOST).or_insert(HeaderValue::from_static("pages.example"));
        }
        request.extensions_mut().insert(Peer(SocketAddr::new(self.peer, 40_000)));
        request
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The header's one value; empty if there is no such header.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.headers.get_all(name).iter();
        let value = lines.next().map_or("", |value| value.to_str().unwrap());
        assert!(lines.next().is_none(), "{name} is there twice: {self:?}");
        value
    }

    /// The members of a header that is a list, over all its lines, in lower case.
    pub(crate) fn members(&self, name: &str) -> Vec<String> {
        let lines = self.headers.get_all(name).iter().flat_map(|line| line.to_str().unwrap().split(','));
        lines.map(|member| member.trim().to_ascii_lowercase()).collect()
    }

    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn field(&self, field: &str) -> String {
        self.json()[field].as_str().unwrap_or_else(|| panic!("no {field} in {self:?}")).to_owned()
    }

    #[track_caller]
    pub(crate) fn expect_status(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, code: &str) -> &Self {
        self.expect_status(status);
        assert_eq!(self.field("error"), code, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn retry_after(&self) -> u64 {
        self.header("retry-after").parse().unwrap()
    }

    #[track_caller]
    pub(crate) fn decoded(&self) -> Self {
        let mut plain = self.clone();
        if self.body.is_empty() {
            return plain;
        }
        let mut bytes = Vec::new();
        let read = match self.header("content-encoding") {
            "gzip" => GzDecoder::new(&self.body[..]).read_to_end(&mut bytes),
            "" => return plain,
            other => panic!("{other}: {self:?}"),
        };
        read.unwrap_or_else(|error| panic!("{error}: {self:?}"));
        plain.headers.remove("content-encoding");
        plain.headers.remove("content-length");
        plain.body = bytes.into();
        plain
    }
}

/// Fails unless `answer` is as every answer must be, whatever was asked.
#[track_caller]
pub(crate) fn check_common_rules(method: &Method, path: &str, answer: &Answer) {
    // The tools answer browsers by rules of their own.
    let origins = answer.members("access-control-allow-origin");
    let any = origins.iter().filter(|origin| *origin == "*").count();
    assert_eq!(any, usize::from(path != "/mcp"), "{answer:?}");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer:?}");
    assert_eq!(answer.header("referrer-policy"), "no-referrer", "{answer:?}");
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{answer:?}");
    assert_eq!(answer.headers.contains_key("x-request-id"), answer.status != 304, "{answer:?}");
    for value in answer.headers.values() {
        assert!(!holds_a_key(value.as_bytes()), "a header holds a key: {answer:?}");
    }
    match answer.status {
        401 if path == "/mcp" => panic!("a client would ask its user to log in: {answer:?}"),
        401 => {
            let scheme = if path == TOKEN { "Basic realm=" } else { "Bearer realm=" };
            assert!(answer.header("www-authenticate").starts_with(scheme), "{answer:?}");
        }
        405 => assert!(!answer.members("allow").is_empty(), "{answer:?}"),
        429 | 503 => assert!(answer.retry_after() >= 1, "{answer:?}"),
        _ => {}
    }
    if path == TOKEN {
        assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
        assert_eq!(answer.header("pragma"), "no-cache", "{answer:?}");
    }
    if answer.status < 400 || *method == Method::HEAD {
        return;
    }
    assert!(!holds_a_key(&answer.body), "an error holds a key: {answer:?}");
    // The pages for people and the form are the places where an error is not JSON.
    if answer.header("content-type").starts_with("text/html") {
        let is_form = path == "/" && *method == Method::POST;
        assert!(is_form || (!path.starts_with("/api/") && [404, 410].contains(&answer.status)), "{answer:?}");
        return;
    }
    // What the library of the tools refuses may be bare (contract, decision 3).
    if path == "/mcp" && answer.header("content-type") != "application/json" {
        return;
    }
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    let body = answer.json();
    if path == "/mcp" && body["jsonrpc"] == "2.0" {
        assert!(body["error"]["code"].is_i64() && body.get("result").is_none(), "{answer:?}");
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer:?}");
        return;
    }
    let fields: Vec<&String> = body.as_object().unwrap().keys().collect();
    if path == TOKEN {
        assert_eq!(fields, ["error", "error_description", "message"], "{answer:?}");
        assert_eq!(body["error_description"], body["message"], "{answer:?}");
        // RFC 6749 §5.2: no quotation mark, no backslash, nothing beyond printable ASCII.
        let is_allowed = |byte: u8| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        assert!(body["error_description"].as_str().unwrap().bytes().all(is_allowed), "{answer:?}");
    } else {
        assert_eq!(fields, ["error", "message"], "{answer:?}");
    }
    let is_code = |code: Code| (code.as_str(), code.status()) == (body["error"].as_str().unwrap(), answer.status);
    assert!(Code::all().any(is_code), "{answer:?}");
    assert!(body["message"].as_str().unwrap().ends_with('.'), "a message is made of sentences: {answer:?}");
}

pub(crate) fn holds_a_key(bytes: &[u8]) -> bool {
    let begins_a_key = |rest: &[u8]| {
        rest.strip_prefix(b"hbk_")
            .is_some_and(|secret| secret.len() >= 43 && secret[..43].iter().all(u8::is_ascii_alphanumeric))
    };
    (0..bytes.len()).any(|at| begins_a_key(&bytes[at..]))
}
