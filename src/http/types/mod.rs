//! The JSON types of the interface (spec §2), for REST and MCP alike.

mod fields;
mod page;

use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{Object, ObjectBuilder, Type};

pub use self::fields::{CreateBody, FieldsBody};
pub use self::page::{Included, PageBody, Part};
use crate::http::error::{ApiError, Code};
use handbill_pages::service::Created;
use handbill_pages::service::oauth;
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::slug::Slug;

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
    slug: String,
    /// Always true.
    #[schemars(extend("const" = true))]
    deleted: bool,
}

impl DeletedBody {
    pub fn new(slug: String) -> Self {
        Self { slug, deleted: true }
    }
}

/// An error of any operation except the token endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    #[schema(schema_with = codes)]
    error: &'static str,
    /// The problem and how to solve it, in plain English.
    #[schema(example = "No such page. Check the slug: it is the last part of the page's URL.")]
    message: String,
}

impl ErrorBody {
    pub fn new(error: ApiError) -> Self {
        Self { error: error.code.as_str(), message: error.message }
    }
}

fn codes() -> Object {
    enum_of(Code::all().filter(|code| !code.is_of_oauth() && !code.is_of_form()))
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
    error: &'static str,
    /// The problem and how to solve it, in the field that OAuth clients read.
    #[schema(
        pattern = r"^[\x20-\x21\x23-\x5b\x5d-\x7e]+$",
        example = "The field `grant_type` is missing. Send `grant_type=client_credentials`."
    )]
    error_description: String,
    /// The same text, in the field that every error of Handbill has.
    #[schema(example = "The field `grant_type` is missing. Send `grant_type=client_credentials`.")]
    message: String,
}

impl TokenErrorBody {
    pub fn new(error: ApiError) -> Self {
        Self { error: error.code.as_str(), error_description: error.message.clone(), message: error.message }
    }
}

pub fn page_url(slug: &Slug, base_url: &Origin) -> String {
    format!("{base_url}/{slug}")
}
