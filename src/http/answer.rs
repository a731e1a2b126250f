//! What the answers of several routes have in common.

use axum::response::Response;
use http::{HeaderName, HeaderValue};

use super::etag::{PageFacts, entity_tag};
use super::{negotiation::Coding, state::AppState};
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::service::Limited;
use handbill_pages::values::head::PageHead;
use handbill_pages::values::quota::{Decision, whole_seconds_up};

/// The capacity of an answer's header map, large enough that it never grows.
pub(super) const FIELDS: usize = 24;

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// With the `RateLimit` fields.
pub(super) fn respond<T>(attempt: Limited<T>, app: &AppState, success: impl FnOnce(T) -> Response) -> Response {
    with_limit(attempt.quota, attempt.outcome.map_or_else(|error| app.failed(&error), success))
}

pub(super) fn with_limit(quota: Option<(LimitKind, Decision)>, mut response: Response) -> Response {
    if let Some((limited, decision)) = quota {
        let [limit, policy] = rate_limit_fields(limited, &decision);
        response.headers_mut().insert(RATE_LIMIT, limit);
        response.headers_mut().insert(RATE_LIMIT_POLICY, policy);
    }
    response
}

/// IETF draft-ietf-httpapi-ratelimit-headers.
fn rate_limit_fields(limited: LimitKind, decision: &Decision) -> [HeaderValue; 2] {
    let (name, quota) = (limited.name(), decision.quota);
    let (remaining, more_after) = (decision.remaining, whole_seconds_up(decision.more_after));
    let limit = format!(r#""{name}";r={remaining};t={more_after}"#);
    let policy = format!(r#""{name}";q={};w={}"#, quota.limit, quota.window.as_secs());
    [limit, policy].map(|field| HeaderValue::try_from(field).expect("it is ASCII"))
}

pub(super) fn json_tag(page: &PageHead, app: &AppState) -> HeaderValue {
    json_tag_in("json.", Coding::Identity, &app.about(page), app)
}

/// The tag changes with the version, which may add fields.
pub(super) fn json_tag_in(representation: &str, coding: Coding, page: &PageFacts, app: &AppState) -> HeaderValue {
    entity_tag(page, &[representation, env!("CARGO_PKG_VERSION"), ".", &app.origin_tag], coding.name())
}
