//! The representations of a page, each finished once for each version: its bytes, its entity tags and its header fields.

use std::sync::{Arc, OnceLock};

use axum::response::Response;
use http::{HeaderMap, HeaderValue};

use super::coding::{CodedBody, Compressor};
use super::middleware::cors::set_cors_headers;
use super::middleware::security_headers::set_security_headers;
use super::state::Http;
use crate::service::{Keeper, Kept, PageRead};

/// Bytes that are counted for a representation in addition to its body: more than its header fields and tags take.
const FIELDS_BYTES: usize = 2048;

/// The representations of one version of a page, as far as they were asked for.
#[derive(Default)]
pub(super) struct Views {
    /// JSON, as in the API.
    pub(super) json: OnceLock<View>,
    /// The page for people.
    pub(super) html: OnceLock<View>,
    /// The source, at an address of its own.
    pub(super) markdown: OnceLock<View>,
    /// The source, at the address of the HTML.
    pub(super) negotiated_markdown: OnceLock<View>,
}

impl Kept for Views {
    const KEEPER: Keeper = Keeper::Http;
}

/// One representation of a page.
pub(super) struct View {
    content_type: HeaderValue,
    /// The header fields of the 200 and the 304, without the entity tag and those that describe the body.
    fields: HeaderMap,
    body: Arc<CodedBody>,
}

impl View {
    /// `body` as `content_type`. `fields` are the header fields of the 200 and the 304, without the entity tag.
    pub(super) fn new(content_type: HeaderValue, fields: HeaderMap, body: CodedBody) -> Self {
        Self::over(content_type, fields, Arc::new(body))
    }

    /// The same body with other header fields.
    pub(super) fn with_fields(&self, fields: HeaderMap) -> Self {
        Self::over(self.content_type.clone(), fields, Arc::clone(&self.body))
    }

    fn over(content_type: HeaderValue, mut fields: HeaderMap, body: Arc<CodedBody>) -> Self {
        // Every answer has these, so they are made here once, and the layers that set them change nothing.
        set_security_headers(&mut fields);
        set_cors_headers(&mut fields);
        Self { content_type, fields, body }
    }

    fn respond_to(&self, page: &PageRead, compressor: &Compressor, request: &HeaderMap) -> Response {
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

/// One of the representations.
#[derive(Clone, Copy)]
pub(super) struct Representation {
    /// Its place.
    pub(super) slot: fn(&Views) -> &OnceLock<View>,
    /// Makes it. The others that were made may help.
    pub(super) make: fn(&Views, &PageRead, &Http) -> View,
}

/// Answers `request` with `representation`. Makes it if nobody asked for it yet. If the client prefers a coding that was
/// not made yet, the compressor makes it for later requests.
pub(super) fn respond(
    page: &PageRead,
    http: &Http,
    request: &HeaderMap,
    Representation { slot, make }: Representation,
) -> Response {
    let views = page.made::<Views>();
    let mut made_bytes = None;
    let view = slot(views).get_or_init(|| {
        let view = make(views, page, http);
        made_bytes = Some(FIELDS_BYTES + view.body.len());
        view
    });
    if let Some(bytes) = made_bytes {
        page.grew(bytes);
    }
    view.respond_to(page, &http.compressor, request)
}
