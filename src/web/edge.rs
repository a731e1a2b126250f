//! The header fields that shared caches read (contract, decision 21).
//!
//! Each representation names its page as a group, so that a cache can drop all of them at once: `Cache-Groups`
//! (RFC 9875), and the names that caches had for it before, `Surrogate-Key` and `Cache-Tag`. How long a cache may keep a page is in `CDN-Cache-Control` (RFC 9213) alone,
//! which browsers do not read, so they go on to ask each time.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::state::Http;
use crate::api::cache_groups;
use handbill_core::domain::slug::Slug;

const CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The group of the page `slug`, under each of its names.
pub(super) fn groups(slug: &Slug) -> [(HeaderName, HeaderValue); 3] {
    let name = HeaderValue::from_str(slug.as_str()).expect("a slug is ASCII");
    [(CACHE_GROUPS, cache_groups::group(slug.as_str())), (SURROGATE_KEY, name.clone()), (CACHE_TAG, name)]
}

/// Lets shared caches keep what is answered with `fields`, if operators allow it.
pub(super) fn admit_shared_caches(fields: &mut HeaderMap, http: &Http) {
    if let Some(directives) = &http.edge {
        fields.insert(CDN_CACHE_CONTROL, directives.clone());
    }
}
