//! Previewing a page: the same checks and the same HTML as publishing it, and nothing is stored.

use super::error::{BodyError, ServiceError};
use super::request::Body;
use super::{Limited, PageService};
use crate::domain::content::{Content, ContentError};
use crate::domain::markdown::Rendered;
use crate::domain::subject::Requester;
use crate::domain::title::{Title, TitleError};
use crate::ports::rate_limiter::LimitKind;

/// The fields of a preview.
#[derive(Clone, Debug)]
pub struct PreviewFields {
    /// The title as it was sent; empty if there is none yet.
    pub title: String,
    /// The Markdown source as it was sent.
    pub content: String,
}

/// A page as it would be published.
#[derive(Debug)]
pub struct Preview {
    /// The title; `None` if there is none yet. A preview needs no title, unlike a page.
    pub title: Option<Title>,
    /// The HTML of the content.
    pub rendered: Rendered,
}

impl PageService {
    /// Renders a page without publishing it. The checks and their order are those of a create; the limit is that of
    /// previews.
    pub async fn preview(&self, requester: impl Into<Requester>, body: Body<PreviewFields>) -> Limited<Preview> {
        let work = |(title, content): (Option<Title>, Content)| async move {
            Ok::<_, ServiceError>(Preview { title, rendered: self.rendering.render(&content).await })
        };
        match body.and_then(PreviewFields::check) {
            Ok(fields) => self.admit_within_deadline(LimitKind::Preview, requester, work(fields)).await,
            Err(error) => Limited::rejected_before_limit(error.into()),
        }
    }

    /// The text of the heading that names `content`, if it has one.
    pub async fn first_heading(&self, content: &str) -> Option<String> {
        let content = Content::parse(content.to_owned()).ok()?;
        self.rendering.first_heading(&content).await
    }
}

impl PreviewFields {
    fn check(self) -> Result<(Option<Title>, Content), BodyError> {
        let title = match Title::parse(&self.title) {
            Err(TitleError::Empty) => Ok(None),
            title => title.map(Some).map_err(BodyError::Title),
        };
        match (Content::parse(self.content), title) {
            (Err(too_large @ ContentError::TooLarge { .. }), _) => Err(BodyError::Content(too_large)),
            (content, title) => Ok((title?, content.map_err(BodyError::Content)?)),
        }
    }
}
