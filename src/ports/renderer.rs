//! Turning Markdown into HTML without holding up who asks.

use async_trait::async_trait;

use crate::domain::content::Content;
use crate::domain::markdown::Rendered;

/// Renders pages. It never fails: any content has HTML.
#[async_trait]
pub trait Renderer: Send + Sync {
    /// The HTML of `content`, by the newest rules. A caller may go away; nothing is left behind then.
    async fn render(&self, content: &Content) -> Rendered;
}
