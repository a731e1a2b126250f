//! Turning Markdown into HTML without blocking the caller.

use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

use crate::values::content::Content;
use crate::values::edit_key::EditKey;
use crate::values::markdown::Rendered;

/// The reason why a text is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client publishes the text.
    Write,
    /// The service's own work: pages with HTML of an older renderer, and imports. It is never refused, so the caller
    /// must bound how much of it waits.
    Upkeep,
    /// A client wants to see the text. A preview never keeps a text from being published.
    Preview,
}

/// Too many texts are rendered at the moment. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many texts are waiting to be rendered")]
pub struct RenderError;

/// Whether operators refuse a page with this Markdown, whose links and images lead to these addresses.
pub type Refuses = Arc<dyn Fn(&str, &[String]) -> bool + Send + Sync>;

/// Further work on the text, for the renderer since a search of a long text takes milliseconds.
#[derive(Clone, Default)]
pub struct Checks {
    /// The content that operators do not publish.
    pub refuses: Option<Refuses>,
    /// The page's key.
    pub key: Option<EditKey>,
}

/// HTML, with the results of the checks.
pub struct Made {
    /// The HTML.
    pub rendered: Rendered,
    /// Whether operators refuse the text.
    pub is_refused: bool,
    /// Whether the page shows the key. Markup and character references may spell the key even if the source does not
    /// contain it.
    pub shows_key: bool,
}

/// Renders pages. Any content has HTML, but there may be no room to make it now. A caller may drop a future at any time.
#[async_trait]
pub trait Renderer: Send + Sync {
    /// The HTML of `content`, by the newest rules, and the results of `checks`.
    async fn render(&self, content: &Content, purpose: Purpose, checks: Checks) -> Result<Made, RenderError>;
}
