//! Creating a page.

use std::sync::Arc;

use tokio::time::Instant;

use super::error::{BodyError, ServiceError};
use super::request::{Body, New, NewTitle, PageFields, check_text};
use super::{Limited, PageService, StoreBudget, deadline, until};
use crate::domain::content::Content;
use crate::domain::edit_key::EditKey;
use crate::domain::page::{Page, PageHead};
use crate::domain::slug::{Slug, SlugSuffix};
use crate::domain::slug_secret::SlugSecret;
use crate::domain::subject::Requester;
use crate::domain::title::{Title, TitleError};
use crate::ports::page_store::{InsertResult, Record};
use crate::ports::random::index_below;
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::{Purpose, RenderError};

/// Slugs tried before giving up. With 28⁸ suffixes even a second try is rarer than a failing disk, so eight failures
/// mean that something is broken.
const SLUG_ATTEMPTS: u32 = 8;

/// A page that was created, by this request or, with the key of the client, by an earlier one, and its key.
#[derive(Debug)]
pub struct Created {
    pub page: Arc<Page>,
    /// Its key. One that the server made is never shown again.
    pub edit_key: EditKey,
}

impl PageService {
    /// Publishes a page. After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may have been
    /// stored. If the client made its key, the same request sent again then returns that page; otherwise nobody has its key.
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
        New { title, content, edit_key }: New,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Created, ServiceError> {
        let title = self.title_of(title, &content, purpose).await?.map_err(|error| match error {
            TitleError::Empty => BodyError::NoTitle,
            error => BodyError::FoundTitle(error),
        })?;
        self.policy.check_pause()?;
        let secret = match &edit_key {
            Some(key) => {
                check_text(key, "title", title.as_str())?;
                let kept = self.slug_secret.get_or_try_init(|| self.store.slug_secret());
                Some(StoreBudget::new(deadline).wait(kept).await?)
            }
            None => None,
        };
        let made = self.publishable(&content, edit_key.as_ref(), purpose).await?;
        self.policy.spend_budget(&*self.limiter).await?;
        let edit_key = edit_key.unwrap_or_else(|| EditKey::random(|bound| index_below(&self.random, bound)));
        let slug = self.slug(secret, &title, &edit_key, 0);
        let head = PageHead::first(slug, title.clone(), edit_key.hash(), self.clock.now());
        let mut page = Page::new(head, content, made.rendered);
        for counter in 1..=SLUG_ATTEMPTS {
            let candidate = Arc::new(page);
            let mut store_budget = StoreBudget::new(deadline);
            let inserting = self.store.insert_if_absent(Arc::clone(&candidate), Some(store_budget.needed_by()));
            match store_budget.wait(inserting).await? {
                InsertResult::Inserted => return Ok(Created { page: candidate, edit_key }),
                InsertResult::SlugTaken(_) if secret.is_none() => {}
                InsertResult::SlugTaken(Record::Active(page)) if !page.head.key_hash.matches(&edit_key) => {}
                InsertResult::SlugTaken(Record::Active(page)) if page.text.content == candidate.text.content => {
                    return Ok(Created { page, edit_key });
                }
                InsertResult::SlugTaken(_) => return Err(ServiceError::KeyInUse),
            }
            page = Arc::unwrap_or_clone(candidate);
            page.head.slug = self.slug(secret, &title, &edit_key, counter);
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

    /// The slug to try after `counter` others: derived with `secret`, so that a repeat finds its page, or random.
    fn slug(&self, secret: Option<&SlugSecret>, title: &Title, key: &EditKey, counter: u32) -> Slug {
        match secret {
            Some(secret) => secret.slug(title, key, counter),
            None => Slug::derive(title, SlugSuffix::random(|bound| index_below(&self.random, bound))),
        }
    }
}
