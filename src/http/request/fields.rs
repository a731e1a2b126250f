//! Takes the fields out of a JSON object, for bodies and tools alike, with our own words for what does not fit.

use serde_json::{Map, Value};

use super::json::{self, FlawKind};
use handbill_pages::service::{Body, BodyError};
use handbill_pages::values::content::{ContentError, MAX_BYTES};
use handbill_pages::values::{details::Patch, edit_key::PREFIX};

/// A type that is read from an object with these fields and no other.
pub trait FromFields: Sized {
    /// As messages list them.
    const NAMES: &'static [&'static str];

    /// What takes the place of fields that other interfaces have.
    const ELSEWHERE: &'static [(&'static str, &'static str)] = &[];

    fn read(fields: &mut Fields) -> Body<Self>;
}

/// The members of an object that were not taken yet.
pub struct Fields {
    members: Map<String, Value>,
    /// Stands before each name in a message: `edits[0].` for what a list holds.
    place: String,
}

/// Content that is too large fails first.
pub fn parse<T: FromFields>(bytes: &[u8]) -> Body<T> {
    let value = json::read(bytes).map_err(|flaw| match &flaw.kind {
        FlawKind::Twice(name) => malformed(format!("The field{} is there twice. Send it once.", quoted(name))),
        _ => malformed(format!("{} Send one JSON object in UTF-8.", flaw.message())),
    })?;
    match value {
        Value::Object(object) => parse_object(object),
        _ => Err(malformed(format!(
            "The body has the wrong type. Send one JSON object with the fields {}.",
            enumerate(T::NAMES)
        ))),
    }
}

/// Like [`parse`], for a tool's arguments.
pub fn parse_object<T: FromFields>(members: Map<String, Value>) -> Body<T> {
    match members.get("content").and_then(Value::as_str).map_or(0, str::len) {
        bytes if bytes > MAX_BYTES => Err(BodyError::Content(ContentError::TooLarge { bytes })),
        _ => Fields { members, place: String::new() }.read(),
    }
}

impl Fields {
    fn read<T: FromFields>(mut self) -> Body<T> {
        if let Some(unknown) = self.members.keys().find(|name| !T::NAMES.contains(&name.as_str())) {
            let place = self.place.strip_suffix('.').map(|place| format!(" in `{place}`")).unwrap_or_default();
            let elsewhere = T::ELSEWHERE.iter().find(|(name, _)| name == unknown);
            let elsewhere = elsewhere.map(|(_, what)| format!(" Send {what}.")).unwrap_or_default();
            let (unknown, allowed) = (quoted(unknown), enumerate(T::NAMES));
            return Err(malformed(format!("Unknown field{unknown}{place}. Allowed: {allowed}.{elsewhere}")));
        }
        T::read(&mut self)
    }

    pub fn text(&mut self, name: &str) -> Body<Option<String>> {
        match self.members.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    pub fn required_text(&mut self, name: &str) -> Body<String> {
        let text = self.text(name)?;
        text.ok_or_else(|| malformed(format!("The field `{}{name}` is missing. Send it as a string.", self.place)))
    }

    pub fn patch(&mut self, name: &str) -> Body<Patch<String>> {
        match self.members.get(name) {
            Some(Value::Null) => Ok(Patch::Clear),
            _ => Ok(self.text(name)?.into()),
        }
    }

    /// A field that has no meaning as `null`.
    pub fn text_or_left_out(&mut self, name: &str) -> Body<Option<String>> {
        match self.members.get(name) {
            Some(Value::Null) => Err(malformed(format!("The field `{name}` is null. Leave it out, or send a key."))),
            _ => self.text(name),
        }
    }

    pub fn flag(&mut self, name: &str) -> Body<Option<bool>> {
        match self.members.remove(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.wrong(name, "`true` or `false`")),
        }
    }

    /// By JSON Schema `20000.0` is a whole number too, and clients whose numbers are doubles send it. A number that is too large
    /// counts as the largest.
    pub fn count(&mut self, name: &str, least: usize) -> Body<Option<usize>> {
        let Some(value) = self.members.remove(name) else { return Ok(None) };
        let whole = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast ends at the largest number"
        )]
        match whole.map(|number| number as usize) {
            Some(count) if count >= least => Ok(Some(count)),
            _ if least == 0 => Err(self.wrong(name, "a whole number")),
            _ => Err(self.wrong(name, &format!("a whole number from {least} on"))),
        }
    }

    pub fn list<T: FromFields>(&mut self, name: &str) -> Body<Option<Vec<T>>> {
        match self.members.remove(name) {
            None => Ok(None),
            Some(Value::Array(values)) => values
                .into_iter()
                .enumerate()
                .map(|(index, value)| self.item(name, index, value))
                .collect::<Body<_>>()
                .map(Some),
            Some(_) => Err(self.wrong(name, &format!("a list of objects with {}", enumerate(T::NAMES)))),
        }
    }

    fn item<T: FromFields>(&self, list: &str, index: usize, value: Value) -> Body<T> {
        let name = format!("{list}[{index}]");
        match value {
            Value::Object(members) => Self { members, place: name + "." }.read(),
            _ => Err(self.wrong(&name, &format!("an object with {}", enumerate(T::NAMES)))),
        }
    }

    fn wrong(&self, name: &str, expected: &str) -> BodyError {
        malformed(format!("The field `{}{name}` has the wrong type. Send it as {expected}.", self.place))
    }
}

fn malformed(message: String) -> BodyError {
    BodyError::Malformed(message)
}

/// A name that a client sent, unless it may be a key: one of 32 bytes holds no whole key, and one without the prefix is no beginning
/// of one.
fn quoted(name: &str) -> String {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte));
    let is_plain = (1..=32).contains(&name.len()) && is_word && !name.starts_with(PREFIX);
    if is_plain { format!(" `{name}`") } else { String::new() }
}

/// `a`, `b` and `c`.
fn enumerate(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some((only, _)) => only.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::types::UpdateBody;

    #[test]
    fn content_too_large_is_the_error_whatever_else_is_wrong() {
        let content = "a".repeat(MAX_BYTES + 1);
        for body in
            [format!(r#"{{"x": 1, "content": "{content}"}}"#), format!(r#"{{"content": "{content}", "title": 1}}"#)]
        {
            let error = parse::<UpdateBody>(body.as_bytes()).err();
            assert!(matches!(error, Some(BodyError::Content(_))), "{}", &body[..20]);
        }
    }
}
