//! Limits in the OpenAPI document: `utoipa` takes only literals, so they are set from the constants.

use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Schema};

use handbill_pages::values::content::MAX_BYTES;
use handbill_pages::values::title::MAX_CHARS;

/// A schema, one of its fields, and its `maxLength`.
const LONGEST: [(&str, &str, usize); 5] = [
    ("CreatePage", "title", MAX_CHARS),
    ("CreatePage", "content", MAX_BYTES),
    ("UpdatePage", "title", MAX_CHARS),
    ("UpdatePage", "content", MAX_BYTES),
    ("Page", "title", MAX_CHARS),
];

pub fn set_limits(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    for (name, field, longest) in LONGEST {
        if let Some(RefOr::T(Schema::Object(schema))) = schemas.get_mut(name)
            && let Some(RefOr::T(Schema::Object(field))) = schema.properties.get_mut(field)
        {
            field.max_length = Some(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;
    use crate::http::types::{CreateBody, FieldsBody, PageBody};

    #[test]
    fn the_limits_in_the_schemas_are_the_limits_in_force() {
        let mut schemas = BTreeMap::from([
            ("CreatePage".to_owned(), CreateBody::schema()),
            ("UpdatePage".to_owned(), FieldsBody::schema()),
            ("Page".to_owned(), PageBody::schema()),
        ]);
        set_limits(&mut schemas);
        let schemas = json!(schemas);
        for (name, field, longest) in LONGEST {
            assert_eq!(schemas[name]["properties"][field]["maxLength"], longest, "{name}: {field}");
        }
        for name in ["CreatePage", "UpdatePage"] {
            let description = schemas[name]["properties"]["content"]["description"].as_str().unwrap();
            assert!(description.contains("Its length counts bytes of UTF-8"), "{name}: {description}");
        }
    }
}
