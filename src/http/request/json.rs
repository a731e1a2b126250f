//! Reads JSON, and meanwhile counts its values and finds repeated members.
//!
//! A `serde_json::Value` can take a hundred times its text: the object of `{"":0}` takes some 600 bytes. Serde silently
//! keeps the last of two equal members.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// With objects, lists and everything in them. A call with the most edits has some 300; the largest tree takes about
/// 650 KB.
pub const MAX_VALUES: usize = 1024;

/// How many objects and lists may be around a value. `serde_json` itself gives up at one more.
const MAX_DEPTH: usize = 126;

/// `serde_json` reads an object whose first member has this name as the JSON in that member's text. `rmcp` reads calls with
/// `serde_json`, so the values in the text would not be counted.
const RAW_TEXT: &str = "$serde_json::private::RawValue";

/// What is wrong with a text, with its line and column.
#[derive(Debug)]
pub struct Flaw {
    pub kind: FlawKind,
    line: usize,
    column: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum FlawKind {
    NotJson,
    Empty,
    ByteOrderMark,
    TooDeep,
    TooManyValues,
    RawText,
    /// The member's name.
    Twice(String),
}

impl Flaw {
    /// Quotes nothing, which may be a key.
    pub fn message(&self) -> String {
        let problem = match self.kind {
            FlawKind::ByteOrderMark => {
                return "The body begins with a byte order mark, which JSON does not allow (RFC 8259 §8.1). Leave it out."
                    .to_owned();
            }
            FlawKind::Empty => return "The body is empty.".to_owned(),
            FlawKind::NotJson => "is not valid JSON",
            FlawKind::TooDeep => "is nested deeper than 127 levels",
            FlawKind::TooManyValues => "holds more than 1024 values",
            FlawKind::RawText => "has a member with a name that is reserved",
            FlawKind::Twice(_) => "has the same member twice",
        };
        format!("The body {problem}, at line {}, column {}.", self.line, self.column)
    }
}

/// Fails if `bytes` are not JSON, are deeper than 127 levels, have more than [`MAX_VALUES`] values, a member twice, or values
/// in a text.
pub fn read(bytes: &[u8]) -> Result<Value, Flaw> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut found = None;
    let reader = Reader { left: &mut { MAX_VALUES }, depth: 0, found: &mut found };
    reader.deserialize(&mut json).and_then(|value| json.end().map(|()| value)).map_err(|error| {
        let kind = match found {
            Some(kind) => kind,
            None if bytes.starts_with("\u{feff}".as_bytes()) => FlawKind::ByteOrderMark,
            None if bytes.trim_ascii().is_empty() => FlawKind::Empty,
            None => FlawKind::NotJson,
        };
        Flaw { kind, line: error.line(), column: error.column() }
    })
}

struct Reader<'a> {
    left: &'a mut usize,
    depth: usize,
    /// The error of serde is a text alone.
    found: &'a mut Option<FlawKind>,
}

impl Reader<'_> {
    fn inside(&mut self) -> Reader<'_> {
        Reader { left: self.left, depth: self.depth + 1, found: self.found }
    }

    fn fail<E: Error>(&mut self, kind: FlawKind) -> E {
        *self.found = Some(kind);
        E::custom("the text is refused")
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<Value, D::Error> {
        if *self.left == 0 {
            return Err(self.fail(FlawKind::TooManyValues));
        }
        if self.depth > MAX_DEPTH {
            return Err(self.fail(FlawKind::TooDeep));
        }
        *self.left -= 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name == RAW_TEXT {
                return Err(self.fail(FlawKind::RawText));
            }
            if object.contains_key(&name) {
                return Err(self.fail(FlawKind::Twice(name)));
            }
            object.insert(name, members.next_value_seed(self.inside())?);
        }
        Ok(object.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(self.inside())? {
            list.push(element);
        }
        Ok(list.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> Option<FlawKind> {
        read(text.as_bytes()).err().map(|flaw| flaw.kind)
    }

    #[test]
    fn values_are_counted_wherever_they_stand() {
        fn list(values: usize) -> String {
            format!("[{}]", vec!["0"; values].join(","))
        }

        assert_eq!(refused(&list(MAX_VALUES - 1)), None);
        for text in [list(MAX_VALUES), format!(r#"{{"a": {}, "b": 0}}"#, list(MAX_VALUES - 2))] {
            assert_eq!(refused(&text), Some(FlawKind::TooManyValues), "{text}");
        }
    }

    #[test]
    fn a_name_that_an_object_has_twice_is_found() {
        for (text, name) in [(r#"{"a": 1, "a": 1}"#, "a"), (r#"[{"a": {"b": 1, "\u0062": 2}}]"#, "b")] {
            assert_eq!(refused(text), Some(FlawKind::Twice(name.to_owned())), "{text}");
        }
        assert_eq!(refused(r#"{"a": {"b": 1}, "b": {"b": 2}}"#), None);
    }

    #[test]
    fn values_in_a_text_that_serde_json_would_read_are_refused() {
        for (text, hidden) in [
            (r#"{"$serde_json::private::RawValue": "[0]"}"#, json!([0])),
            (r#"[{"a": {"\u0024serde_json::private::RawValue": "{}"}}]"#, json!([{"a": {}}])),
        ] {
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), hidden, "{text}");
            assert_eq!(refused(text), Some(FlawKind::RawText), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_by_what_is_wrong() {
        fn nested(levels: usize) -> String {
            "[".repeat(levels) + &"]".repeat(levels)
        }

        assert_eq!(refused(&nested(MAX_DEPTH + 1)), None);
        for (text, kind) in [
            ("", FlawKind::Empty),
            (" \n", FlawKind::Empty),
            ("{", FlawKind::NotJson),
            ("[] []", FlawKind::NotJson),
            ("1e999", FlawKind::NotJson),
            ("\u{feff}{}", FlawKind::ByteOrderMark),
            (&nested(MAX_DEPTH + 2), FlawKind::TooDeep),
        ] {
            assert_eq!(refused(text), Some(kind), "{text}");
        }
    }
}
