//! Entity tags and the requests that are conditional on them (contract, decision 8).
//!
//! A tag is `"<page version>-<representation>-<renderer version>"`. `If-None-Match` compares all of it; `If-Match`
//! compares the page version alone, so that a client may read Markdown or HTML and then update by JSON.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::domain::page::{Page, PageVersion};
use crate::service::Precondition;

/// What a shared or private cache may do with a page: keep it, but ask each time.
pub(super) const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// The strong entity tag of `page` in `representation`, which is of letters, digits and dots.
pub(super) fn entity_tag(page: &Page, representation: &str) -> HeaderValue {
    let (version, renderer) = (page.version.get(), page.rendered.renderer_version);
    HeaderValue::from_str(&format!("\"{version}-{representation}-{renderer}\"")).expect("it is ASCII")
}

/// Whether the client holds what `tag` names, so that 304 is all it needs.
fn none_match_fails(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let tag = tag.as_bytes();
    headers.get_all(IF_NONE_MATCH).iter().flat_map(tags).any(|(_, candidate)| candidate == b"*" || candidate == tag)
}

/// The answer to a read: `whole`, or 304 where the client holds what the `ETag` in `fields` names. Either has `fields`.
///
/// A cache replaces the fields of what it holds by those of the 304 (RFC 9111 §3.2). So all that a 200 says beside its
/// body belongs in `fields`; `whole` sets only what describes the body itself, such as `Content-Type`.
pub(super) fn respond(request: &HeaderMap, fields: HeaderMap, whole: impl FnOnce() -> Response) -> Response {
    let is_held = fields.get(ETAG).is_some_and(|tag| none_match_fails(request, tag));
    let mut response = if is_held { not_modified() } else { whole() };
    response.headers_mut().extend(fields);
    response
}

fn not_modified() -> Response {
    // A body of known length would get a `Content-Length: 0` in the answer to HEAD, where that of the 200 is meant.
    let nothing = stream::empty::<Result<Bytes, Infallible>>();
    let mut response = Response::new(Body::from_stream(nothing));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// What `If-Match` requires. A weak tag, or one that we never gave out, matches no page: nothing is changed by mistake.
pub(super) fn precondition(headers: &HeaderMap) -> Precondition {
    let mut required = Vec::new();
    for (weak, tag) in headers.get_all(IF_MATCH).iter().flat_map(tags) {
        if tag == b"*" {
            return Precondition::None;
        }
        required.extend(page_version(tag).filter(|_| !weak));
    }
    if headers.contains_key(IF_MATCH) { Precondition::OneOf(required) } else { Precondition::None }
}

/// The tags of one header line, each with whether it is weak. Ours hold no comma, so others need not come out whole.
fn tags(line: &HeaderValue) -> impl Iterator<Item = (bool, &[u8])> {
    line.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii).map(|tag| match tag.strip_prefix(b"W/") {
        Some(tag) => (true, tag),
        None => (false, tag),
    })
}

fn page_version(tag: &[u8]) -> Option<PageVersion> {
    let tag = std::str::from_utf8(tag).ok()?.strip_prefix('"')?.strip_suffix('"')?;
    let (version, _representation) = tag.split_once('-')?;
    // Rust reads `+1` and `01` as 1; we never wrote either.
    version.parse().ok().filter(|number: &u64| number.to_string() == version).map(PageVersion::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(lines: &[&'static str]) -> Precondition {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IF_MATCH, HeaderValue::from_static(line));
        }
        precondition(&headers)
    }

    #[test]
    fn if_match_requires_the_version_of_any_tag_in_any_line() {
        let versions = [3, 4, 9].map(PageVersion::new).to_vec();
        assert_eq!(required(&[r#""3-json-1", "4-md-1""#, r#""9-html.ab12-7""#]), Precondition::OneOf(versions));
    }

    #[test]
    fn a_star_requires_only_that_the_page_exists() {
        assert_eq!(required(&["*"]), Precondition::None);
        assert_eq!(required(&[]), Precondition::None);
    }

    #[test]
    fn a_weak_or_unknown_tag_matches_nothing() {
        for unknown in [r#"W/"3-json-1""#, r#""abc""#, "3-json-1", "", r#""-json-1""#] {
            assert_eq!(required(&[unknown]), Precondition::OneOf(vec![]), "{unknown}");
        }
    }
}
