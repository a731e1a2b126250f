//! Taking a request apart without judging it: every extractor here is infallible, because 404 and 410 come before any
//! complaint about a credential or a body, and only the service knows them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

use super::Http;
use super::conditional::precondition;
use crate::domain::client::{Client, Peer};
use crate::domain::content::{ContentError, MAX_BYTES};
use crate::domain::edit_key::{EditKey, PREFIX};
use crate::problem::MAX_BODY_BYTES;
use crate::service::{Body, BodyFault, Credential, Precondition};

/// How long a request body may take to arrive: 128 KB at 35 kbit/s.
const BODY_TIME: Duration = Duration::from_secs(30);

/// How much of a body over the limit is read and dropped, so that its sender sees the answer instead of a reset…
const DROPPED_BYTES: usize = 4 * 1024 * 1024;

/// …and for how long.
const DROPPING_TIME: Duration = Duration::from_secs(2);

/// Query parameters that people pass credentials in, besides any value that begins as a key does.
const KEY_PARAMETERS: [&str; 4] = ["edit_key", "access_token", "key", "token"];

/// The client that limits count.
pub(super) struct Caller(pub(super) Client);

impl FromRequestParts<Arc<Http>> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Infallible> {
        let Peer(peer) = parts.extensions.get().copied().expect("the server names the peer of every request");
        Ok(Self(http.proxies.client_address(peer.ip(), &parts.headers).into()))
    }
}

/// The slug in the path; empty, which is no slug, where it is not UTF-8 or not properly percent-encoded.
pub(super) struct SlugText(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for SlugText {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let slug = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(slug.map(|Path(slug)| slug).unwrap_or_default()))
    }
}

/// The key that the request presents.
pub(super) struct Presented(pub(super) Credential);

impl<S: Send + Sync> FromRequestParts<S> for Presented {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let in_query = parts.uri.query().is_some_and(holds_key);
        Ok(Self(if in_query { Credential::InQuery } else { bearer(&parts.headers) }))
    }
}

/// The precondition in `If-Match`.
pub(super) struct Required(pub(super) Precondition);

impl<S: Send + Sync> FromRequestParts<S> for Required {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(precondition(&parts.headers)))
    }
}

/// The body as JSON of the shape `T`, or what is wrong with it.
pub(super) struct JsonBody<T>(pub(super) Body<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        // Size is judged before anything else, and the body is read whatever it turns out to be: a connection whose
        // request was left unread cannot be used again.
        let read = read_limited(body).await;
        Ok(Self(read.and_then(|bytes| {
            declared_as_json(&parts.headers)?;
            parse(&bytes)
        })))
    }
}

/// Whether a query string holds a key: under any of the names that one is passed by, or anything that begins as one.
pub(super) fn holds_key(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        KEY_PARAMETERS.iter().any(|parameter| name.eq_ignore_ascii_case(parameter))
            || value.starts_with(PREFIX)
            || name.starts_with(PREFIX)
    })
}

/// The key in `Authorization: Bearer`. Two such headers are no key: which of them counts nobody can say.
fn bearer(headers: &HeaderMap) -> Credential {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (lines.next(), lines.next());
    let Some(first) = first else { return Credential::Missing };
    if second.is_some() {
        return Credential::Malformed;
    }
    let Ok(text) = first.to_str() else { return Credential::Malformed };
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            EditKey::parse(token.trim()).map_or(Credential::Malformed, Credential::Key)
        }
        _ if text.eq_ignore_ascii_case("bearer") => Credential::Malformed,
        _ => Credential::Missing,
    }
}

/// Reads a body of at most [`MAX_BODY_BYTES`] within [`BODY_TIME`]. Of a larger one the rest is dropped, within bounds.
pub(super) async fn read_limited(mut body: HttpBody) -> Body<Vec<u8>> {
    let mut deadline = Instant::now() + BODY_TIME;
    let mut bytes = Vec::new();
    let mut dropped = 0;
    loop {
        let over = bytes.len() > MAX_BODY_BYTES;
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            _ if over => return Err(BodyFault::TooLarge),
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(_))) => return Err(BodyFault::BrokenOff),
            Err(_) => return Err(BodyFault::TimedOut),
        };
        let Some(data) = frame.data_ref() else { continue };
        if over {
            dropped += data.len();
            if dropped > DROPPED_BYTES {
                return Err(BodyFault::TooLarge);
            }
        } else {
            bytes.extend_from_slice(data);
            if bytes.len() > MAX_BODY_BYTES {
                deadline = deadline.min(Instant::now() + DROPPING_TIME);
            }
        }
    }
}

/// Fails unless the body is declared to be JSON as it stands.
fn declared_as_json(headers: &HeaderMap) -> Result<(), BodyFault> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(BodyFault::ContentEncoding);
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let is_json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(BodyFault::ContentType) }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Body<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json);
    let error = match parsed {
        Ok(value) => {
            json.end().map_err(|error| BodyFault::Malformed(not_json(&error)))?;
            // Serde also reads the fields of a struct from an array, in their order.
            let is_object = bytes.trim_ascii_start().starts_with(b"{");
            return if is_object { Ok(value) } else { Err(BodyFault::Malformed(badly_shaped(".", ""))) };
        }
        Err(error) => error,
    };
    let inner = error.inner();
    if !inner.is_data() {
        return Err(BodyFault::Malformed(not_json(inner)));
    }
    // Too large comes before badly shaped, here as everywhere.
    let content_bytes = serde_json::from_slice::<serde_json::Value>(bytes)
        .ok()
        .and_then(|value| value.get("content")?.as_str().map(str::len))
        .unwrap_or(0);
    if content_bytes > MAX_BYTES {
        return Err(BodyFault::Content(ContentError::TooLarge { bytes: content_bytes }));
    }
    Err(BodyFault::Malformed(badly_shaped(&error.path().to_string(), &inner.to_string())))
}

fn not_json(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("The body is not valid JSON, at line {line}, column {column}. Send one JSON object in UTF-8.")
}

/// What is wrong with JSON of the wrong shape. Values are not quoted, and names only where they cannot be a secret.
fn badly_shaped(path: &str, reason: &str) -> String {
    // No key is this short, and the beginning of one shows by its prefix.
    let is_plain = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte));
        (1..=32).contains(&name.len()) && is_word && !name.starts_with(PREFIX)
    };
    let named = |prefix: &str| reason.strip_prefix(prefix)?.split('`').nth(1);
    if let Some(field) = named("missing field") {
        format!("The field `{field}` is missing. Send it as a string.")
    } else if let Some(field) = named("duplicate field") {
        format!("The field `{field}` is there twice. Send it once.")
    } else if let Some(field) = named("unknown field") {
        let field = if is_plain(field) { format!("The field `{field}`") } else { "A field".to_owned() };
        format!("{field} is not known. The fields are `title` and `content`; check the spelling.")
    } else if is_plain(path) {
        format!("The field `{path}` has the wrong type. Send it as a string.")
    } else {
        "The body has the wrong type. Send one JSON object with the fields `title` and `content`.".to_owned()
    }
}
