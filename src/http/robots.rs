//! `X-Robots-Tag` (spec §2.5, rule 5).

use http::{HeaderMap, HeaderName, HeaderValue};

use super::state::About;

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// Asks search engines not to index any representation of `page` if the page links to other sites, or if the
/// operators want no page indexed. So nobody can improve the ranking of a site by publishing links here.
pub(super) fn mark_noindex(fields: &mut HeaderMap, page: &About<'_>) {
    if page.is_noindex {
        fields.insert(X_ROBOTS_TAG, HeaderValue::from_static("noindex"));
    }
}
