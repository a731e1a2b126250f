//! JSON read together with the answer to one question: does any object in it repeat a name? Serde keeps the last of two
//! members with the same name and reports nothing.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value, and whether its names are unique.
pub(super) struct Read {
    /// The value as Serde reads it.
    pub(super) value: Value,
    /// Whether the names of members are unique in every object in it.
    pub(super) is_unique: bool,
}

impl<T: Into<Value>> From<T> for Read {
    /// A value without members.
    fn from(value: T) -> Self {
        Self { value: value.into(), is_unique: true }
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadVisitor)
    }
}

struct ReadVisitor;

impl<'de> Visitor<'de> for ReadVisitor {
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
