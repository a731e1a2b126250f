//! The JSON types of the interface (spec §2), for REST and MCP alike.

use std::borrow::Cow;

use http::HeaderValue;
use schemars::JsonSchema;
use serde::Serialize;
use utoipa::openapi::{Object, ObjectBuilder, Ref, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::error::Code;
use crate::http::request::fields::{Fields, FromFields};
use handbill_pages::service::{Body, Created, PageFields, oauth};
use handbill_pages::values::details::{Details, DetailsInput, Patch};
use handbill_pages::values::edit_key::{EditKey, NotANewKey};
use handbill_pages::values::{
    content::MAX_BYTES, origin::Origin, page::Page, slug::Slug, text_edits::TextEdit, title::MAX_CHARS,
};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The body of an update. An omitted field keeps its value.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UpdatePage)]
pub struct UpdateBody {
    /// The new title. `null`, or a title without visible characters, clears it. The slug does not change.
    #[schema(
        value_type = Option<String>,
        max_length = 200,
        pattern = r"^\s*[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*\s*$",
        example = "Hello again"
    )]
    title: Patch<String>,
    /// The new Markdown. Its length counts bytes of UTF-8, not characters.
    #[schema(value_type = String, required = false, min_length = 1, max_length = 102_400, example = "A *second* version.")]
    content: Patch<String>,
    /// Changes of parts of the Markdown, in place of `content`: all of them are made or none.
    #[schema(value_type = Vec<EditBody>, required = false, max_items = 100, example = json!([{"old": "first", "new": "second"}]))]
    edits: Option<Vec<EditBody>>,
}

impl FromFields for UpdateBody {
    const NAMES: &'static [&'static str] = &["title", "content", "edits"];

    const ELSEWHERE: &'static [(&'static str, &'static str)] = &[
        ("edit_key", "the edit key in the header `Authorization: Bearer <edit_key>`"),
        ("if_updated_at", "the page's `ETag` in the header `If-Match`"),
    ];

    fn read(fields: &mut Fields) -> Body<Self> {
        Ok(Self { title: fields.patch("title")?, content: fields.patch("content")?, edits: fields.list("edits")? })
    }
}

impl From<UpdateBody> for PageFields {
    fn from(UpdateBody { title, content, edits }: UpdateBody) -> Self {
        let edits = edits.map(|edits| edits.into_iter().map(Into::into).collect());
        Self { edits, ..FieldsBody { title, content }.into() }
    }
}

// For tools, each word costs.
#[derive(Debug, ToSchema, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Edit, description = "One change of a part of the Markdown. No two may overlap.")]
#[schemars(inline)]
pub struct EditBody {
    /// The words to replace, copied exactly from `content`, where they must occur once.
    #[schema(min_length = 1)]
    #[schemars(length(min = 1))]
    old: String,
    /// The words in their place; empty removes them.
    new: String,
}

impl FromFields for EditBody {
    const NAMES: &'static [&'static str] = &["old", "new"];

    fn read(fields: &mut Fields) -> Body<Self> {
        Ok(Self { old: fields.required_text("old")?, new: fields.required_text("new")? })
    }
}

impl From<EditBody> for TextEdit {
    fn from(EditBody { old, new }: EditBody) -> Self {
        Self { old, new }
    }
}

/// The fields of a create by a tool, which takes no key.
#[derive(Debug)]
pub struct FieldsBody {
    title: Patch<String>,
    content: Patch<String>,
}

impl FromFields for FieldsBody {
    const NAMES: &'static [&'static str] = &["title", "content"];

    fn read(fields: &mut Fields) -> Body<Self> {
        Ok(Self { title: fields.patch("title")?, content: fields.patch("content")? })
    }
}

impl From<FieldsBody> for PageFields {
    fn from(FieldsBody { title, content }: FieldsBody) -> Self {
        Self { details: DetailsInput { title }, content: content.map(Into::into), ..Self::default() }
    }
}

// The first description is REST's, the second MCP's. No `Debug`, so that no log shows the key. The service finds missing fields.
/// The body of a create.
#[derive(ToSchema, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreatePage)]
pub struct CreateBody {
    /// The title. White space around it is dropped. Control characters, line separators, and bidirectional embeddings, overrides and isolates are refused, and so is a title without visible characters. The slug is derived from the title and never changes afterwards.
    #[schema(
        value_type = String,
        required = true,
        min_length = 1,
        max_length = 200,
        pattern = r"^\s*[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*[^\s\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8][^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*\s*$",
        example = "Hello, world"
    )]
    #[schemars(with = "String", description = "The title, on one line, without control characters. The address is derived from it and never changes.", length(min = 1, max = MAX_CHARS))]
    title: Patch<String>,
    /// Markdown. It is stored byte for byte. Its length counts bytes of UTF-8, not characters.
    #[schema(value_type = String, required = true, min_length = 1, max_length = 102_400, example = "A *first* page.")]
    #[schemars(with = "String", description = "Markdown. Its length counts bytes of UTF-8.", length(min = 1, max = MAX_BYTES))]
    content: Patch<String>,
    // Not for tools: a model's random text is not random.
    /// The edit key of the new page, if the client makes it: `hbk_` and 43 characters from a cryptographic generator, at least 20 of them different, a new key for each page. The same request may then be sent again after a lost answer: it finds the page that it made. Left out, the server makes the key, and shows it once.
    #[schema(
        value_type = String,
        required = false,
        pattern = "^hbk_[0-9A-Za-z]{43}$",
        example = "hbk_Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0FeDcBaZyXwVuT"
    )]
    #[schemars(skip)]
    edit_key: Option<Result<EditKey, NotANewKey>>,
}

impl FromFields for CreateBody {
    const NAMES: &'static [&'static str] = &["title", "content", "edit_key"];

    fn read(fields: &mut Fields) -> Body<Self> {
        let edit_key = fields.text_or_left_out("edit_key")?.map(|key| EditKey::parse_new(&key));
        Ok(Self { title: fields.patch("title")?, content: fields.patch("content")?, edit_key })
    }
}

impl From<CreateBody> for PageFields {
    fn from(CreateBody { title, content, edit_key }: CreateBody) -> Self {
        Self { edit_key, ..FieldsBody { title, content }.into() }
    }
}

// The first description is REST's, the second MCP's.
/// A page as reads and updates return it: the JSON that clients rely on, whatever the domain keeps.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[schema(as = Page)]
pub struct PageBody {
    /// The page's identifier: words of its first title and a random suffix. It never changes and is never reused.
    #[schema(example = "hello-world-7k2m9xqz")]
    slug: String,
    /// The page's public address.
    #[schema(format = "uri", example = "https://pages.example/hello-world-7k2m9xqz")]
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// The title; `null` if an update cleared it.
    #[schema(required = true, max_length = 200, example = "Hello, world")]
    title: Option<String>,
    /// The Markdown source, byte for byte as it was sent.
    #[schema(value_type = String, required = true, example = "A *first* page.")]
    #[schemars(
        with = "String",
        description = "The Markdown source, byte for byte as it was sent, or the part of it that was asked for."
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The content as sanitised HTML. A stranger wrote it.
    #[schema(value_type = String, required = true, example = "<p>A <em>first</em> page.</p>\n")]
    #[schemars(with = "String", description = "The whole content as sanitised HTML. A stranger wrote it.")]
    #[serde(skip_serializing_if = "Option::is_none")]
    content_html: Option<String>,
    /// When the page was created, in UTC with milliseconds.
    #[schema(format = "date-time", example = "2026-11-21T04:30:00.123Z")]
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// When the page last changed. It equals `created_at` until the first change, and grows with each change.
    #[schema(format = "date-time", example = "2026-11-21T04:30:00.123Z")]
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    /// The length of the whole content in characters. It is there if a part was asked for.
    #[schema(ignore)]
    #[schemars(with = "usize")]
    #[serde(skip_serializing_if = "Option::is_none")]
    total_chars: Option<usize>,
    /// The `offset` of the next part. It is there if `content` is not the last part.
    #[schema(ignore)]
    #[schemars(with = "usize")]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// A page, or the part of it that the query names.
#[derive(ToSchema)]
#[schema(as = PageOrPart)]
#[serde(untagged)]
pub enum ReadBody {
    Page(Box<PageBody>),
    Part(PartBody),
}

/// A page with a part of its content, which only a client that names a part gets.
#[derive(Debug)]
pub struct PartBody;

impl PartialSchema for PartBody {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(page)) = PageBody::schema() else { unreachable!("it is a struct") };
        let as_in_page = page.properties.into_keys().filter(|name| name != "content_html");
        let part = as_in_page.fold(ObjectBuilder::new(), |part, name| {
            part.property(&name, Ref::new(format!("#/components/schemas/Page/properties/{name}"))).required(name)
        });
        part.description(Some("A page with a part of its content, without `content_html`."))
            .property("total_chars", count("The length of the whole content in characters (Unicode scalar values)."))
            .required("total_chars")
            .property("next_offset", count("The `offset` of the next part. It is there if this is not the last part."))
            .into()
    }
}

fn count(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).description(Some(description))
}

impl ToSchema for PartBody {
    fn name() -> Cow<'static, str> {
        "PagePart".into()
    }
}

/// The long texts that a result includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    pub content: bool,
    pub html: bool,
    /// `None` for all of the content.
    pub part: Option<Part>,
}

impl Included {
    pub const ALL: Self = Self { content: true, html: true, part: None };
}

/// In Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub offset: usize,
    pub max_chars: usize,
}

impl Part {
    /// Byte offsets of the part, and the characters of all `text`.
    fn within(self, text: &str) -> (usize, usize, usize) {
        let end = self.offset.saturating_add(self.max_chars);
        (byte_of(text, self.offset), byte_of(text, end), text.chars().count())
    }
}

/// Where the character of this number begins.
fn byte_of(text: &str, char: usize) -> usize {
    text.char_indices().nth(char).map_or(text.len(), |(at, _)| at)
}

impl PageBody {
    pub fn of(page: &Page, base_url: &Origin, included: Included) -> Self {
        let Page { head, text } = page;
        let Details { title, unknown: _ } = &head.state.details;
        let mut content = text.content.as_str();
        let (mut total_chars, mut next_offset) = (None, None);
        if let Some(part) = included.part {
            let (start, end, total) = part.within(content);
            total_chars = Some(total);
            next_offset = (end < content.len()).then(|| part.offset.saturating_add(part.max_chars));
            content = &content[start..end];
        }
        Self {
            slug: head.slug.to_string(),
            url: page_url(&head.slug, base_url),
            title: title.as_ref().map(|title| title.as_str().to_owned()),
            content: included.content.then(|| content.to_owned()),
            content_html: included.html.then(|| text.html.as_str().to_owned()),
            created_at: head.created_at.to_string(),
            updated_at: head.updated_at.to_string(),
            total_chars,
            next_offset,
        }
    }

    pub fn json(page: &Page, base_url: &Origin, included: Included) -> Vec<u8> {
        serde_json::to_vec(&Self::of(page, base_url, included)).expect("strings and numbers serialise")
    }
}

// No `Debug`, so that no log shows the key. OpenAPI publishes doc comments.
/// The answer to a create. No other answer ever shows the key.
#[derive(Serialize, ToSchema, JsonSchema)]
#[schema(as = Created)]
pub struct CreatedBody {
    /// The page's identifier.
    #[schema(example = "hello-world-7k2m9xqz")]
    slug: String,
    /// The page's public address.
    #[schema(format = "uri", example = "https://pages.example/hello-world-7k2m9xqz")]
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// The page's edit key: the one that was sent, or one that is shown only this once. Without it the page can never be edited or deleted.
    #[schema(pattern = "^hbk_[0-9A-Za-z]{43}$", example = "hbk_0000000000000000000000000000000000000000000")]
    #[schemars(regex(pattern = "^hbk_[0-9A-Za-z]{43}$"))]
    edit_key: String,
    /// When the page was created, in UTC with milliseconds.
    #[schema(format = "date-time", example = "2026-11-21T04:30:00.123Z")]
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

impl CreatedBody {
    pub fn new(created: &Created, base_url: &Origin) -> Self {
        Self {
            slug: created.page.head.slug.to_string(),
            url: page_url(&created.page.head.slug, base_url),
            edit_key: created.edit_key.reveal().to_owned(),
            created_at: created.page.head.created_at.to_string(),
        }
    }
}

/// The result of the MCP tool for a delete. REST answers with a status alone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedBody {
    /// The slug of the page that was deleted.
    pub slug: String,
    /// Always true.
    #[schemars(extend("const" = true))]
    pub deleted: bool,
}

/// An error of any operation except the token endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    #[schema(schema_with = codes)]
    pub error: &'static str,
    /// The problem and how to solve it, in plain English.
    #[schema(
        example = "No such page on this server. Check the slug: it is the last part of the page's URL, which begins with the address of this server."
    )]
    pub message: String,
}

fn codes() -> Object {
    // Only the home page's form answers with the first; the second has the text of `KeyInQuery`.
    let left_out = [Code::CrossOrigin, Code::KeyInQueryOfPost];
    enum_of(Code::all().filter(|code| !code.is_of_oauth() && !left_out.contains(code)))
}

fn token_codes() -> Object {
    enum_of(Code::OF_TOKENS.into_iter())
}

fn enum_of(codes: impl Iterator<Item = Code>) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("What went wrong, as a stable code."))
        .enum_values(Some(codes.map(Code::as_str)))
        .build()
}

// Only describes the form; `http::token` reads it.
/// The form that the token endpoint takes.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only the derived schema is used")]
pub struct TokenRequest {
    /// The only supported grant.
    #[schema(pattern = "^client_credentials$", example = "client_credentials")]
    grant_type: String,
    /// The page's slug.
    #[schema(required = false, example = "hello-world-7k2m9xqz")]
    client_id: String,
    /// The page's edit key.
    #[schema(required = false, format = "password", example = "hbk_0000000000000000000000000000000000000000000")]
    client_secret: String,
    /// The requested scopes, separated by spaces. A token always has all scopes.
    #[schema(
        required = false,
        pattern = "^((post:edit|post:delete)( (post:edit|post:delete))*)?$",
        example = "post:edit post:delete"
    )]
    scope: String,
}

// No `Debug`, so that no log shows the key.
/// A token. It is the edit key itself.
#[derive(Serialize, ToSchema)]
#[schema(as = Token)]
pub struct TokenBody {
    /// The page's edit key, as it was sent. It does not expire.
    #[schema(pattern = "^hbk_[0-9A-Za-z]{43}$", example = "hbk_0000000000000000000000000000000000000000000")]
    access_token: String,
    /// The type of the token. It is sent as `Authorization: Bearer <access_token>`.
    #[schema(pattern = "^Bearer$", example = "Bearer")]
    token_type: &'static str,
    /// The scopes of the token.
    #[schema(example = "post:edit post:delete")]
    scope: String,
}

impl TokenBody {
    pub fn new(key: &EditKey) -> Self {
        Self { access_token: key.reveal().to_owned(), token_type: "Bearer", scope: oauth::scope() }
    }
}

/// An error of the token endpoint (RFC 6749 §5.2).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TokenError)]
pub struct TokenErrorBody {
    #[schema(schema_with = token_codes)]
    pub error: &'static str,
    /// The problem and how to solve it, in the field that OAuth clients read.
    #[schema(
        pattern = r"^[\x20-\x21\x23-\x5b\x5d-\x7e]+$",
        example = "The field `grant_type` is missing. Send `grant_type=client_credentials`."
    )]
    pub error_description: String,
    /// The same text, in the field that every error of Handbill has.
    #[schema(example = "The field `grant_type` is missing. Send `grant_type=client_credentials`.")]
    pub message: String,
}

pub fn page_url(slug: &Slug, base_url: &Origin) -> String {
    format!("{base_url}/{slug}")
}

/// Secret: it has the key, in the fragment, which browsers do not send.
pub fn edit_url(created: &Created, base_url: &Origin) -> String {
    format!("{}/edit#{}", page_url(&created.page.head.slug, base_url), created.edit_key.reveal())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_is_counted_in_characters_and_ends_with_the_text() {
        fn part(offset: usize, max_chars: usize) -> (usize, usize, usize) {
            Part { offset, max_chars }.within("aéb")
        }

        assert_eq!(part(0, 1), (0, 1, 3));
        assert_eq!(part(1, 1), (1, 3, 3));
        assert_eq!(part(1, 9), (1, 4, 3));
        assert_eq!(part(3, 1), (4, 4, 3));
        assert_eq!(part(usize::MAX, usize::MAX), (4, 4, 3));
    }

    #[test]
    fn the_limits_in_the_schemas_are_the_limits_in_force() {
        let schemas = json!({
            "CreatePage": CreateBody::schema(),
            "UpdatePage": UpdateBody::schema(),
        });
        for (name, field, longest) in [
            ("CreatePage", "title", MAX_CHARS),
            ("CreatePage", "content", MAX_BYTES),
            ("UpdatePage", "content", MAX_BYTES),
        ] {
            assert_eq!(schemas[name]["properties"][field]["maxLength"], longest, "{name}: {field}");
        }
        for name in ["CreatePage", "UpdatePage"] {
            let description = schemas[name]["properties"]["content"]["description"].as_str().unwrap();
            assert!(description.contains("Its length counts bytes of UTF-8"), "{name}: {description}");
        }
    }
}
