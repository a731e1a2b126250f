//! Turning Markdown into HTML without blocking the caller.

use async_trait::async_trait;

use crate::domain::content::Content;
use crate::domain::markdown::Rendered;

/// Renders pages. Rendering never fails, because any content has HTML.
#[async_trait]
pub trait Renderer: Send + Sync {
    /// The HTML of `content`, by the newest rules. A caller may drop the future at any time.
    async fn render(&self, content: &Content) -> Rendered;
}
