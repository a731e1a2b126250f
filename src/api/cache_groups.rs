//! The group of a page in shared caches (RFC 9875). Each representation of the page is in it, and the answer to a change, over
//! REST or MCP, says that the group is out of date.

use http::{HeaderName, HeaderValue};

const CACHE_GROUP_INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");

/// The header field of an answer to a change of the page `slug`.
pub fn invalidation(slug: &str) -> [(HeaderName, HeaderValue); 1] {
    [(CACHE_GROUP_INVALIDATION, group(slug))]
}

/// A list of one string, as structured fields write it (RFC 9651).
pub fn group(slug: &str) -> HeaderValue {
    HeaderValue::try_from(["\"", slug, "\""].concat()).expect("a slug is ASCII")
}
