//! Parses the edit key in a request's header, a tool's argument or, where it is forbidden, the query (contract,
//! decision 2). The service checks it later.

use std::borrow::Cow;

use http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::form_urlencoded;

use handbill_pages::service::Credential;
use handbill_pages::values::edit_key::{EditKey, holds_any_key};

/// Taken for a key, whatever their value.
const KEY_PARAMETERS: [&str; 4] = ["edit_key", "access_token", "key", "token"];

/// Before the key in an edit link.
const LINK: &str = "/edit#";

/// An address in another's query is encoded twice, or three times if nested again.
const FURTHER_DECODINGS: usize = 2;

/// A parameter named above, or a key in any name or value.
pub fn query_gives_key(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| is_for_keys(&name)) || query_holds_key(query)
}

fn is_for_keys(name: &str) -> bool {
    KEY_PARAMETERS.iter().any(|parameter| name.eq_ignore_ascii_case(parameter))
}

pub fn query_holds_key(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| holds_encoded_key(&name) || holds_encoded_key(&value))
}

fn holds_encoded_key(text: &str) -> bool {
    let mut text = Cow::Borrowed(text);
    for _ in 0..FURTHER_DECODINGS {
        if holds_any_key(&text) || !text.contains('%') {
            break;
        }
        text = percent_decode_str(&text).decode_utf8_lossy().into_owned().into();
    }
    holds_any_key(&text)
}

pub fn in_head(head: &Parts) -> Credential {
    let in_query = head.uri.query().is_some_and(query_gives_key);
    if in_query { Credential::InQuery } else { in_headers(&head.headers) }
}

/// Two such headers are ambiguous, so malformed.
fn in_headers(headers: &HeaderMap) -> Credential {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (lines.next(), lines.next());
    let Some(first) = first else { return Credential::Missing };
    if second.is_some() {
        return Credential::Malformed;
    }
    let Ok(text) = first.to_str() else { return Credential::Malformed };
    without_scheme(text).map_or(Credential::Missing, key)
}

/// With or without `Bearer`, or in an edit link.
pub fn in_argument(value: Option<&Value>) -> Credential {
    match value {
        None => Credential::Missing,
        Some(Value::String(text)) => {
            let text = without_scheme(text.trim()).unwrap_or(text);
            key(text.split_once(LINK).map_or(text, |(_, key)| key))
        }
        Some(_) => Credential::WrongType,
    }
}

fn without_scheme(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn key(text: &str) -> Credential {
    match text.trim() {
        "" => Credential::Missing,
        text => EditKey::parse(text).map_or(Credential::Malformed, Credential::Key),
    }
}
