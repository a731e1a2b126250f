//! Changing a page's title or content.

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::error::{BodyError, ServiceError};
use super::request::{Body, Credential, Precondition, TextUpdate, UpdateFields};
use super::{Limited, PageService, StoreBudget, within_deadline};
use crate::domain::client::Client;
use crate::domain::content::Content;
use crate::domain::edit_key::EditKey;
use crate::domain::markdown::Rendered;
use crate::domain::page::{Page, PageEdit};
use crate::domain::slug::Slug;
use crate::domain::text_edits;
use crate::ports::page_store::{CasResult, Record};
use crate::ports::rate_limiter::LimitKind;

impl Credential {
    /// The presented key, if it is the key of `page`.
    pub(super) fn open(&self, page: &Page) -> Result<&EditKey, ServiceError> {
        match self {
            Self::InQuery => Err(ServiceError::KeyInQuery),
            Self::Missing => Err(ServiceError::MissingKey),
            Self::Key(key) if page.key_hash.matches(key) => Ok(key),
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
        let (mut page, mut store_budget) = within_deadline(began, self.opened(slug, credential)).await?;
        let body = if let Some(body) = body.as_mut().now_or_never() {
            body
        } else {
            // The client sends its body only now, because it waited for `100 Continue`. The page may change before the
            // body has arrived. So the page is dropped, which also frees its memory, and looked up again.
            drop(page);
            let body = body.await;
            began = Instant::now();
            (page, store_budget) = within_deadline(began, self.opened(slug, credential)).await?;
            body
        };
        within_deadline(began, self.apply(page, store_budget, credential, body, precondition)).await
    }

    /// The page under `slug`, if `credential` is its key.
    async fn opened(&self, slug: &Slug, credential: &Credential) -> Result<(Arc<Page>, StoreBudget), ServiceError> {
        let mut store_budget = StoreBudget::new();
        let page = self.existing(slug, &mut store_budget).await?;
        credential.open(&page)?;
        Ok((page, store_budget))
    }

    async fn apply(
        &self,
        mut page: Arc<Page>,
        mut store_budget: StoreBudget,
        credential: &Credential,
        body: Body<UpdateFields>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let slug = page.slug.clone();
        let key = credential.open(&page)?;
        let update = body?.check(key)?;
        let replaced = match &update.text {
            TextUpdate::Replace(content) => Some(self.rendered_without_key(content, key).await?),
            TextUpdate::Keep | TextUpdate::Edit(_) => None,
        };
        precondition.check(page.state())?;
        update.check_state(page.state())?;
        if update.is_empty() {
            return Ok(self.rendering.current(page).await);
        }
        loop {
            let (content, rendered) = match &update.text {
                TextUpdate::Keep => {
                    // The page is stored with HTML of the newest renderer.
                    page = self.rendering.current(page).await;
                    (None, None)
                }
                TextUpdate::Replace(content) => (Some(content.clone()), replaced.clone()),
                TextUpdate::Edit(edits) => {
                    let text = text_edits::apply(page.content.as_str(), edits).map_err(BodyError::Edit)?;
                    let content = Content::parse(text).map_err(BodyError::Content)?;
                    let rendered = self.rendered_without_key(&content, key).await?;
                    (Some(content), Some(rendered))
                }
            };
            let edit = PageEdit { title: update.title.clone(), content };
            let next = Arc::new(page.edited(&edit, rendered.as_ref(), self.clock.now()));
            let swapped = self.store.compare_and_set(page.version, Record::Active(Arc::clone(&next)));
            match store_budget.wait(swapped).await? {
                CasResult::Swapped => return Ok(self.rendering.current(next).await),
                // Another request changed or deleted the page between the read and the write.
                CasResult::Stale => self.back_off().await,
            }
            store_budget = StoreBudget::new();
            page = self.existing(&slug, &mut store_budget).await?;
            precondition.check(page.state())?;
            update.check_state(page.state())?;
        }
    }

    /// The HTML of `content`, if neither of them contains `key`. Markup and character references may spell the key even
    /// if the source does not contain it.
    async fn rendered_without_key(&self, content: &Content, key: &EditKey) -> Result<Rendered, ServiceError> {
        if key.occurs_in(content.as_str()) {
            return Err(BodyError::HoldsKey("content").into());
        }
        let rendered = self.rendering.render(content).await;
        if rendered.exposes(|text| key.occurs_in(text)) {
            return Err(BodyError::HoldsKey("content").into());
        }
        Ok(rendered)
    }
}
