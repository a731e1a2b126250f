//! Answers that stay the same until Handbill or its settings change: documents, the home page, files.

use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::etag::conditional_response;
use super::site::assets::short_hash;

/// What changes only with a new version of Handbill, or with its settings.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// An answer that is known before anybody asks for it.
#[derive(Clone)]
pub(super) struct StaticResponse {
    bytes: Bytes,
    content_type: &'static str,
    /// All but the type, for the bytes and for 304 alike.
    headers: HeaderMap,
}

impl StaticResponse {
    /// `bytes` as `content_type`, with a strong entity tag of both, to be kept for an hour.
    pub(super) fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = short_hash([content_type.as_bytes(), &bytes]);
        Self::tagged(content_type, bytes, &hash)
    }

    /// The same where what is between the quotation marks of the tag is known already.
    pub(super) fn tagged(content_type: &'static str, bytes: impl Into<Bytes>, tag: &str) -> Self {
        let tag = HeaderValue::try_from(format!("\"{tag}\"")).expect("it is hexadecimal");
        let headers = HeaderMap::from_iter([(ETAG, tag), (CACHE_CONTROL, CACHE_ONE_HOUR)]);
        Self { bytes: bytes.into(), content_type, headers }
    }

    /// The same with `value` as the header `name`, in place of what it had.
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The answer to a request with these headers: 304 where its client holds this already.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        conditional_response(request, self.headers.clone(), || {
            ([(CONTENT_TYPE, self.content_type)], self.bytes.clone()).into_response()
        })
    }

    /// A route that gives this to `GET` and `HEAD`.
    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.answer(&headers)))
    }
}
