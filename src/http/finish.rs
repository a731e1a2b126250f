//! The last step of every answer. Header fields that all answers have in common are set here and nowhere else, and the
//! body of an error is written here.

use axum::body::Body;
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CACHE_CONTROL, CONTENT_LENGTH,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, LINK, ORIGIN, PRAGMA, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use crate::http::error::{ApiError, Code};
use crate::http::metadata;
use crate::http::types::{ErrorBody, TokenErrorBody};
use crate::mcp::{self, Tools};
use handbill_core::domain::origin::Origin;

// Constants are checked when they are compiled, and other values each time.
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const ANYBODY: HeaderValue = HeaderValue::from_static("*");

/// The header fields of answers that scripts of any origin may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("etag,link,location,retry-after,www-authenticate,ratelimit,ratelimit-policy,x-request-id");

pub(super) struct Finish {
    /// The `Link` to the OpenAPI document.
    service_desc: HeaderValue,
    tools: Tools,
}

/// The parts of a request that the end of its answer depends on.
pub(super) struct Asked {
    place: Place,
    origin: Option<HeaderValue>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Site,
    /// The REST API, and the pages that explain it.
    Interface,
    /// The token endpoint (RFC 6749).
    Token,
    Tools,
}

impl Asked {
    pub(super) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let place = match uri.path() {
            metadata::path::MCP => Place::Tools,
            metadata::path::TOKEN => Place::Token,
            "/" | metadata::path::HELP => Place::Interface,
            path if path.starts_with("/api/") => Place::Interface,
            _ => Place::Site,
        };
        Self { place, origin: headers.get(ORIGIN).filter(|_| place == Place::Tools).cloned() }
    }
}

impl Finish {
    pub(super) fn new(base_url: &Origin, tools: Tools) -> Self {
        let link = format!(r#"<{base_url}{}>; rel="service-desc"; type="application/json""#, metadata::path::OPENAPI);
        Self { service_desc: HeaderValue::try_from(link).expect("an origin is ASCII"), tools }
    }

    pub(super) fn complete(&self, asked: Asked, mut response: Response) -> Response {
        let error = response.extensions_mut().remove::<ApiError>();
        let is_interface = matches!(asked.place, Place::Interface | Place::Token);
        // Those for people are pages.
        let is_missing = [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&response.status());
        let headers = response.headers_mut();
        if is_interface || is_missing || error.is_some() {
            headers.append(LINK, self.service_desc.clone());
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        headers.insert(REFERRER_POLICY, NO_REFERRER);
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(NOTHING);
        if asked.place == Place::Token {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
        }
        let (readers, exposed) = match asked.place {
            Place::Tools => (self.tools.complete(asked.origin, &mut response), mcp::EXPOSED),
            Place::Site | Place::Interface | Place::Token => (Some(ANYBODY), EXPOSED),
        };
        if let Some(readers) = readers {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, readers);
            response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        if let Some(error) = error {
            write_error(asked.place, error, &mut response);
        }
        response
    }
}

fn write_error(place: Place, error: ApiError, response: &mut Response) {
    let error = with_methods(error, response.headers());
    let body = match place {
        Place::Token => serde_json::to_vec(&TokenErrorBody::new(error)),
        Place::Tools => serde_json::to_vec(&mcp::error_body(error)),
        Place::Site | Place::Interface => serde_json::to_vec(&ErrorBody::new(error)),
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(body.expect("an error is made of strings"));
}

/// A 405 names the methods that the route takes. Axum writes them into `Allow`.
fn with_methods(error: ApiError, headers: &HeaderMap) -> ApiError {
    let lines = headers.get_all(ALLOW).iter().filter_map(|line| line.to_str().ok());
    let methods: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    if error.code == Code::MethodNotAllowed && !methods.is_empty() {
        ApiError::method_not_allowed_but(&methods)
    } else {
        error
    }
}
