//! Changing a page's title or content.

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::error::{BodyError, ServiceError};
use super::request::{Body, Credential, Precondition, TextUpdate, Update, UpdateFields};
use super::{Limited, PageService, StoreBudget, within_deadline};
use crate::domain::client::Client;
use crate::domain::content::Content;
use crate::domain::edit_key::{EditKey, EditKeyHash};
use crate::domain::markdown::Rendered;
use crate::domain::page::{Page, PageEdit, PageHead};
use crate::domain::slug::Slug;
use crate::domain::text_edits;
use crate::ports::page_store::{CasResult, Record};
use crate::ports::rate_limiter::LimitKind;

impl Credential {
    /// The presented key, if `key_hash` is its hash.
    pub(super) fn open(&self, key_hash: EditKeyHash) -> Result<&EditKey, ServiceError> {
        match self {
            Self::InQuery => Err(ServiceError::KeyInQuery),
            Self::Missing => Err(ServiceError::MissingKey),
            Self::Key(key) if key_hash.matches(key) => Ok(key),
            Self::Malformed | Self::Key(_) => Err(ServiceError::InvalidKey),
            Self::WrongType => Err(BodyError::KeyType.into()),
        }
    }
}

impl PageService {
    /// Applies the fields in `body` and returns the resulting page. An update without fields changes nothing. `body` is
    /// polled after the credential was checked. The time to receive it does not count towards
    /// [`DEADLINE`](super::DEADLINE).
    ///
    /// Two concurrent updates of different fields both take effect. After [`ServiceError::Store`] or
    /// [`ServiceError::DeadlinePassed`] the update may or may not have been made.
    pub async fn update(
        &self,
        client: Client,
        slug: &str,
        credential: &Credential,
        body: impl Future<Output = Body<UpdateFields>>,
        precondition: &Precondition,
    ) -> Limited<Arc<Page>> {
        match Slug::parse(slug) {
            Ok(slug) => self.admit(LimitKind::Edit, client, self.edit(&slug, credential, body, precondition)).await,
            Err(_) => Limited::rejected_before_limit(ServiceError::NotFound),
        }
    }

    async fn edit(
        &self,
        slug: &Slug,
        credential: &Credential,
        body: impl Future<Output = Body<UpdateFields>>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let mut body = pin!(body);
        let mut began = Instant::now();
        let (mut head, mut store_budget) = within_deadline(began, self.opened(slug, credential)).await?;
        let body = if let Some(body) = body.as_mut().now_or_never() {
            body
        } else {
            // The client sends its body only now, because it waited for `100 Continue`. The page may change before the
            // body has arrived, so its head is read again.
            let body = body.await;
            began = Instant::now();
            (head, store_budget) = within_deadline(began, self.opened(slug, credential)).await?;
            body
        };
        within_deadline(began, self.apply(head, store_budget, credential, body, precondition)).await
    }

    /// The head of the page under `slug`, if `credential` is its key.
    async fn opened(&self, slug: &Slug, credential: &Credential) -> Result<(PageHead, StoreBudget), ServiceError> {
        let mut store_budget = StoreBudget::new();
        let head = self.existing_head(slug, &mut store_budget).await?;
        credential.open(head.key_hash)?;
        Ok((head, store_budget))
    }

    async fn apply(
        &self,
        mut head: PageHead,
        mut store_budget: StoreBudget,
        credential: &Credential,
        body: Body<UpdateFields>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let key = credential.open(head.key_hash)?;
        let update = body?.check(key)?;
        let replaced = match &update.text {
            TextUpdate::Replace(content) => Some(self.rendered_if_publishable(content, key).await?),
            TextUpdate::Keep | TextUpdate::Edit(_) => None,
        };
        loop {
            precondition.check(head.state())?;
            update.check_state(head.state())?;
            let (expected, next) = if let (TextUpdate::Replace(content), Some(rendered)) = (&update.text, &replaced) {
                let now = self.clock.now();
                (head.version, head.rewritten(update.title.clone(), content.clone(), rendered.clone(), now))
            } else {
                let page = self.page_of(head, &mut store_budget).await?;
                precondition.check(page.state())?;
                update.check_state(page.state())?;
                if update.is_empty() {
                    return Ok(self.rendering.current(page).await);
                }
                (page.version, self.with_parts_replaced(page, &update, key).await?)
            };
            let (slug, next) = (next.slug.clone(), Arc::new(next));
            let swapped = self.store.compare_and_set(expected, Record::Active(Arc::clone(&next)));
            match store_budget.wait(swapped).await? {
                CasResult::Swapped => return Ok(self.rendering.current(next).await),
                // Another request changed or deleted the page between the read and the write.
                CasResult::Stale => self.back_off().await,
            }
            store_budget = StoreBudget::new();
            head = self.existing_head(&slug, &mut store_budget).await?;
        }
    }

    /// `page` after an update that keeps its source, or replaces parts of it.
    async fn with_parts_replaced(&self, page: Arc<Page>, update: &Update, key: &EditKey) -> Result<Page, ServiceError> {
        let title = update.title.clone();
        let TextUpdate::Edit(edits) = &update.text else {
            // The page is stored with HTML of the newest renderer.
            let page = self.rendering.current(page).await;
            return Ok(page.edited(&PageEdit { title, content: None }, None, self.clock.now()));
        };
        let text = text_edits::apply(page.content.as_str(), edits).map_err(BodyError::Edit)?;
        let content = Content::parse(text).map_err(BodyError::Content)?;
        let rendered = self.rendered_if_publishable(&content, key).await?;
        Ok(page.edited(&PageEdit { title, content: Some(content) }, Some(&rendered), self.clock.now()))
    }

    /// The page of `head`, or its present state if it has changed since.
    async fn page_of(&self, head: PageHead, store_budget: &mut StoreBudget) -> Result<Arc<Page>, ServiceError> {
        match store_budget.wait(self.store.page(&head)).await? {
            Some(page) => Ok(page),
            None => self.existing(&head.slug, store_budget).await,
        }
    }

    /// The HTML of `content`, if neither of them contains `key` and operators publish it. Markup and character
    /// references may spell the key even if the source does not contain it.
    async fn rendered_if_publishable(&self, content: &Content, key: &EditKey) -> Result<Rendered, ServiceError> {
        if key.occurs_in(content.as_str()) {
            return Err(BodyError::HoldsKey("content").into());
        }
        let rendered = self.rendering.render(content).await;
        if rendered.exposes(|text| key.occurs_in(text)) {
            return Err(BodyError::HoldsKey("content").into());
        }
        self.policy.check_content(&rendered)?;
        Ok(rendered)
    }
}
