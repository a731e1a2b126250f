//! The fields of a page that clients send, for REST and MCP alike: one type, its JSON, and its schemas.
//!
//! A create and an update have the same fields. An update may leave out each of them, and a create needs some, which the
//! service checks. So the schema of a create is that of an update with a few parts of its own.

use std::borrow::Cow;

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use handbill_core::domain::content::MAX_BYTES;
use handbill_core::domain::edit_key::{EditKey, NotANewKey};
use handbill_core::domain::title::MAX_CHARS;
use handbill_core::service::PageFields;

// The first description of a field is that of REST, and the second that of MCP, where `null` means that a field is left
// out.
/// The body of an update. An omitted field keeps its value.
#[derive(Debug, Deserialize, ToSchema, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UpdatePage)]
pub struct FieldsBody {
    /// The new title. `null`, or a title without visible characters, clears it. The slug does not change.
    #[serde(default, deserialize_with = "sent")]
    #[schema(
        value_type = Option<String>,
        pattern = r"^\s*[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*\s*$",
        example = "Hello again"
    )]
    #[schemars(
        with = "Option<String>",
        description = "The new title, on one line; an empty one removes it.",
        length(max = MAX_CHARS)
    )]
    title: Option<Option<String>>,
    /// The new Markdown. Its length counts bytes of UTF-8, not characters.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = String, required = false, min_length = 1, example = "A *second* version.")]
    #[schemars(
        with = "Option<String>",
        description = "All of the new Markdown. Its length counts bytes of UTF-8.",
        length(min = 1, max = MAX_BYTES)
    )]
    content: Option<Option<String>>,
}

/// Wraps a field that was sent. So `null` is `Some(None)`, and a field that was not sent is `None`.
fn sent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl From<FieldsBody> for PageFields {
    fn from(body: FieldsBody) -> Self {
        Self { title: body.title, content: body.content.map(|content| content.map(Into::into)), ..Self::default() }
    }
}

/// The field that only the body of a create over REST has. Its schema is in [`CreatePage`]. The type has no `Debug`, so that no
/// log can show the key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateOptions {
    #[serde(default, deserialize_with = "new_key")]
    edit_key: Option<Result<EditKey, NotANewKey>>,
}

fn new_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Result<EditKey, NotANewKey>>, D::Error> {
    String::deserialize(deserializer).map(|text| Some(EditKey::parse_new(&text)))
}

impl CreateOptions {
    /// `fields` with the key.
    pub fn with(self, fields: PageFields) -> PageFields {
        PageFields { edit_key: self.edit_key, ..fields }
    }
}

/// The schema of [`FieldsBody`] as the body of a create.
pub struct CreatePage;

/// A field that a create needs, as the schema of a create has it.
struct Needed {
    name: &'static str,
    description: &'static str,
    /// For MCP.
    short: &'static str,
    /// For OpenAPI; `None` if that of an update holds.
    pattern: Option<&'static str>,
    example: &'static str,
}

const CREATE: &str = "The body of a create.";

/// The description of `edit_key`, which only a create over REST takes: a random text of a model is not random.
const NEW_KEY: &str = "The edit key of the new page, if the client makes it: `hbk_` and 43 characters from a cryptographic generator, at least 20 of them different, a new key for each page. The same request may then be sent again after a lost answer: it finds the page that it made. Left out, the server makes the key, and shows it once.";

const NEEDED: [Needed; 2] = [
    Needed {
        name: "title",
        description: "The title. White space around it is dropped. Control characters, line separators, and bidirectional embeddings, overrides and isolates are refused, and so is a title without visible characters. The slug is derived from the title and never changes afterwards.",
        short: "The title, on one line, without control characters. The address is derived from it and never changes.",
        pattern: Some(
            r"^\s*[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*[^\s\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8][^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*\s*$",
        ),
        example: "Hello, world",
    },
    Needed {
        name: "content",
        description: "Markdown. It is stored byte for byte. Its length counts bytes of UTF-8, not characters.",
        short: "Markdown. Its length counts bytes of UTF-8.",
        pattern: None,
        example: "A *first* page.",
    },
];

impl ToSchema for CreatePage {}

impl PartialSchema for CreatePage {
    fn schema() -> RefOr<Schema> {
        let mut schema = FieldsBody::schema();
        let RefOr::T(Schema::Object(body)) = &mut schema else { return schema };
        let edit_key = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(NEW_KEY))
            .pattern(Some("^hbk_[0-9A-Za-z]{43}$"))
            .examples(["hbk_Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0FeDcBaZyXwVuT"])
            .build();
        body.properties.insert("edit_key".to_owned(), edit_key.into());
        body.description = Some(CREATE.to_owned());
        body.required = NEEDED.iter().map(|needed| needed.name.to_owned()).collect();
        for needed in &NEEDED {
            if let Some(RefOr::T(Schema::Object(field))) = body.properties.get_mut(needed.name) {
                field.schema_type = SchemaType::Type(Type::String);
                field.min_length = Some(1);
                field.description = Some(needed.description.to_owned());
                field.example = Some(needed.example.into());
                field.pattern = needed.pattern.map(str::to_owned).or_else(|| field.pattern.take());
            }
        }
        schema
    }
}

impl JsonSchema for CreatePage {
    fn schema_name() -> Cow<'static, str> {
        "CreatePage".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let mut schema = FieldsBody::json_schema(generator);
        schema.insert("description".to_owned(), CREATE.into());
        schema.insert("required".to_owned(), NEEDED.iter().map(|needed| needed.name).collect());
        for needed in &NEEDED {
            let field = schema.get_mut("properties").and_then(|properties| properties.get_mut(needed.name));
            if let Some(Value::Object(field)) = field {
                field.remove("default");
                field.insert("type".to_owned(), "string".into());
                field.insert("minLength".to_owned(), 1.into());
                field.insert("description".to_owned(), needed.short.into());
            }
        }
        schema
    }
}
