//! The 304 that needs only a page's head.

use std::iter;

use axum::response::Response;
use http::header::{ACCEPT_ENCODING, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};

use super::coding::{Coding, accepted, not_modified};
use super::etag::is_named;

/// The 304 to `request`, if the client holds a form of the page that it accepts. `tag` is the entity tag of each form, and
/// `fields` has every field of the 200 but the tag and those that describe the body itself.
///
/// A body that was not read may have compressed forms or none. A tag of a form was given out with that form, so a client
/// that names it holds it.
pub(super) fn unchanged(
    request: &HeaderMap,
    tag: impl Fn(Coding) -> HeaderValue,
    fields: impl FnOnce() -> HeaderMap,
) -> Option<Response> {
    if !request.contains_key(IF_NONE_MATCH) {
        return None;
    }
    let codings = request.contains_key(ACCEPT_ENCODING).then(|| accepted(request));
    let held = iter::once(Coding::Identity)
        .chain(codings.into_iter().flatten())
        .map(&tag)
        .find(|tag| is_named(request, tag.as_bytes()))
        // The bytes as they are would be sent, because no other form was made.
        .or_else(|| is_named(request, b"*").then(|| tag(Coding::Identity)))?;
    let mut response = not_modified();
    *response.headers_mut() = fields();
    response.headers_mut().insert(ETAG, held);
    Some(response)
}
