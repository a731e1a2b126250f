//! A page as a tool's result, once as text and once as structured content, both written while they are sent.
//!
//! `rmcp` would hold both in memory and copy them when it serialises. It gets an empty result instead, and the page takes
//! its place in the answer that `rmcp` has made.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::response::Response;
use http::header::CONTENT_LENGTH;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use crate::api::types::{Nesting, PageBody, PageJson, StreamedJson};
use crate::domain::origin::Origin;
use crate::service::PageRead;

/// Longest answer of `rmcp` around an empty result, in bytes: an `id` of the caller's, which is at most as long as a
/// request, each byte of it escaped, and less than 4 KiB of our own.
const MAX_ANSWER_BYTES: usize = 6 * crate::api::request::MAX_BODY_BYTES + 4096;

/// The empty result as it stands in an answer. Inside a string its quotes would be escaped, so it is found nowhere else.
const EMPTY_TEXT: &str = r#""text":"""#;
const EMPTY_STRUCTURE: &str = r#""structuredContent":{}"#;

/// Where a tool leaves the page that its result shows. Clones are the same place.
#[derive(Clone, Default)]
pub(super) struct PageSlot(Arc<Mutex<Option<Left>>>);

struct Left {
    json: PageJson,
    /// Kept until the answer is made, for its turn among large pages.
    _page: PageRead,
}

impl PageSlot {
    /// Leaves `page`, and returns the result that stands in for it.
    pub(super) fn leave(&self, page: PageRead, base_url: &Origin, with_html: bool) -> CallToolResult {
        let json = PageBody::json(page.share(), base_url, with_html);
        *self.lock() = Some(Left { json, _page: page });
        let mut result = CallToolResult::success(vec![ContentBlock::text("")]);
        result.structured_content = Some(json!({}));
        result
    }

    /// `answer`, with the page in the place of the empty result if one was left.
    pub(super) async fn fill(&self, answer: Response) -> Response {
        let Some(Left { json, _page }) = self.lock().take() else { return answer };
        let (mut parts, body) = answer.into_parts();
        let bytes = to_bytes(body, MAX_ANSWER_BYTES).await.unwrap_or_default();
        let filled = filled(&bytes, &json).unwrap_or_else(|| {
            // The call was cut short, and this is what `rmcp` says of it.
            let mut as_it_is = StreamedJson::default();
            as_it_is.push(bytes);
            as_it_is
        });
        parts.headers.remove(CONTENT_LENGTH);
        Response::from_parts(parts, Body::new(filled))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `answer` with the page in the two places of an empty result; `None` where it is no such answer.
fn filled(answer: &[u8], page: &PageJson) -> Option<StreamedJson> {
    let text = std::str::from_utf8(answer).ok()?;
    let inside = |empty: &str, end: usize| Some(text.find(empty)? + empty.len() - end);
    // Between the quotes, and in the place of `{}`.
    let mut places =
        [(inside(EMPTY_TEXT, 1)?, 0, Nesting::JsonInString), (inside(EMPTY_STRUCTURE, 2)?, 2, Nesting::Json)];
    places.sort_by_key(|&(at, ..)| at);
    let mut body = StreamedJson::default();
    let mut rest = 0;
    for (at, replaced, nesting) in places {
        body.push(answer[rest..at].to_vec());
        body.push_page(page, nesting);
        rest = at + replaced;
    }
    body.push(answer[rest..].to_vec());
    Some(body)
}
