//! JSON that tells whether all members of its objects have names of their own. Serde itself keeps the last of two and
//! says nothing.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value, read once.
pub(super) struct Read {
    /// As Serde reads it.
    pub(super) value: Value,
    /// Whether no object in it has two members of one name.
    pub(super) is_unique: bool,
}

impl<T: Into<Value>> From<T> for Read {
    /// What holds no members.
    fn from(value: T) -> Self {
        Self { value: value.into(), is_unique: true }
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Read;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Read, A::Error> {
        let (mut object, mut is_unique) = (Map::new(), true);
        while let Some((name, member)) = members.next_entry::<String, Read>()? {
            is_unique &= object.insert(name, member.value).is_none() && member.is_unique;
        }
        Ok(Read { value: object.into(), is_unique })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Read, A::Error> {
        let (mut array, mut is_unique) = (Vec::new(), true);
        while let Some(element) = elements.next_element::<Read>()? {
            is_unique &= element.is_unique;
            array.push(element.value);
        }
        Ok(Read { value: array.into(), is_unique })
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Value::Null.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Read, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Read, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Read, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Read, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Read, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Read, E> {
        Ok(value.into())
    }
}
