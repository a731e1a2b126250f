//! The representations of a page, each finished once for each version: its bytes, its entity tags and its header fields.

use std::sync::{Arc, OnceLock};

use axum::response::Response;
use http::{HeaderMap, HeaderValue};

use super::coding::{CodedBody, Compressor};
use crate::service::{Keeper, Kept, PageRead};

/// Bytes that a representation takes in addition to its body: more than its header fields and tags.
const FIELDS_BYTES: usize = 2048;

/// The representations of one version of a page, as far as they were asked for.
#[derive(Default)]
pub(super) struct Views {
    pub(super) json: OnceLock<View>,
    pub(super) html: OnceLock<View>,
    /// The source, at an address of its own.
    pub(super) markdown: OnceLock<View>,
    /// The source, at the address of the HTML.
    pub(super) negotiated_markdown: OnceLock<View>,
}

impl Kept for Views {
    const KEEPER: Keeper = Keeper::Http;
}

pub(super) struct View {
    content_type: HeaderValue,
    /// The header fields of the 200 and the 304, without the entity tag and those that describe the body.
    fields: HeaderMap,
    body: Arc<CodedBody>,
}

impl View {
    /// `body` as `content_type`. `fields` are the header fields of the 200 and the 304, without the entity tag.
    pub(super) fn new(content_type: HeaderValue, fields: HeaderMap, body: CodedBody) -> Self {
        Self { content_type, fields, body: Arc::new(body) }
    }

    /// Bytes that this takes.
    pub(super) fn bytes(&self) -> usize {
        FIELDS_BYTES + self.body.len()
    }

    /// The same body with other header fields.
    pub(super) fn with_fields(&self, fields: HeaderMap) -> Self {
        Self { content_type: self.content_type.clone(), fields, body: Arc::clone(&self.body) }
    }

    /// Answers a request with these header fields. If the client prefers a coding that was not made yet, the compressor makes
    /// it for later requests.
    pub(super) fn respond_to(&self, page: &PageRead, compressor: &Compressor, request: &HeaderMap) -> Response {
        let (response, missing) = self.body.respond_to(request, &self.content_type, &self.fields);
        if let Some(coding) = missing
            && let Some(page) = page.share_kept()
        {
            let body = Arc::clone(&self.body);
            compressor.begin(move || page.grew(body.compress(coding)));
        }
        response
    }
}
