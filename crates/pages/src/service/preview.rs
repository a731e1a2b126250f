//! Previewing a page: checks and HTML as for publishing, but nothing is stored.

use super::request::{Body, New, PageFields};
use super::{Limited, PageService, deadline, until};
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::{Checks, Purpose};
use crate::values::client::Client;
use crate::values::markdown::Rendered;
use crate::values::title::Title;

#[derive(Debug)]
pub struct Preview {
    /// A preview needs no title.
    pub title: Option<Title>,
    pub rendered: Rendered,
}

impl PageService {
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
