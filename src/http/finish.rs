//! The last step of every answer: the header fields that all answers share.

use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LINK, ORIGIN,
    PRAGMA, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Uri};

use super::error_response::Endpoint;
use crate::http::metadata;
use crate::mcp::{self, Tools};
use handbill_pages::values::origin::Origin;

// Constants are checked at compile time.
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const ANYBODY: HeaderValue = HeaderValue::from_static("*");

/// Scripts of any origin may read these.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("etag,link,location,retry-after,www-authenticate,ratelimit,ratelimit-policy,x-request-id");

pub(super) struct Finish {
    /// To the OpenAPI document.
    service_desc: HeaderValue,
    tools: Tools,
}

/// What the header fields of all answers depend on: the endpoint and, at `/mcp`, the origin that asks.
pub(super) struct Asked {
    pub(super) endpoint: Endpoint,
    origin: Option<HeaderValue>,
}

impl Asked {
    pub(super) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let endpoint = Endpoint::of(uri);
        Self { endpoint, origin: headers.get(ORIGIN).filter(|_| endpoint == Endpoint::Tools).cloned() }
    }
}

impl Finish {
    pub(super) fn new(base_url: &Origin, tools: Tools) -> Self {
        let link = format!(r#"<{base_url}{}>; rel="service-desc"; type="application/json""#, metadata::path::OPENAPI);
        Self { service_desc: HeaderValue::try_from(link).expect("an origin is ASCII"), tools }
    }

    pub(super) fn complete(&self, asked: Asked, response: &mut Response) {
        let is_interface = matches!(asked.endpoint, Endpoint::Api | Endpoint::Token);
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        let headers = response.headers_mut();
        if is_interface || is_error {
            headers.append(LINK, self.service_desc.clone());
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        headers.insert(REFERRER_POLICY, NO_REFERRER);
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(NOTHING);
        if asked.endpoint == Endpoint::Token {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
        }
        let (readers, exposed) = match asked.endpoint {
            Endpoint::Tools => (self.tools.complete(asked.origin, response), mcp::EXPOSED),
            Endpoint::Site | Endpoint::Api | Endpoint::Token => (Some(ANYBODY), EXPOSED),
        };
        if let Some(readers) = readers {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, readers);
            response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}
