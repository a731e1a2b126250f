//! The fields of a page that clients send, for REST and MCP alike.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use handbill_pages::service::PageFields;
use handbill_pages::values::content::MAX_BYTES;
use handbill_pages::values::edit_key::{EditKey, NotANewKey};
use handbill_pages::values::title::MAX_CHARS;

/// The body of an update. An omitted field keeps its value.
#[derive(Debug, Deserialize, ToSchema)]
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
    title: Option<Option<String>>,
    /// The new Markdown. Its length counts bytes of UTF-8, not characters.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = String, required = false, min_length = 1, example = "A *second* version.")]
    content: Option<Option<String>>,
}

/// `Some(None)` is `null`, and `None` a field that was not sent.
fn sent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl From<FieldsBody> for PageFields {
    fn from(body: FieldsBody) -> Self {
        Self { title: body.title, content: body.content.map(|content| content.map(Into::into)), ..Self::default() }
    }
}

// The first description is REST's, the second MCP's. No `Debug`, so that no log shows the key. The service finds missing fields.
/// The body of a create.
#[derive(Deserialize, ToSchema, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreatePage)]
pub struct CreateBody {
    /// The title. White space around it is dropped. Control characters, line separators, and bidirectional embeddings, overrides and isolates are refused, and so is a title without visible characters. The slug is derived from the title and never changes afterwards.
    #[serde(default, deserialize_with = "sent")]
    #[schema(
        value_type = String,
        required = true,
        min_length = 1,
        pattern = r"^\s*[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*[^\s\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8][^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*\s*$",
        example = "Hello, world"
    )]
    #[schemars(with = "String", description = "The title, on one line, without control characters. The address is derived from it and never changes.", length(min = 1, max = MAX_CHARS))]
    title: Option<Option<String>>,
    /// Markdown. It is stored byte for byte. Its length counts bytes of UTF-8, not characters.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = String, required = true, min_length = 1, example = "A *first* page.")]
    #[schemars(with = "String", description = "Markdown. Its length counts bytes of UTF-8.", length(min = 1, max = MAX_BYTES))]
    content: Option<Option<String>>,
    // Not for tools: a model's random text is not random.
    /// The edit key of the new page, if the client makes it: `hbk_` and 43 characters from a cryptographic generator, at least 20 of them different, a new key for each page. The same request may then be sent again after a lost answer: it finds the page that it made. Left out, the server makes the key, and shows it once.
    #[serde(default, deserialize_with = "new_key")]
    #[schema(
        value_type = String,
        required = false,
        pattern = "^hbk_[0-9A-Za-z]{43}$",
        example = "hbk_Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0FeDcBaZyXwVuT"
    )]
    #[schemars(skip)]
    edit_key: Option<Result<EditKey, NotANewKey>>,
}

fn new_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Result<EditKey, NotANewKey>>, D::Error> {
    String::deserialize(deserializer).map(|text| Some(EditKey::parse_new(&text)))
}

impl From<CreateBody> for PageFields {
    fn from(CreateBody { title, content, edit_key }: CreateBody) -> Self {
        Self { edit_key, ..FieldsBody { title, content }.into() }
    }
}
