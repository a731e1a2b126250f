//! Creating a page.

use std::sync::Arc;

use tokio::time::Instant;

use super::error::{BodyError, ServiceError};
use super::request::{Body, New, NewTitle, PageFields};
use super::{Limited, PageService, StoreBudget, deadline, until};
use crate::domain::content::Content;
use crate::domain::edit_key::EditKey;
use crate::domain::page::{Page, PageHead};
use crate::domain::slug::{Slug, SlugSuffix};
use crate::domain::subject::Requester;
use crate::domain::title::{Title, TitleError};
use crate::ports::page_store::InsertResult;
use crate::ports::random::index_below;
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::{Purpose, RenderError};

/// Slugs tried before giving up. With 28⁸ suffixes even a second try is rarer than a failing disk, so eight failures
/// mean that something is broken.
const SLUG_ATTEMPTS: usize = 8;

/// A page that was just created, with the only copy of its key.
#[derive(Debug)]
pub struct Created {
    pub page: Arc<Page>,
    /// Its key, which is never shown again.
    pub edit_key: EditKey,
}

impl PageService {
    /// Publishes a page. After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may have been
    /// stored, without anyone having its key.
    pub async fn create(&self, requester: impl Into<Requester>, body: Body<PageFields>) -> Limited<Created> {
        let requester = requester.into();
        let purpose = Purpose::Write(self.tiers.believed(requester));
        match body.and_then(PageFields::check_new) {
            Ok(new) => {
                let deadline = deadline();
                let publishing = until(deadline, self.publish(new, purpose, deadline));
                self.admit(LimitKind::Create, requester, publishing).await
            }
            Err(error) => Limited::rejected_before_limit(error.into()),
        }
    }

    async fn publish(
        &self,
        New { title, content }: New,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Created, ServiceError> {
        let title = self.title_of(title, &content, purpose).await?.map_err(|error| match error {
            TitleError::Empty => BodyError::NoTitle,
            error => BodyError::FoundTitle(error),
        })?;
        self.policy.check_pause()?;
        let slug = self.random_slug(&title);
        let made = self.rendering.renderer().render(&content, purpose, self.policy.blocklist()).await?;
        self.policy.check_content(&made)?;
        self.policy.spend_budget(&*self.limiter).await?;
        let edit_key = EditKey::random(|bound| index_below(&self.random, bound));
        let head = PageHead::first(slug, title.clone(), edit_key.hash(), self.clock.now());
        let mut page = Page::new(head, content, made.rendered);
        for _ in 0..SLUG_ATTEMPTS {
            let candidate = Arc::new(page);
            let mut store_budget = StoreBudget::new(deadline);
            let inserting = self.store.insert_if_absent(Arc::clone(&candidate), Some(store_budget.needed_by()));
            let inserted = store_budget.wait(inserting).await?;
            if inserted == InsertResult::Inserted {
                return Ok(Created { page: candidate, edit_key });
            }
            page = Arc::unwrap_or_clone(candidate);
            page.head.slug = self.random_slug(&title);
        }
        Err(ServiceError::NoFreeSlug)
    }

    /// The title that was sent, else the one that is found in `content`.
    pub(super) async fn title_of(
        &self,
        title: NewTitle,
        content: &Content,
        purpose: Purpose,
    ) -> Result<Result<Title, TitleError>, RenderError> {
        let file_name = match title {
            NewTitle::Given(title) => return Ok(Ok(title)),
            NewTitle::InText(file_name) => file_name,
        };
        let heading = self.rendering.renderer().first_heading(content, purpose).await?;
        Ok(Title::parse(&heading.unwrap_or(file_name)))
    }

    fn random_slug(&self, title: &Title) -> Slug {
        Slug::derive(title, SlugSuffix::random(|bound| index_below(&self.random, bound)))
    }
}
