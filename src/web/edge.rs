//! The header fields that shared caches read (contract, decision 21).
//!
//! Each representation names its page as a group, so that a cache can drop all of them at once: `Cache-Groups`
//! (RFC 9875), and the names that caches had for it before, `Surrogate-Key` and `Cache-Tag`. How long a cache may keep a page is in `CDN-Cache-Control` (RFC 9213) alone,
//! which browsers do not read, so they go on to ask each time.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::state::{About, Http};
use crate::api::cache_groups;

const CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

pub(super) fn mark_group(fields: &mut HeaderMap, page: &About<'_>) {
    let name = HeaderValue::from_str(page.slug.as_str()).expect("a slug is ASCII");
    fields.insert(CACHE_GROUPS, cache_groups::group(page.slug.as_str()));
    fields.insert(SURROGATE_KEY, name.clone());
    fields.insert(CACHE_TAG, name);
}

/// Lets shared caches keep what is answered with `fields`, if operators allow it.
pub(super) fn admit_shared_caches(fields: &mut HeaderMap, http: &Http) {
    if let Some(directives) = &http.edge {
        fields.insert(CDN_CACHE_CONTROL, directives.clone());
    }
}
