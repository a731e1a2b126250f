//! `X-Robots-Tag` (spec §2.5, rule 5).

use http::{HeaderMap, HeaderName, HeaderValue};

use super::state::About;

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// No site's ranking can profit from links here.
pub(super) fn mark_noindex(fields: &mut HeaderMap, page: &About<'_>) {
    if page.is_noindex {
        fields.insert(X_ROBOTS_TAG, HeaderValue::from_static("noindex"));
    }
}
