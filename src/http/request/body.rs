//! Request bodies: read within limits of size and time, and parsed with errors that a client can act on.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use axum::body::Body as HttpBody;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, Error as _, Visitor, value};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::MAX_BODY_BYTES;
use super::json::{self, Kept, TOO_MANY};
use handbill_core::domain::content::{ContentError, MAX_BYTES};
use handbill_core::domain::edit_key::PREFIX;
use handbill_core::service::{Body, BodyError, BodyReadError};

/// Longest time that a request body may take to arrive: 128 KB at 88 kbit/s. It is shorter than the default of
/// `--drain-timeout`, so that a client that stalls cannot fail a stop.
const BODY_TIME: Duration = Duration::from_secs(12);

/// A request body, read or still to be read.
///
/// A client that sent `Expect: 100-continue` waits until the server starts to read, so its body is only read when it is
/// needed. Any other body is read immediately: it is on its way in any case, and a connection with an unread request
/// cannot be reused.
pub enum RequestBody {
    /// The body, or why it could not be read.
    Read(Result<Vec<u8>, BodyReadError>),
    /// The client waits for `100 Continue`.
    Expected(HttpBody),
}

impl RequestBody {
    pub async fn of(headers: &HeaderMap, body: HttpBody) -> Self {
        let expects = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
        let waits = headers.get_all(EXPECT).iter().any(expects);
        if waits { Self::Expected(body) } else { Self::Read(read_limited(body).await) }
    }

    /// The bytes of the body. If the body is too large, that is the error, even if `declared` is an error too. If the
    /// head alone decides, the body is not requested from the client.
    pub async fn bytes(self, declared: Result<(), BodyReadError>) -> Result<Vec<u8>, BodyReadError> {
        let read = match self {
            Self::Read(read) => read,
            Self::Expected(body) => {
                let may_be_large = body.size_hint().upper().is_none_or(|bytes| bytes > MAX_BODY_BYTES as u64);
                if !may_be_large && let Err(error) = declared {
                    return Err(error);
                }
                read_limited(body).await
            }
        };
        read.and_then(|bytes| declared.map(|()| bytes))
    }
}

/// First size of the buffer for a body, in bytes. The buffer grows as needed, but never beyond the declared length.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// Most pieces of a body, and fewest bytes of each further piece. A chunk of one byte costs 3 µs, and a body may have
/// 131 072 of them.
const FREE_PIECES: usize = 512;
const PIECE_BYTES: usize = 32;

/// Reads a body of at most [`MAX_BODY_BYTES`] within `BODY_TIME`. Reading stops at the limit, and does not start if the
/// declared length is over it. The server drops the rest after its response.
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

/// Why a body ended early. The server's own error may be wrapped in errors of the layers in between.
fn read_error(error: &axum::Error) -> BodyReadError {
    let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    match causes.filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind).next() {
        Some(ErrorKind::TimedOut) => BodyReadError::TimedOut,
        Some(ErrorKind::QuotaExceeded) => BodyReadError::NoRoom,
        _ => BodyReadError::BrokenOff,
    }
}

/// The media type in `Content-Type`, in lower case and without parameters; empty if there is none.
pub fn media_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Fails unless the headers declare the body as unencoded JSON.
pub fn declared_as_json(headers: &HeaderMap) -> Result<(), BodyReadError> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(BodyReadError::ContentEncoding);
    }
    let essence = media_type(headers);
    let is_json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(BodyReadError::ContentType) }
}

/// The fields of a JSON object, as the messages of errors list them.
pub struct Fields {
    pub names: Vec<&'static str>,
    /// The name of the field that is a list of objects, with the names of the fields of those objects.
    pub list: Option<(&'static str, &'static [&'static str])>,
}

impl Fields {
    pub fn of<T: DeserializeOwned>() -> Self {
        Self { names: names_of::<T>().to_vec(), list: None }
    }
}

/// The names of the fields of `T`, a struct, as it is read from JSON.
pub fn names_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Asked<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Asked<'_> {
        type Error = value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, value::Error> {
            *self.0 = fields;
            Err(value::Error::custom("only the names are asked for"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
            Err(value::Error::custom("it is no struct"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    let _ = T::deserialize(Asked(&mut names));
    names
}

/// Parses the JSON object in `bytes`, whose fields are those of `A` and of `B`. Content that is too large fails before any
/// other error.
pub fn parse<A: DeserializeOwned, B: DeserializeOwned>(bytes: &[u8]) -> Body<(A, B)> {
    let (of_a, of_b) = (names_of::<A>(), names_of::<B>());
    let of_fields = |name: &str| if of_a.contains(&name) || of_b.contains(&name) { Kept::All } else { Kept::Short };
    let json::Read { value, repeated } = json::read(bytes, Kept::Members(&of_fields)).map_err(|error| {
        BodyError::Malformed(format!("{} Send one JSON object in UTF-8.", why_not_json(bytes, &error)))
    })?;
    let fields = || Fields { names: [of_a, of_b].concat(), list: None };
    let wrong = |path: &str, reason: &str| Err(BodyError::Malformed(wrong_shape(path, reason, &fields())));
    match (value, repeated) {
        (Value::Object(object), None) => parse_both(object, fields),
        (Value::Object(object), Some(name)) => {
            check_content_size(object.get("content"))?;
            wrong(&name, &format!("duplicate field `{name}`"))
        }
        _ => wrong(".", ""),
    }
}

/// Parses `object` like [`parse`], without a second part. Messages list `fields`.
pub fn parse_object<T: DeserializeOwned>(object: Map<String, Value>, fields: impl FnOnce() -> Fields) -> Body<T> {
    parse_both::<T, NoFields>(object, fields).map(|(value, NoFields {})| value)
}

/// The texts that may be long. All others are cut before they are parsed.
const LONG_FIELDS: [&str; 2] = ["title", "content"];

/// Parses `object` like [`parse_object`]. The fields of `B` are its own, and all others belong to `A`.
pub fn parse_both<A: DeserializeOwned, B: DeserializeOwned>(
    mut object: Map<String, Value>,
    fields: impl FnOnce() -> Fields,
) -> Body<(A, B)> {
    let size = check_content_size(object.get("content"));
    let names = names_of::<B>();
    // Those of objects in a list may be long too.
    let others = object.iter_mut().filter(|(name, _)| !LONG_FIELDS.contains(&name.as_str()));
    others.for_each(|(_, value)| json::shorten(value));
    let (of_b, of_a): (Map<_, _>, Map<_, _>) = object.into_iter().partition(|(name, _)| names.contains(&name.as_str()));
    let both = || Ok((from_object(of_a)?, from_object(of_b)?));
    both().map_err(|error: serde_path_to_error::Error<serde_json::Error>| match size {
        Err(too_large) => too_large,
        Ok(()) => BodyError::Malformed(wrong_shape(&error.path().to_string(), &error.inner().to_string(), &fields())),
    })
}

fn from_object<T: DeserializeOwned>(
    object: Map<String, Value>,
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(Value::Object(object))
}

/// An object without fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

/// Fails if `content` is too large.
fn check_content_size(content: Option<&Value>) -> Result<(), BodyError> {
    match content.and_then(Value::as_str).map_or(0, str::len) {
        bytes if bytes > MAX_BYTES => Err(BodyError::Content(ContentError::TooLarge { bytes })),
        _ => Ok(()),
    }
}

/// Why `bytes` are not accepted as JSON. The text quotes none of them, since they may contain a key.
pub fn why_not_json(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return "The body begins with a byte order mark, which JSON does not allow (RFC 8259 §8.1). Leave it out."
            .to_owned();
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

/// Why JSON does not have the right shape. The text quotes no value, and quotes a name only if it cannot be a key.
fn wrong_shape(path: &str, reason: &str, fields: &Fields) -> String {
    // A name of at most 32 bytes holds no whole key, and one without the prefix of keys is no beginning of a key.
    let is_plain = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte));
        (1..=32).contains(&name.len()) && is_word && !name.starts_with(PREFIX)
    };
    let is_plain_element = |path: &str| {
        path.split_once('[').is_some_and(|(list, rest)| is_plain(list) && rest.len() <= 16 && !rest.contains(PREFIX))
    };
    let named = |prefix: &str| reason.strip_prefix(prefix)?.split('`').nth(1);
    let (list, is_in_list) = path.split_once('[').map_or((path, false), |(list, _)| (list, true));
    let in_list = fields.list.filter(|(name, _)| *name == list).map_or(&[][..], |(_, names)| names);
    let listed = enumerate(if is_in_list { in_list } else { &fields.names });
    if let Some(field) = named("missing field") {
        format!("The field `{field}` is missing. Send it as a string.")
    } else if let Some(field) = named("duplicate field") {
        format!("The field `{field}` is there twice. Send it once.")
    } else if let Some(field) = named("unknown field") {
        let field = if is_plain(field) { format!(" `{field}`") } else { String::new() };
        format!("Unknown field{field}. Allowed: {listed}.")
    } else if is_plain(path) || is_plain_element(path) {
        let expected = match reason.rsplit_once("expected ").map(|(_, expected)| expected) {
            Some("a boolean") => "`true` or `false`".to_owned(),
            Some("a sequence") => format!("a list of objects with {}", enumerate(in_list)),
            Some("usize" | "u64") => "a whole number".to_owned(),
            Some("a nonzero usize") => "a whole number from 1 on".to_owned(),
            Some(object) if object.starts_with("struct ") => format!("an object with {}", enumerate(in_list)),
            _ => "a string".to_owned(),
        };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_fields_of_a_page_and_texts_of_objects_in_a_list_are_decoded_in_full() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Read {
            title: String,
            content: String,
            option: String,
            list: Vec<Value>,
        }

        let long = "\u{7f}".repeat(100_000);
        let sent = json!({"title": long, "content": long, "option": long, "list": [long, {"new": long}]});
        let Value::Object(sent) = sent else { unreachable!() };
        let Ok(read) = parse_object::<Read>(sent, Fields::of::<Read>) else { panic!("it fits") };
        let cut = &long[..1024];
        assert_eq!((&read.title, &read.content, &*read.option), (&long, &long, cut));
        assert_eq!(read.list, [json!(cut), json!({"new": long})]);
    }
}
