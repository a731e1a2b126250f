//! A body is read as the JSON that it is, within the limits, and accepted only if it is one object with only the fields
//! that it may have. A refusal repeats no part of the body that could be a key.

use handbill::http::request::fields::{parse, parse_object};
use handbill::http::request::json::{self, FlawKind, MAX_VALUES};
use handbill::http::types::FieldsBody;
use handbill_pages::service::{Body, BodyError, PageFields};
use handbill_pages::values::details::{DetailsInput, Patch};
use handbill_pages::values::edit_key::{PREFIX, SECRET_CHARS};
use serde_json::Value;

pub(crate) fn check(input: &[u8]) {
    let body: Body<FieldsBody> = parse(input);
    let Some(Value::Object(object)) = read(input) else {
        return assert_discreet(&body.expect_err("it is no object and was taken"));
    };
    let is_field = |name: &String| ["title", "content"].contains(&&**name);
    let fits = object.iter().all(|(name, value)| is_field(name) && (value.is_string() || value.is_null()));
    match body {
        Ok(body) => {
            assert!(fits, "it does not fit and was taken");
            let PageFields { details: DetailsInput { title }, content, .. } = body.into();
            for (name, value) in [("title", title), ("content", content.map(|content| content.to_string()))] {
                assert_eq!(value != Patch::Keep, object.contains_key(name));
                assert_eq!(value.as_set().map(String::as_str), object.get(name).and_then(Value::as_str));
            }
        }
        Err(error) => {
            assert!(!fits, "it fits and was refused: {error}");
            assert_discreet(&error);
        }
    }
    assert_eq!(parse_object::<FieldsBody>(object).is_ok(), fits, "it is otherwise for a tool");
}

/// What the reader of bodies makes of `input`, compared with what `serde_json` does.
fn read(input: &[u8]) -> Option<Value> {
    let expected = serde_json::from_slice::<Value>(input).ok();
    let members = |value: &Value| marks(value.to_string().as_bytes(), b":");
    match json::read(input) {
        Ok(value) => {
            assert_eq!(expected.as_ref(), Some(&value));
            assert_eq!(members(&value), marks(input, b":"), "a member is left out");
            // Each value has a line of its own here, and so has each end of what holds some.
            let lines = format!("{value:#}");
            let values = lines.lines().filter(|line| !line.trim_start().starts_with([']', '}'])).count();
            assert!(values <= MAX_VALUES, "{values} values were taken");
            return Some(value);
        }
        Err(flaw) => match flaw.kind {
            FlawKind::TooManyValues => assert!(marks(input, b",[{") >= MAX_VALUES, "it has fewer"),
            FlawKind::TooDeep => assert!(marks(input, b"[{") > 126, "it is less deep"),
            FlawKind::RawText | FlawKind::Twice(_) => assert!(marks(input, b"{") > 0, "it has no member"),
            FlawKind::Empty | FlawKind::ByteOrderMark | FlawKind::NotJson => assert_eq!(expected, None),
        },
    }
    None
}

/// How many of the bytes `wanted` stand outside strings.
fn marks(text: &[u8], wanted: &[u8]) -> usize {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_mark = |byte: &&u8| {
        is_string ^= **byte == b'"' && !is_escaped;
        is_escaped = **byte == b'\\' && !is_escaped;
        !is_string && wanted.contains(byte)
    };
    text.iter().filter(is_mark).count()
}

fn assert_discreet(error: &BodyError) {
    let BodyError::Malformed(message) = error else { return };
    // People read it, so it stays this short whatever was sent.
    assert!(message.len() <= 300, "{message}");
    let holds_key = message.match_indices(PREFIX).any(|(at, _)| {
        let secret = message.as_bytes().iter().skip(at + PREFIX.len());
        secret.take_while(|byte| byte.is_ascii_alphanumeric()).count() >= SECRET_CHARS
    });
    assert!(!holds_key, "{message}");
}
