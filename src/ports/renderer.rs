//! Turning Markdown into HTML without blocking the caller.

use async_trait::async_trait;

use crate::domain::content::Content;
use crate::domain::markdown::{Rendered, first_heading};

/// Renders pages. Rendering never fails, because any content has HTML.
#[async_trait]
pub trait Renderer: Send + Sync {
    /// The HTML of `content`, by the newest rules. A caller may drop the future at any time.
    async fn render(&self, content: &Content) -> Rendered;

    /// The text of the heading that names `content`; `None` if it has no heading.
    async fn first_heading(&self, content: &Content) -> Option<String> {
        first_heading(content.as_str())
    }
}
