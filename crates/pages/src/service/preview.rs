//! Previewing a page: the same checks and the same HTML as publishing it, and nothing is stored.

use super::request::{Body, New, PageFields};
use super::{Limited, PageService, deadline, until};
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::{Checks, Purpose};
use crate::values::client::Client;
use crate::values::markdown::Rendered;
use crate::values::title::Title;

#[derive(Debug)]
pub struct Preview {
    /// The title; `None` if there is none yet. A preview needs no title, unlike a page.
    pub title: Option<Title>,
    pub rendered: Rendered,
}

impl PageService {
    /// Renders a page without publishing it. The checks and their order are those of a create, but a text needs no title,
    /// and a heading that could be no title is none. The limit is that of previews.
    pub async fn preview(&self, client: Client, body: Body<PageFields>) -> Limited<Preview> {
        let show = async |new: New| {
            let rendered = self.render(&new.content, Purpose::Preview, Checks::default()).await?.rendered;
            let title = new.title.or_heading(rendered.first_heading.as_deref()).ok();
            Ok(Preview { title, rendered })
        };
        match body.and_then(PageFields::check_new) {
            Ok(new) => self.admit(LimitKind::Preview, client, until(deadline(), show(new))).await,
            Err(error) => Limited::rejected_before_limit(error.into()),
        }
    }
}
