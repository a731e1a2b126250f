//! Reads request bodies within limits of size and time, and parses them with helpful errors.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use axum::body::Body as HttpBody;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::MAX_BODY_BYTES;
use super::json::TOO_MANY;
use crate::http::types::{EditBody, UpdateBody};
use handbill_pages::service::{Body, BodyError, BodyReadError, PageFields};
use handbill_pages::values::content::{ContentError, MAX_BYTES};
use handbill_pages::values::edit_key::PREFIX;

/// 128 KB at 88 kbit/s. Shorter than the default of `--drain-timeout`, so that a stalled client cannot fail a stop.
const BODY_TIME: Duration = Duration::from_secs(12);

/// With `Expect: 100-continue`, the body is read only when needed. Any other body is read at once, because its
/// connection could otherwise not be reused.
pub enum RequestBody {
    Read(Result<Vec<u8>, BodyReadError>),
    /// The client waits for `100 Continue`.
    Expected(HttpBody, Result<(), BodyReadError>),
}

impl RequestBody {
    /// Unencoded, and of a media type that `takes` takes, in lower case and without parameters; empty if missing.
    pub async fn of(headers: &HeaderMap, body: HttpBody, takes: fn(&str) -> bool) -> Self {
        let declared = if headers.contains_key(CONTENT_ENCODING) {
            Err(BodyReadError::ContentEncoding)
        } else {
            takes(&media_type(headers)).then_some(()).ok_or(BodyReadError::ContentType)
        };
        let expects = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
        if headers.get_all(EXPECT).iter().any(expects) {
            return Self::Expected(body, declared);
        }
        Self::Read(read_limited(body).await.and_then(|bytes| declared.map(|()| bytes)))
    }

    /// A body that is too large comes before an error in its declaration. If the head decides, the body is not requested.
    pub async fn bytes(self) -> Result<Vec<u8>, BodyReadError> {
        match self {
            Self::Read(read) => read,
            Self::Expected(body, declared) => {
                let may_be_large = body.size_hint().upper().is_none_or(|bytes| bytes > MAX_BODY_BYTES as u64);
                if !may_be_large {
                    declared?;
                }
                read_limited(body).await.and_then(|bytes| declared.map(|()| bytes))
            }
        }
    }

    /// Too large a body fails first.
    pub async fn json<T: DeserializeOwned + Into<PageFields>>(self, fields: fn() -> Fields) -> Body<PageFields> {
        parse::<T>(&self.bytes().await?, fields).map(Into::into)
    }
}

/// Never grows beyond the declared length.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// A chunk of one byte costs 3 µs, and a body may have 131 072 of them.
const FREE_PIECES: usize = 512;
const PIECE_BYTES: usize = 32;

/// Reads at most [`MAX_BODY_BYTES`] within `BODY_TIME`, and nothing if the declared length is over it.
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
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(error))) => return Err(read_error(&error)),
            Err(_) => return Err(BodyReadError::TimedOut),
        };
        let Some(data) = frame.data_ref() else { continue };
        let needed = bytes.len() + data.len();
        if needed > MAX_BODY_BYTES {
            return Err(BodyReadError::TooLarge);
        }
        pieces += 1;
        if pieces > FREE_PIECES + needed / PIECE_BYTES {
            return Err(BodyReadError::InPieces);
        }
        if needed > bytes.capacity() {
            let capacity = needed.next_power_of_two().max(FIRST_BUFFER_BYTES).min(most).max(needed);
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(data);
    }
}

/// Other layers may wrap the server's error.
fn read_error(error: &axum::Error) -> BodyReadError {
    let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    match causes.filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind).next() {
        Some(ErrorKind::TimedOut) => BodyReadError::TimedOut,
        Some(ErrorKind::QuotaExceeded) => BodyReadError::NoRoom,
        _ => BodyReadError::BrokenOff,
    }
}

/// In lower case, without parameters; empty if missing.
pub fn media_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

pub fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

/// For error messages.
pub struct Fields {
    pub names: Vec<String>,
    /// In the objects of the only list.
    pub in_list: Vec<String>,
}

impl Fields {
    pub fn of<T: DeserializeOwned>() -> Self {
        Self { names: names_of::<T>(), in_list: Vec::new() }
    }

    pub fn of_update() -> Self {
        Self { in_list: names_of::<EditBody>(), ..Self::of::<UpdateBody>() }
    }
}

pub fn names_of<T: DeserializeOwned>() -> Vec<String> {
    // Serde lists them in its error.
    let refusal = serde_json::from_str::<T>(r#"{"?": 0}"#).err().map(|error| error.to_string()).unwrap_or_default();
    refusal.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// Content that is too large fails first. `fields` are for messages.
pub fn parse<T: DeserializeOwned>(bytes: &[u8], fields: fn() -> Fields) -> Body<T> {
    let no_json = |error: &serde_json::Error| {
        BodyError::Malformed(format!("{} Send one JSON object in UTF-8.", why_not_json(bytes, error)))
    };
    // Serde would also take a list of values.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        let no_object = || BodyError::Malformed(no_object(&fields()));
        return Err(serde_json::from_slice::<IgnoredAny>(bytes).map_or_else(|error| no_json(&error), |_| no_object()));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize(&mut json) {
        Ok(value) => json.end().map(|()| value).map_err(|error| no_json(&error)),
        Err(error) if error.inner().is_data() => {
            // The parser may have stopped before the content.
            let members = serde_json::from_slice::<HashMap<String, &RawValue>>(bytes).unwrap_or_default();
            let content = members.get("content").and_then(|content| serde_json::from_str::<String>(content.get()).ok());
            check_content_size(content.as_deref())?;
            Err(BodyError::Malformed(wrong_shape(&error, &fields())))
        }
        Err(error) => Err(no_json(error.inner())),
    }
}

/// Like [`parse`], for a tool's arguments.
pub fn parse_object<T: DeserializeOwned>(object: Map<String, Value>, fields: impl FnOnce() -> Fields) -> Body<T> {
    let size = check_content_size(object.get("content").and_then(Value::as_str));
    serde_path_to_error::deserialize(Value::Object(object))
        .map_err(|error| size.err().unwrap_or_else(|| BodyError::Malformed(wrong_shape(&error, &fields()))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

fn check_content_size(content: Option<&str>) -> Result<(), BodyError> {
    match content.map_or(0, str::len) {
        bytes if bytes > MAX_BYTES => Err(BodyError::Content(ContentError::TooLarge { bytes })),
        _ => Ok(()),
    }
}

/// Quotes nothing, which may be a key.
pub fn why_not_json(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return "The body begins with a byte order mark, which JSON does not allow (RFC 8259 §8.1). Leave it out."
            .to_owned();
    }
    if bytes.trim_ascii().is_empty() {
        return "The body is empty.".to_owned();
    }
    let (line, column, reason) = (error.line(), error.column(), error.to_string());
    let problem = if reason.starts_with("recursion limit exceeded") {
        "is nested deeper than 127 levels"
    } else if reason.starts_with(TOO_MANY) {
        "holds more than 1024 values"
    } else if reason.starts_with("number out of range") {
        "holds a number that is out of range"
    } else {
        "is not valid JSON"
    };
    format!("The body {problem}, at line {line}, column {column}.")
}

/// Quotes no values, and only names that cannot be keys.
fn wrong_shape(error: &serde_path_to_error::Error<serde_json::Error>, fields: &Fields) -> String {
    let (path, reason) = (error.path().to_string(), error.inner().to_string());
    // A name of 32 bytes holds no whole key; one without the prefix is no beginning of a key.
    let is_plain = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte));
        (1..=32).contains(&name.len()) && is_word && !name.starts_with(PREFIX)
    };
    let list = path.split_once('[').filter(|(list, rest)| is_plain(list) && rest.len() <= 16 && !rest.contains(PREFIX));
    let listed = enumerate(if list.is_some() { &fields.in_list } else { &fields.names });
    let named = |prefix: &str| reason.strip_prefix(prefix)?.split('`').nth(1);
    if let Some(field) = named("missing field") {
        format!("The field `{field}` is missing. Send it as a string.")
    } else if let Some(field) = named("duplicate field") {
        format!("The field `{field}` is there twice. Send it once.")
    } else if let Some(field) = named("unknown field") {
        let field = if is_plain(field) { format!(" `{field}`") } else { String::new() };
        format!("Unknown field{field}. Allowed: {listed}.")
    } else if path == "edit_key" && reason.starts_with("invalid type: null") {
        "The field `edit_key` is null. Leave it out, or send a key.".to_owned()
    } else if is_plain(&path) || list.is_some() {
        let expected = reason.rsplit_once("expected ").and_then(|(_, expected)| expected.split(" at line ").next());
        let expected = match expected {
            Some("a boolean") => "`true` or `false`".to_owned(),
            Some("a sequence") => format!("a list of objects with {}", enumerate(&fields.in_list)),
            Some("f64") => "a whole number".to_owned(),
            Some("a nonzero usize") => "a whole number from 1 on".to_owned(),
            Some(object) if object.starts_with("struct ") => format!("an object with {}", enumerate(&fields.in_list)),
            _ => "a string".to_owned(),
        };
        format!("The field `{path}` has the wrong type. Send it as {expected}.")
    } else {
        no_object(fields)
    }
}

fn no_object(fields: &Fields) -> String {
    format!("The body has the wrong type. Send one JSON object with the fields {}.", enumerate(&fields.names))
}

/// `a`, `b` and `c`.
fn enumerate(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    match quoted.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some((only, _)) => only.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::types::{CreateBody, UpdateBody};

    #[test]
    fn the_fields_that_a_message_lists_are_those_of_the_type() {
        assert_eq!(names_of::<CreateBody>(), ["title", "content", "edit_key"]);
        assert_eq!(names_of::<NoFields>(), Vec::<String>::new());
    }

    #[test]
    fn content_too_large_is_the_error_whatever_else_is_wrong() {
        let content = "a".repeat(MAX_BYTES + 1);
        for body in
            [format!(r#"{{"x": 1, "content": "{content}"}}"#), format!(r#"{{"content": "{content}", "title": 1}}"#)]
        {
            assert!(
                matches!(parse::<UpdateBody>(body.as_bytes(), Fields::of_update).err(), Some(BodyError::Content(_))),
                "{}",
                &body[..20]
            );
        }
    }
}
