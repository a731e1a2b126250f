//! The results that show a whole page, each made once for each version of the page.
//!
//! A part of a page is not kept: which part an agent asks for differs from call to call.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rmcp::model::{ContentBlock, Resource};

use crate::api::types::{Included, Nesting, PageBody, page_url};
use handbill_core::domain::origin::Origin;
use handbill_core::domain::page::Page;
use handbill_core::service::{Kept, PageRead};

/// Bytes that are counted for a result in addition to its JSON: more than the places that refer to it take.
const PLACES_BYTES: usize = 512;

/// The results of one version of a page, as far as they were asked for.
#[derive(Default)]
pub(super) struct ToolRepresentations {
    whole: OnceLock<ToolRepresentation>,
    without_html: OnceLock<ToolRepresentation>,
}

/// The parts of a result that depend on nothing but the page. Clones share them.
#[derive(Clone)]
pub(super) struct ToolRepresentation {
    /// The page as JSON inside a JSON string, without the quotes around it.
    pub(super) text: Bytes,
    pub(super) json: Bytes,
    /// The content block that links to the page.
    pub(super) link: Bytes,
}

impl ToolRepresentation {
    /// The result that shows `page` with the texts that `included` names. `None` if no such result is kept.
    pub(super) fn of(page: &PageRead, base_url: &Origin, included: Included) -> Option<Self> {
        let (slot, kept) = (slot(included)?, page.kept()?);
        let mut made_bytes = None;
        let finished = slot(kept.made()).get_or_init(|| {
            let finished = Self::new(page, base_url, included);
            made_bytes = Some(PLACES_BYTES + finished.text.len() + finished.json.len() + finished.link.len());
            finished
        });
        if let Some(bytes) = made_bytes {
            kept.changed(&page.head.slug, bytes, 0);
        }
        Some(finished.clone())
    }

    /// The result with the texts that `included` names, if it is kept.
    pub(super) fn kept(kept: &Kept, included: Included) -> Option<Self> {
        slot(included)?(kept.made()).get().cloned()
    }

    fn new(page: &PageRead, base_url: &Origin, included: Included) -> Self {
        let page = page.share();
        let json = PageBody::json(Arc::clone(&page), base_url, included);
        Self {
            text: json.to_bytes(Nesting::JsonInString),
            json: json.to_bytes(Nesting::Json),
            link: link_to(&page, base_url),
        }
    }
}

fn slot(included: Included) -> Option<fn(&ToolRepresentations) -> &OnceLock<ToolRepresentation>> {
    match included {
        Included { content: true, html: true, part: None } => Some(|results| &results.whole),
        Included { content: true, html: false, part: None } => Some(|results| &results.without_html),
        _ => None,
    }
}

/// A content block by which clients can show the page, as JSON.
pub(super) fn link_to(page: &Page, base_url: &Origin) -> Bytes {
    let link = Resource::new(page_url(&page.head.slug, base_url), page.head.slug.as_str()).with_mime_type("text/html");
    serde_json::to_string(&ContentBlock::ResourceLink(link)).expect("strings serialise").into()
}
