//! HTML that is as the newest renderer makes it.

use std::sync::Arc;

use crate::domain::content::Content;
use crate::domain::markdown::{RENDERER_VERSION, Rendered};
use crate::domain::page::Page;
use crate::renderer::Renderer;

/// A renderer, and when to use it.
#[derive(Clone)]
pub(super) struct Rendering(pub(super) Arc<dyn Renderer>);

impl Rendering {
    /// The HTML of `content`.
    pub(super) async fn render(&self, content: &Content) -> Rendered {
        self.0.render(content).await
    }

    /// `page`, rendered anew if an older renderer wrote it.
    pub(super) async fn current(&self, page: Arc<Page>) -> Arc<Page> {
        if page.rendered.renderer_version >= RENDERER_VERSION {
            return page;
        }
        let rendered = self.render(&page.content).await;
        Arc::new(Page { rendered, ..Page::clone(&page) })
    }
}
