//! The parts of a page that its header fields are made of. A page and its head both have them.

use crate::domain::origin::Origin;
use crate::domain::page::{Page, PageHead, PageState};
use crate::domain::slug::Slug;

/// All that the header fields of a page depend on: a page and its head both have it.
pub(super) trait Described {
    /// As [`Page::slug`].
    fn slug(&self) -> &Slug;
    /// As [`Page::state`].
    fn state(&self) -> PageState;
    /// The version of the renderer that made the page's HTML.
    fn renderer_version(&self) -> u16;
    /// Whether a link of the page leads to another origin than `own`.
    fn has_external_links(&self, own: &Origin) -> bool;
}

impl Described for Page {
    fn slug(&self) -> &Slug {
        &self.slug
    }

    fn state(&self) -> PageState {
        self.state()
    }

    fn renderer_version(&self) -> u16 {
        self.rendered.renderer_version
    }

    fn has_external_links(&self, own: &Origin) -> bool {
        self.rendered.has_external_links(own.as_str())
    }
}

impl Described for PageHead {
    fn slug(&self) -> &Slug {
        &self.slug
    }

    fn state(&self) -> PageState {
        self.state()
    }

    fn renderer_version(&self) -> u16 {
        self.renderer_version
    }

    fn has_external_links(&self, own: &Origin) -> bool {
        self.has_external_links(own)
    }
}
