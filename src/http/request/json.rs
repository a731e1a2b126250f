//! JSON of strangers, read without making more of it than is used.
//!
//! A `serde_json::Value` can take a hundred times the bytes of its text: `{"":0}` is seven bytes with its comma, and its
//! object takes some 600. So only the members that somebody reads become values, and the number of all values is bounded.
//! Serde keeps the last of two members with the same name and reports nothing, so that is looked for here too.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Most values in one text, counting objects, lists and everything in them. A call of a tool with the most edits has some
/// 300. The largest tree of so many values takes about 650 KB.
pub const MAX_VALUES: usize = 1024;

/// Longest text of which all is kept where nobody needs a long one, in bytes. Serde's error repeats a text that stands in the
/// wrong place, and escapes it: that of 128 KB takes 3 to 6 ms.
const SHORT_BYTES: usize = 1024;

/// The beginning of the error of a text with too many values.
pub(super) const TOO_MANY: &str = "too many values";

/// The parts of a value that somebody reads.
#[derive(Clone, Copy)]
pub enum Kept<'a> {
    All,
    /// All of it, but of each text only the beginning.
    Short,
    /// Nothing of it: it becomes null.
    Nothing,
    /// The members of an object that this function names, and nothing of the elements of a list.
    Members(&'a dyn Fn(&str) -> Kept<'a>),
}

/// The parts of one text that somebody reads.
pub struct Read {
    /// The value, in which objects have only the members that are kept.
    pub value: Value,
    /// A name that an object in it has twice.
    pub repeated: Option<String>,
}

/// Reads what `kept` names of the JSON in `bytes`.
///
/// Fails if the text is not JSON, is nested deeper than 127 levels, or has more than [`MAX_VALUES`] values.
pub fn read(bytes: &[u8], kept: Kept<'_>) -> serde_json::Result<Read> {
    let (left, repeated) = (Cell::new(MAX_VALUES), Cell::new(None));
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = Reader { kept, left: &left, repeated: &repeated }.deserialize(&mut json)?;
    json.end()?;
    Ok(Read { value, repeated: repeated.into_inner() })
}

/// Cuts `value`, if it is a text, and the texts in it, if it is a list.
pub fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => text.truncate(short(text).len()),
        Value::Array(elements) => elements.iter_mut().for_each(shorten),
        _ => {}
    }
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHORT_BYTES)]
}

/// Reads the name of a member. Every name that somebody knows is short, so of another only the beginning is kept.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<String, E> {
        Ok(short(name).to_owned())
    }
}

/// Reads one value. All readers of a text share the counts.
#[derive(Clone, Copy)]
struct Reader<'a, 'k> {
    kept: Kept<'k>,
    /// How many more values the text may have.
    left: &'a Cell<usize>,
    repeated: &'a Cell<Option<String>>,
}

impl Reader<'_, '_> {
    fn keeps(&self) -> bool {
        !matches!(self.kept, Kept::Nothing)
    }

    /// The reader of the member `name`, or of an element.
    fn inner(self, name: Option<&str>) -> Self {
        let kept = match (self.kept, name) {
            (Kept::Members(kept), Some(name)) => kept(name),
            (Kept::Members(_), None) => Kept::Nothing,
            (kept, _) => kept,
        };
        Reader { kept, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom(TOO_MANY))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        if !self.keeps() {
            while members.next_key::<IgnoredAny>()?.is_some() {
                members.next_value_seed(self)?;
            }
            return Ok(Value::Null);
        }
        while let Some(name) = members.next_key_seed(Name)? {
            let reader = self.inner(Some(&name));
            let value = members.next_value_seed(reader)?;
            if reader.keeps() {
                if object.contains_key(&name) {
                    self.repeated.set(Some(name.clone()));
                }
                object.insert(name, value);
            }
        }
        Ok(object.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self.inner(None))? {
            if self.keeps() {
                array.push(element);
            }
        }
        Ok(array.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(match self.kept {
            Kept::All => value.into(),
            Kept::Nothing => Value::Null,
            Kept::Short | Kept::Members(_) => short(value).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A text of 128 KB, which an error would escape.
    fn long() -> String {
        "\u{1}".repeat(128 * 1024)
    }

    #[test]
    fn of_a_text_that_nobody_needs_long_only_the_beginning_is_kept() {
        let long = long();
        let text = json!({"short": long, "in": {"it": [long, "é".repeat(1024)]}, "all": long}).to_string();
        let of = |name: &str| if name == "all" { Kept::All } else { Kept::Short };
        let Read { value, .. } = read(text.as_bytes(), Kept::Members(&of)).unwrap();
        let beginning = &long[..1024];
        assert_eq!(value, json!({"short": beginning, "in": {"it": [beginning, "é".repeat(512)]}, "all": long}));
        let Read { value, .. } = read(json!(long).to_string().as_bytes(), Kept::Members(&of)).unwrap();
        assert_eq!(value, json!(beginning), "in the place of an object");
    }

    #[test]
    fn of_a_name_that_nobody_knows_only_the_beginning_is_kept() {
        let long = long();
        let Read { value, repeated } = read(json!({"a": {&long: 1}}).to_string().as_bytes(), Kept::All).unwrap();
        assert_eq!((value, repeated), (json!({"a": {&long[..1024]: 1}}), None));
    }

    #[test]
    fn a_name_that_an_object_has_twice_is_found_where_it_is_kept() {
        let repeated = |text: &str, kept| read(text.as_bytes(), kept).unwrap().repeated;
        assert_eq!(repeated(r#"{"a": {"b": 1, "\u0062": 2}}"#, Kept::All).as_deref(), Some("b"));
        assert_eq!(repeated(r#"{"a": {"b": 1, "b": 2}}"#, Kept::Members(&|_| Kept::Nothing)), None);
        assert_eq!(repeated(r#"{"a": {"b": 1}, "b": {"b": 2}}"#, Kept::All), None);
    }

    #[test]
    fn a_text_in_the_place_of_an_option_or_of_an_object_in_a_list_is_cut_and_one_in_such_an_object_is_not() {
        let long = long();
        let beginning = &long[..1024];
        let mut value = json!([long, [long, {"new": long}], 7]);
        shorten(&mut value);
        assert_eq!(value, json!([beginning, [beginning, {"new": long}], 7]));
        let mut value = json!("é".repeat(1024));
        shorten(&mut value);
        assert_eq!(value, json!("é".repeat(512)));
    }
}
