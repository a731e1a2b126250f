//! Responses that only change with the version or the settings of Handbill: documents, the home page, files.

use std::sync::Arc;

use axum::response::Response;
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::coding::{CodedBody, Coding, VARY_CODING};
use super::site::assets::short_hash;

/// For responses that only change with the version or the settings of Handbill.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

#[derive(Clone)]
pub(super) struct StaticResponse {
    body: Arc<CodedBody>,
    content_type: &'static str,
    /// The headers of the 200 and the 304, without the entity tag and those that describe the body.
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
        let tag_in = |coding| {
            let tag = match coding {
                Coding::Identity => format!("\"{tag}\""),
                coding => format!("\"{tag}-{}\"", coding.name()),
            };
            HeaderValue::try_from(tag).expect("it is ASCII")
        };
        let body = Arc::new(CodedBody::new(bytes.into(), tag_in));
        let mut headers = HeaderMap::from_iter([(CACHE_CONTROL, CACHE_ONE_HOUR)]);
        if body.is_compressible() {
            headers.insert(VARY, VARY_CODING);
        }
        Self { body, content_type, headers }
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The response to a request with these headers: 304 if the client already holds it.
    pub(super) fn respond_to(&self, request: &HeaderMap) -> Response {
        let content_type = HeaderValue::from_static(self.content_type);
        let (response, missing) = self.body.respond_to(request, &content_type, &self.headers);
        let Some(coding) = missing else { return response };
        // There are few such bodies, and each is compressed once, at the first request for it.
        self.body.compress(coding);
        self.body.respond_to(request, &content_type, &self.headers).0
    }

    /// Like [`Self::respond_to`], but the body is sent as it is. This is for a response that is made for one request:
    /// compressing it each time would take far longer than making it.
    pub(super) fn respond_uncompressed_to(&self, request: &HeaderMap) -> Response {
        let content_type = HeaderValue::from_static(self.content_type);
        self.body.respond_to(request, &content_type, &self.headers).0
    }

    /// A route that answers `GET` and `HEAD` with this response.
    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.respond_to(&headers)))
    }
}
