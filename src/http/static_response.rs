//! Responses that only change with the version or the settings of Handbill: documents, the home page, files.

use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::etag::conditional_response;
use super::site::assets::short_hash;

/// For responses that only change with the version or the settings of Handbill.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// A response that is made in advance.
#[derive(Clone)]
pub(super) struct StaticResponse {
    bytes: Bytes,
    content_type: &'static str,
    /// The headers of the 200 and the 304, without the content type.
    headers: HeaderMap,
}

impl StaticResponse {
    /// `bytes` as `content_type`, with a strong entity tag made from both. Clients may cache it for an hour.
    pub(super) fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = short_hash([content_type.as_bytes(), &bytes]);
        Self::tagged(content_type, bytes, &hash)
    }

    /// Like [`Self::new`], but with the entity tag `tag`, which has no quotation marks.
    pub(super) fn tagged(content_type: &'static str, bytes: impl Into<Bytes>, tag: &str) -> Self {
        let tag = HeaderValue::try_from(format!("\"{tag}\"")).expect("it is hexadecimal");
        let headers = HeaderMap::from_iter([(ETAG, tag), (CACHE_CONTROL, CACHE_ONE_HOUR)]);
        Self { bytes: bytes.into(), content_type, headers }
    }

    /// Sets the header `name` to `value`.
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The response to a request with these headers: 304 if the client already holds it.
    pub(super) fn respond_to(&self, request: &HeaderMap) -> Response {
        conditional_response(request, self.headers.clone(), || {
            ([(CONTENT_TYPE, self.content_type)], self.bytes.clone()).into_response()
        })
    }

    /// A route that answers `GET` and `HEAD` with this response.
    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.respond_to(&headers)))
    }
}
