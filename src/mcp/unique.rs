//! JSON whose objects have no two members of one name. Serde itself keeps the last of them and says nothing.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// JSON none of whose objects has two members of one name.
pub(super) struct UniqueMembers;

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = UniqueMembers;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UniqueMembers, A::Error> {
                let mut names = HashSet::new();
                while let Some((name, UniqueMembers)) = members.next_entry::<String, UniqueMembers>()? {
                    if !names.insert(name) {
                        return Err(de::Error::custom("a member is there twice"));
                    }
                }
                Ok(UniqueMembers)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<UniqueMembers, A::Error> {
                while elements.next_element::<UniqueMembers>()?.is_some() {}
                Ok(UniqueMembers)
            }

            fn visit_unit<E>(self) -> Result<UniqueMembers, E> {
                Ok(UniqueMembers)
            }

            fn visit_bool<E>(self, _: bool) -> Result<UniqueMembers, E> {
                Ok(UniqueMembers)
            }

            fn visit_i64<E>(self, _: i64) -> Result<UniqueMembers, E> {
                Ok(UniqueMembers)
            }

            fn visit_u64<E>(self, _: u64) -> Result<UniqueMembers, E> {
                Ok(UniqueMembers)
            }

            fn visit_f64<E>(self, _: f64) -> Result<UniqueMembers, E> {
                Ok(UniqueMembers)
            }

            fn visit_str<E>(self, _: &str) -> Result<UniqueMembers, E> {
                Ok(UniqueMembers)
            }
        }
        deserializer.deserialize_any(Walk)
    }
}
