//! A body is accepted only if it is one JSON object with only the fields that it may have, and a refusal repeats no
//! part of the body that could be a key.

use handbill::http::request::fields::{parse, parse_object};
use handbill::http::types::FieldsBody;
use handbill_pages::service::{Body, BodyError, PageFields};
use handbill_pages::values::details::{DetailsInput, Patch};
use handbill_pages::values::edit_key::{PREFIX, SECRET_CHARS};
use serde_json::{Map, Value};

const FIELDS: [&str; 2] = ["title", "content"];

/// Longest message of a refusal, in bytes. A message stays this short whatever was sent, because people read it.
const MAX_MESSAGE_BYTES: usize = 300;

pub(crate) fn check(input: &[u8]) {
    let body: Body<FieldsBody> = parse(input);
    let object = match serde_json::from_slice(input) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    };
    // An object with fields of the right kinds is accepted, unless a field occurs twice. `Value` does not show repeated
    // fields.
    check_one(body, object.as_ref().is_some_and(fits), |body| {
        let PageFields { details: DetailsInput { title }, content, .. } = body.into();
        let content = content.map(|content| content.to_string());
        let object = object.as_ref().expect("it was taken");
        for (name, value) in [("title", title), ("content", content)] {
            assert_eq!(value != Patch::Keep, object.contains_key(name));
            assert_eq!(value.as_set().map(String::as_str), text(object, name));
        }
    });
    // The same object is also checked as the arguments of a tool. In this form no field can occur twice.
    if let Some(object) = &object {
        let body: Body<FieldsBody> = parse_object(object.clone());
        assert_eq!(body.is_ok(), fits(object));
    }
}

fn check_one<T>(body: Body<T>, fits: bool, taken: impl FnOnce(T)) {
    match body {
        Ok(body) => {
            assert!(fits, "it does not fit and was taken");
            taken(body);
        }
        Err(BodyError::Malformed(message)) => {
            assert!(!fits || message.contains("twice"), "it fits and was refused: {message}");
            assert!(message.len() <= MAX_MESSAGE_BYTES, "{message}");
            assert!(!holds_key(&message), "{message}");
        }
        Err(other) => assert!(!fits, "it fits and was refused: {other}"),
    }
}

/// Whether `object` has only known fields, each with a string or with `null`.
fn fits(object: &Map<String, Value>) -> bool {
    let fits = |value: &Value| value.is_string() || value.is_null();
    object.iter().all(|(name, value)| FIELDS.contains(&&**name) && fits(value))
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

fn holds_key(text: &str) -> bool {
    text.match_indices(PREFIX).any(|(at, _)| {
        let secret = text.as_bytes().iter().skip(at + PREFIX.len());
        secret.take_while(|byte| byte.is_ascii_alphanumeric()).count() >= SECRET_CHARS
    })
}
