//! Turning Markdown into HTML without blocking the caller.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

use crate::domain::blocklist::Blocklist;
use crate::domain::client::Client;
use crate::domain::content::Content;
use crate::domain::edit_key::EditKey;
use crate::domain::markdown::Rendered;

/// The reason why a text is rendered. It decides whose turn comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// This client publishes the text. Writes come first.
    Write(Client),
    /// The service's own work: pages with HTML of an older renderer, and imports. It comes after writes and is never
    /// refused, so whoever asks for it must bound how much of it waits.
    Upkeep,
    /// This client wants to see the text. Previews come last.
    Preview(Client),
}

/// Why a text was not rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// Too many texts wait already, or the turn did not come in time. Nothing was done.
    #[error("too many texts are waiting to be rendered")]
    Overloaded,
    /// The work did not end and was given up. The same text would hang again.
    #[error("the rendering of a text did not end")]
    Hung,
}

/// Further work on the HTML, for the renderer since a search of a long text takes milliseconds.
#[derive(Clone, Default)]
pub struct Checks {
    /// The hosts and texts that operators do not publish.
    pub blocklist: Option<Arc<Blocklist>>,
    /// The page's key.
    pub key: Option<EditKey>,
}

/// HTML, and the memory that it takes.
pub struct Made {
    /// The HTML.
    pub rendered: Rendered,
    /// Whether the blocklist refuses it.
    pub is_refused: bool,
    /// Whether it shows the key. Markup and character references may spell the key even if the source does not contain it.
    pub shows_key: bool,
    /// Keep it until the store has answered. Until then the HTML counts towards the renderer's budget, so that pages do not
    /// pile up before a slow store.
    pub memory: Memory,
}

/// A share of a renderer's budget, which is given back when this is dropped.
pub struct Memory {
    _permit: Box<dyn Any + Send + Sync>,
}

impl Memory {
    /// The share that `permit` is.
    pub fn of(permit: impl Send + Sync + 'static) -> Self {
        Self { _permit: Box::new(permit) }
    }
}

/// Renders pages. Any content has HTML, but there may be no room to make it now. A caller may drop a future at any time.
#[async_trait]
pub trait Renderer: Send + Sync {
    /// The HTML of `content`, by the newest rules, and the results of `checks`.
    async fn render(&self, content: &Content, purpose: Purpose, checks: Checks) -> Result<Made, RenderError>;

    /// The text of the heading that names `content`; `None` if it has no heading.
    async fn first_heading(&self, content: &Content, purpose: Purpose) -> Result<Option<String>, RenderError>;
}
