//! Turns Markdown into HTML without blocking the caller.

use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

use crate::values::{blocklist::Blocklist, content::Content, edit_key::EditKey, markdown::Rendered};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Write,
    /// The service's own work. Never refused, so the caller bounds how much waits.
    Upkeep,
    /// Never keeps a text from being published.
    Preview,
}

/// Too many texts are being rendered. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many texts are waiting to be rendered")]
pub struct RenderError;

/// Searches that the renderer makes, since they take milliseconds in a long text.
#[derive(Clone, Default)]
pub struct ContentChecks {
    pub blocklist: Option<Arc<Blocklist>>,
    pub key: Option<EditKey>,
}

pub struct RenderOutcome {
    pub rendered: Rendered,
    pub is_refused: bool,
    /// Markup and references may spell a key that the source does not have.
    pub holds_key: bool,
}

#[async_trait]
pub trait Renderer: Send + Sync {
    async fn render(
        &self,
        content: &Content,
        purpose: Purpose,
        checks: ContentChecks,
    ) -> Result<RenderOutcome, RenderError>;
}
