//! Request bodies: read within bounds of size and time, and taken apart with a reason that a client can act on.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use axum::body::Body as HttpBody;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::MAX_BODY_BYTES;
use crate::domain::content::{ContentError, MAX_BYTES};
use crate::domain::edit_key::PREFIX;
use crate::service::{Body, BodyError, BodyReadError};

/// How long a request body may take to arrive: 128 KB at 35 kbit/s.
const BODY_TIME: Duration = Duration::from_secs(30);

/// A body that is read when it is its turn.
///
/// Where the client waits to be told to send it (`Expect: 100-continue`), reading it is what tells it. Any other was read
/// already: it is on its way, and a connection whose request was left unread cannot be used again.
pub enum Arriving {
    /// It was read.
    Read(Result<Vec<u8>, BodyReadError>),
    /// Its client waits.
    Expected(HttpBody),
}

impl Arriving {
    /// The body of a request with these headers.
    pub async fn of(headers: &HeaderMap, body: HttpBody) -> Self {
        let expects = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
        let waits = headers.get_all(EXPECT).iter().any(expects);
        if waits { Self::Expected(body) } else { Self::Read(read_limited(body).await) }
    }

    /// The bytes. Size is judged before what `declared` says; where the head decides, the body is not asked for.
    pub async fn bytes(self, declared: Result<(), BodyReadError>) -> Result<Vec<u8>, BodyReadError> {
        let read = match self {
            Self::Read(read) => read,
            Self::Expected(body) => {
                let may_be_large = body.size_hint().upper().is_none_or(|bytes| bytes > MAX_BODY_BYTES as u64);
                if !may_be_large && let Err(fault) = declared {
                    return Err(fault);
                }
                read_limited(body).await
            }
        };
        read.and_then(|bytes| declared.map(|()| bytes))
    }
}

/// Room that a body is given first. More comes as need be, and never more than it is declared to have.
const FIRST_ROOM: usize = 4 * 1024;

/// Reads a body of at most [`MAX_BODY_BYTES`] within 30 s. A larger one is not read to its end, and not at all where its
/// length is declared: the server drops the rest when it has answered.
pub async fn read_limited(mut body: HttpBody) -> Result<Vec<u8>, BodyReadError> {
    let declared = body.size_hint();
    if declared.lower() > MAX_BODY_BYTES as u64 {
        return Err(BodyReadError::TooLarge);
    }
    let most = declared
        .upper()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .map_or(MAX_BODY_BYTES, |upper| upper.min(MAX_BODY_BYTES));
    let deadline = Instant::now() + BODY_TIME;
    let mut bytes = Vec::new();
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(error))) => return Err(broken(&error)),
            Err(_) => return Err(BodyReadError::TimedOut),
        };
        let Some(data) = frame.data_ref() else { continue };
        let needed = bytes.len() + data.len();
        if needed > MAX_BODY_BYTES {
            return Err(BodyReadError::TooLarge);
        }
        if needed > bytes.capacity() {
            let room = needed.next_power_of_two().max(FIRST_ROOM).min(most).max(needed);
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.extend_from_slice(data);
    }
}

/// Why a body ended early. The server's reason may stand behind errors of layers around the body.
fn broken(error: &axum::Error) -> BodyReadError {
    let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    match causes.filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind).next() {
        Some(ErrorKind::TimedOut) => BodyReadError::TimedOut,
        Some(ErrorKind::QuotaExceeded) => BodyReadError::NoRoom,
        _ => BodyReadError::BrokenOff,
    }
}

/// The media type that the body is declared to have, in lower case and without parameters; empty where there is none.
pub fn media_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Fails unless the body is declared to be JSON as it stands.
pub fn declared_as_json(headers: &HeaderMap) -> Result<(), BodyReadError> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(BodyReadError::ContentEncoding);
    }
    let essence = media_type(headers);
    let is_json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(BodyReadError::ContentType) }
}

/// The JSON object in `bytes`, which has `fields`. Size is judged before shape.
pub fn parse<T: DeserializeOwned>(bytes: &[u8], fields: &[&str]) -> Body<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json);
    let error = match parsed {
        Ok(value) => {
            json.end().map_err(|error| BodyError::Malformed(not_json(&error)))?;
            // Serde also reads the fields of a struct from an array, in their order.
            let is_object = bytes.trim_ascii_start().starts_with(b"{");
            return if is_object { Ok(value) } else { Err(BodyError::Malformed(badly_shaped(".", "", fields))) };
        }
        Err(error) => error,
    };
    let inner = error.inner();
    if !inner.is_data() {
        return Err(BodyError::Malformed(not_json(inner)));
    }
    let value = serde_json::from_slice::<Value>(bytes).ok();
    large_content(value.as_ref().and_then(|value| value.get("content")))?;
    Err(BodyError::Malformed(badly_shaped(&error.path().to_string(), &inner.to_string(), fields)))
}

/// What `object`, which has `fields`, holds. Size is judged before shape.
pub fn parse_object<T: DeserializeOwned>(object: Map<String, Value>, fields: &[&str]) -> Body<T> {
    let large = large_content(object.get("content"));
    serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| match large {
        Err(too_large) => too_large,
        Ok(()) => BodyError::Malformed(badly_shaped(&error.path().to_string(), &error.inner().to_string(), fields)),
    })
}

/// Fails if there is content and it is too large.
fn large_content(content: Option<&Value>) -> Result<(), BodyError> {
    match content.and_then(Value::as_str).map_or(0, str::len) {
        bytes if bytes > MAX_BYTES => Err(BodyError::Content(ContentError::TooLarge { bytes })),
        _ => Ok(()),
    }
}

fn not_json(error: &serde_json::Error) -> String {
    format!("{} Send one JSON object in UTF-8.", why_not_json(error))
}

/// What is wrong with bytes that are not taken for JSON. Nothing of them is quoted.
pub fn why_not_json(error: &serde_json::Error) -> String {
    let (line, column, reason) = (error.line(), error.column(), error.to_string());
    let fault = if reason.starts_with("recursion limit exceeded") {
        "is nested deeper than 127 levels"
    } else if reason.starts_with("number out of range") {
        "holds a number that is out of range"
    } else {
        "is not valid JSON"
    };
    format!("The body {fault}, at line {line}, column {column}.")
}

/// What is wrong with JSON of the wrong shape. Values are not quoted, and names only where they cannot be a secret.
fn badly_shaped(path: &str, reason: &str, fields: &[&str]) -> String {
    // No key is this short, and the beginning of one shows by its prefix.
    let is_plain = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte));
        (1..=32).contains(&name.len()) && is_word && !name.starts_with(PREFIX)
    };
    let named = |prefix: &str| reason.strip_prefix(prefix)?.split('`').nth(1);
    let listed = enumerate(fields);
    if let Some(field) = named("missing field") {
        format!("The field `{field}` is missing. Send it as a string.")
    } else if let Some(field) = named("duplicate field") {
        format!("The field `{field}` is there twice. Send it once.")
    } else if let Some(field) = named("unknown field") {
        let field = if is_plain(field) { format!("The field `{field}`") } else { "A field".to_owned() };
        format!("{field} is not known. The fields are {listed}; check the spelling.")
    } else if is_plain(path) {
        let expected = if reason.ends_with("expected a boolean") { "`true` or `false`" } else { "a string" };
        format!("The field `{path}` has the wrong type. Send it as {expected}.")
    } else {
        format!("The body has the wrong type. Send one JSON object with the fields {listed}.")
    }
}

/// `a`, `b` and `c`.
fn enumerate(fields: &[&str]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    match quoted.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some((only, _)) => only.clone(),
        None => String::new(),
    }
}
