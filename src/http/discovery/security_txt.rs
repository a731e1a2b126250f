//! `/.well-known/security.txt` (RFC 9116).

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::http::etag::REVALIDATE;
use crate::http::metadata::path;
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::values::contact::Contact;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::timestamp::UnixMillis;

/// RFC 9116 recommends less than a year. Each answer has the running process's contact.
const VALIDITY: Duration = Duration::from_hours(30 * 24);

/// The document expires 30 days after each request.
pub(super) fn route<S: Clone + Send + Sync + 'static>(
    contact: &Contact,
    base_url: &Origin,
    clock: SharedClock,
) -> MethodRouter<S> {
    let mut fixed = format!("Contact: {contact}\n");
    let canonical = format!("{base_url}{}", path::SECURITY);
    if canonical.starts_with("https://") {
        fixed = format!("{fixed}Canonical: {canonical}\n");
    }
    get(move || std::future::ready(answer(&fixed, clock.now())))
}

fn answer(fixed: &str, now: UnixMillis) -> Response {
    let validity = i64::try_from(VALIDITY.as_millis()).unwrap_or(i64::MAX);
    let expires = UnixMillis::new(now.get().saturating_add(validity));
    let headers = [(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")), (CACHE_CONTROL, REVALIDATE)];
    (headers, format!("{fixed}Expires: {expires}\n")).into_response()
}
