//! Documents and files that change only with Handbill.

use std::sync::{Arc, OnceLock};

use axum::response::Response;
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::negotiation::{Coding, VARY_CODING};
use super::representation::{Cacheable, MIN_COMPRESSED_BYTES, Made, finish};
use super::{etag::short_hash, kept_body::KeptBody};

/// For what changes only with Handbill's version or settings.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Clones share the bytes.
#[derive(Clone)]
pub(super) struct Document {
    content_type: &'static str,
    fields: HeaderMap,
    /// Without coding and quotation marks.
    tag: String,
    body: KeptBody,
    /// Made at the first request for it.
    gzip: Arc<OnceLock<Option<KeptBody>>>,
}

impl Cacheable for Document {
    fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(self.content_type)
    }

    fn fields(&self) -> HeaderMap {
        self.fields.clone()
    }

    fn tag(&self, coding: Coding) -> HeaderValue {
        let tag = &self.tag;
        let tag = match coding {
            Coding::Identity => format!("\"{tag}\""),
            Coding::Gzip => format!("\"{tag}-gzip\""),
        };
        HeaderValue::try_from(tag).expect("it is ASCII")
    }
}

impl Document {
    /// The entity tag is strong, and clients may cache for an hour.
    pub(super) fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let tag = short_hash([content_type.as_bytes(), &bytes]);
        let mut fields = HeaderMap::from_iter([(CACHE_CONTROL, CACHE_ONE_HOUR)]);
        if bytes.len() >= MIN_COMPRESSED_BYTES {
            fields.insert(VARY, VARY_CODING);
        }
        Self { content_type, fields, tag, body: bytes.into(), gzip: Arc::default() }
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    /// For a single request, compressing would take longer than all else.
    pub(super) fn uncompressed(mut self) -> Self {
        self.gzip = Arc::new(OnceLock::from(None));
        self
    }

    pub(super) fn respond_to(&self, request: &HeaderMap) -> Response {
        finish(request, self, |coding| self.made(coding)).expect("the body without a coding is there").response
    }

    fn made(&self, coding: Coding) -> Made<'_> {
        match coding {
            Coding::Identity => Made::Body(&self.body),
            Coding::Gzip => self.gzip.get_or_init(|| self.body.gzip()).as_ref().into(),
        }
    }

    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.respond_to(&headers)))
    }
}
