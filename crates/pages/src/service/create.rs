//! Creates a page, or previews one.

use std::{pin::pin, sync::Arc};

use futures_util::future::{Either, select};
use tokio::time::Instant;

use super::error::{BodyError, ServiceError};
use super::request::{Body, NewPage, PageFields, check_text};
use super::time_limits::{StoreBudget, deadline, until};
use super::{Limited, PageService};
use crate::ports::page_store::{Expected, PutResult};
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::{ContentChecks, Purpose};
use crate::values::slug::{Reservation, Reserved, Slug, SlugSecret, SlugSuffix};
use crate::values::title::{Title, TitleError};
use crate::values::{
    client::Client, details::Details, edit_key::EditKey, head::PageHead, markdown::Rendered, page::Page, record::Record,
};

/// With 28⁸ suffixes even a second try is rarer than a failing disk.
const SLUG_ATTEMPTS: u32 = 8;

#[derive(Debug)]
pub struct Created {
    pub page: Arc<Page>,
    /// A key that the server made is never shown again.
    pub edit_key: EditKey,
}

#[derive(Debug)]
pub struct Preview {
    /// A preview needs none, unlike a page.
    pub title: Option<Title>,
    pub rendered: Rendered,
}

impl PageService {
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may exist. Only a client that made
    /// its key gets it, by the same request again.
    pub async fn create(&self, client: Client, body: Body<PageFields>) -> Limited<Created> {
        let new = match body.and_then(PageFields::check_new) {
            Ok(new) => new,
            Err(error) => return Limited::rejected_before_limit(error.into()),
        };
        let deadline = deadline();
        let key = new.edit_key.clone().unwrap_or_else(|| self.new_key());
        // On the heap: each of the futures around it would copy its 10 KB.
        let publishing = Box::pin(self.publish(new, key, deadline));
        self.admit(LimitKind::Create, client, until(deadline, publishing)).await
    }

    /// Checks and renders as a create does, but stores nothing. A text needs no title, and a heading that cannot be a title
    /// counts as no heading.
    pub async fn preview(&self, client: Client, body: Body<PageFields>) -> Limited<Preview> {
        match body.and_then(PageFields::check_new) {
            Ok(new) => self.admit(LimitKind::Preview, client, until(deadline(), self.show(new))).await,
            Err(error) => Limited::rejected_before_limit(error.into()),
        }
    }

    async fn show(&self, new: NewPage) -> Result<Preview, ServiceError> {
        let made = self.renderer.render(&new.content, Purpose::Preview, ContentChecks::default()).await?;
        let title = new.title_or(made.rendered.title_in_text.as_deref()).ok();
        Ok(Preview { title, rendered: made.rendered })
    }

    fn new_key(&self) -> EditKey {
        let mut indices = self.random.indices();
        EditKey::random(|bound| indices.below(bound))
    }

    /// Renders the text, checks, and stores the page.
    async fn publish(&self, new: NewPage, edit_key: EditKey, deadline: Instant) -> Result<Created, ServiceError> {
        let early = self.early_slug(&new, &edit_key);
        let rendering = self.rendered(&new.content, new.edit_key.as_ref());
        // A slug that only the text or the store can give is not reserved: there is nothing left to wait beside.
        let (made, reserved) = match &early {
            Some(slug) => self.reserved_beside(slug, &edit_key, rendering).await,
            None => (rendering.await, Reserved::Unopposed),
        };
        let made = made?;
        let title = new.title_or(made.rendered.title_in_text.as_deref()).map_err(|error| match error {
            TitleError::Empty => BodyError::NoTitle,
            error => BodyError::FoundTitle(error),
        })?;
        self.policy.check_pause()?;
        let NewPage { details, content, edit_key: clients_key, file_name: _ } = new;
        let secret = if clients_key.is_some() {
            check_text(&edit_key, "title", title.as_str())?;
            let secret = self.slug_secret.get_or_try_init(|| self.store.slug_secret());
            Some(StoreBudget::new(deadline).wait(secret).await?)
        } else {
            None
        };
        self.check_made(&made)?;
        // A derived slug may be this create's own, from an earlier attempt.
        let early = early.filter(|_| reserved == Reserved::Unopposed || secret.is_some());
        let slug = early.unwrap_or_else(|| self.slug(secret, &title, &edit_key, 0));
        let details = Details { title: Some(title.clone()), ..details };
        let head = PageHead::first(slug, details, edit_key.hash(), self.clock.now());
        let page = Page::new(head, content, made.rendered);
        let page = self.insert(page, &title, &edit_key, secret, deadline).await?;
        Ok(Created { page, edit_key })
    }

    /// The slug of `new`, if that needs neither the text nor the store.
    fn early_slug(&self, new: &NewPage, key: &EditKey) -> Option<Slug> {
        let title = new.details.title.as_ref()?;
        let secret = if new.edit_key.is_some() { Some(self.slug_secret.get()?) } else { None };
        Some(self.slug(secret, title, key, 0))
    }

    /// Reserves `slug` while `work` is done, and waits no longer for the answer.
    async fn reserved_beside<T>(&self, slug: &Slug, key: &EditKey, work: impl Future<Output = T>) -> (T, Reserved) {
        let reservation = Reservation::new(slug.clone(), &key.hash());
        let reserving = pin!(self.limiter.reserve(&reservation));
        // `select` asks the first before the second begins.
        match select(reserving, pin!(work)).await {
            Either::Left((reserved, work)) => (work.await, reserved),
            Either::Right((done, _)) => (done, Reserved::Unopposed),
        }
    }

    /// Stores `page` under its slug, or under the next free one. With `secret`, a repeated create gets the page of the
    /// earlier one.
    async fn insert(
        &self,
        mut page: Page,
        title: &Title,
        key: &EditKey,
        secret: Option<&SlugSecret>,
        deadline: Instant,
    ) -> Result<Arc<Page>, ServiceError> {
        for counter in 1..=SLUG_ATTEMPTS {
            let candidate = Arc::new(page);
            let mut store_budget = StoreBudget::new(deadline);
            let next = Record::Active(Arc::clone(&candidate));
            let inserting = self.store.put(Expected::Absent, next, Some(store_budget.needed_by()));
            if store_budget.wait(inserting).await? == PutResult::Done {
                return Ok(candidate);
            }
            if secret.is_some() {
                match store_budget.wait(self.store.lookup(&candidate.head.slug)).await? {
                    Some(Record::Active(page)) if !page.head.state.key_hash.matches(key) => {}
                    Some(Record::Active(page))
                        if page.head.state.details == candidate.head.state.details
                            && page.text.content == candidate.text.content =>
                    {
                        return Ok(page);
                    }
                    _ => return Err(ServiceError::KeyInUse),
                }
            }
            page = Arc::unwrap_or_clone(candidate);
            page.head.slug = self.slug(secret, title, key, counter);
        }
        Err(ServiceError::NoFreeSlug)
    }

    /// Derived with `secret`, so that a repeat finds its page; else random.
    fn slug(&self, secret: Option<&SlugSecret>, title: &Title, key: &EditKey, counter: u32) -> Slug {
        if let Some(secret) = secret {
            return secret.slug(title, key, counter);
        }
        let mut indices = self.random.indices();
        Slug::derive(title, SlugSuffix::random(|bound| indices.below(bound)))
    }
}
