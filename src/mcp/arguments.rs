//! Arguments that all tools read in the same way (contract, decision 15).

use rmcp::model::JsonObject;
use serde_json::Value;
use url::Url;

use crate::http::request::credential;
use handbill_pages::service::{Body, BodyError, Credential};
use handbill_pages::values::origin::Origin;

/// Bytes: a slug has at most 69, and `/api/pages/` 11.
const MAX_PATH_BYTES: usize = 128;

/// Also accepts every address of a page that Handbill gives out. Other text finds no page.
pub(super) fn take_slug(arguments: &mut JsonObject, base_url: &Origin) -> Body<String> {
    let message = match arguments.remove("slug") {
        Some(Value::String(text)) => return Ok(slug_named(&text, base_url)),
        Some(_) => "The field `slug` has the wrong type. Send it as a string.",
        None => "The field `slug` is missing. Send it as a string: it is the last part of the page's `url`.",
    };
    Err(BodyError::Malformed(message.to_owned()))
}

pub(super) fn take_key(arguments: &mut JsonObject) -> Credential {
    credential::in_argument(arguments.remove("edit_key").as_ref())
}

fn slug_named(text: &str, base_url: &Origin) -> String {
    let text = text.trim();
    // Parsing an address of 128 KB takes up to 8 ms.
    if text.len() > base_url.as_str().len() + MAX_PATH_BYTES {
        return text.to_owned();
    }
    let path = match Url::parse(text) {
        Ok(url) if is_of(&url, base_url) => url.path().to_owned(),
        _ => text.to_owned(),
    };
    let name = path.strip_prefix("/api/pages/").or_else(|| path.strip_prefix('/')).unwrap_or(&path);
    let endings = ["/edit", "/", ".md"];
    endings.into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name).to_owned()
}

fn is_of(url: &Url, base_url: &Origin) -> bool {
    let names_nobody = url.username().is_empty() && url.password().is_none();
    names_nobody && Origin::of(url).as_ref() == Some(base_url)
}
