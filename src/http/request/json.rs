//! Counts values and finds repeated members before parsing.
//!
//! A `serde_json::Value` can take a hundred times its text: the object of `{"":0}` takes some 600 bytes. Serde silently
//! keeps the last of two equal members.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// With objects, lists and everything in them. A call with the most edits has some 300; the largest tree takes about
/// 650 KB.
pub const MAX_VALUES: usize = 1024;

/// Begins the error.
pub const TOO_MANY: &str = "too many values";

/// Begins the error.
pub const TWICE: &str = "a member is there twice";

/// Fails if `bytes` are not JSON, are deeper than 127 levels, have more than [`MAX_VALUES`] values, or a member twice.
pub fn check_values(bytes: &[u8]) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    Counter { left: &mut { MAX_VALUES } }.deserialize(&mut json)?;
    json.end()
}

struct Counter<'a> {
    left: &'a mut usize,
}

impl Counter<'_> {
    fn next(&mut self) -> Counter<'_> {
        Counter { left: self.left }
    }
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        *self.left = self.left.checked_sub(1).ok_or_else(|| D::Error::custom(TOO_MANY))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                return Err(A::Error::custom(TWICE));
            }
            members.next_value_seed(self.next())?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(self.next())?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<String> {
        check_values(text.as_bytes()).err().map(|error| error.to_string())
    }

    #[test]
    fn values_are_counted_wherever_they_stand() {
        let list = |values: usize| format!("[{}]", vec!["0"; values].join(","));
        assert_eq!(refused(&list(MAX_VALUES - 1)), None);
        for text in [list(MAX_VALUES), format!(r#"{{"a": {}, "b": 0}}"#, list(MAX_VALUES - 2))] {
            assert!(refused(&text).unwrap().starts_with(TOO_MANY), "{text}");
        }
    }

    #[test]
    fn a_name_that_an_object_has_twice_is_found() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"a": {"b": 1, "\u0062": 2}}]"#] {
            assert!(refused(text).unwrap().starts_with(TWICE), "{text}");
        }
        assert_eq!(refused(r#"{"a": {"b": 1}, "b": {"b": 2}}"#), None);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[] []", "\u{feff}{}", &"[".repeat(200)] {
            assert!(refused(text).is_some(), "{text}");
        }
    }
}
