//! Changing a page's title or content, and deleting a page for ever.

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::budgets::ReadPermit;
use super::error::{BodyError, ServiceError};
use super::request::{Body, Credential, PageFields, Precondition, TextUpdate, Update, check_text};
use super::{Limited, PageService, StoreBudget, back_off, deadline, until};
use crate::ports::page_store::{Expected, PutResult, Record};
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::{Checks, Made, Purpose};
use crate::values::client::Client;
use crate::values::content::Content;
use crate::values::edit_key::{EditKey, EditKeyHash};
use crate::values::page::{Page, PageHead, PageState, PageVersion};
use crate::values::slug::Slug;
use crate::values::text_edits;

struct Opened {
    head: PageHead,
    store_budget: StoreBudget,
}

struct Edit<'a> {
    update: Update,
    /// Only for a whole new text.
    rendered: Option<Made>,
    key: &'a EditKey,
    precondition: &'a Precondition,
}

impl Edit<'_> {
    fn check_state(&self, state: PageState) -> Result<(), ServiceError> {
        self.precondition.check(state)?;
        self.update.check_state(state)
    }
}

impl Credential {
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
    /// Applies the fields in `body`, which is polled after the credential was checked, outside
    /// [`DEADLINE`](super::DEADLINE).
    ///
    /// Concurrent updates of different fields both take effect. After [`ServiceError::Store`] or
    /// [`ServiceError::DeadlinePassed`] the outcome is unknown.
    pub async fn update(
        &self,
        client: Client,
        slug: &str,
        credential: &Credential,
        body: impl Future<Output = Body<PageFields>>,
        precondition: &Precondition,
    ) -> Limited<Arc<Page>> {
        match Slug::parse(slug) {
            Ok(slug) => {
                // On the heap: the future is large, inside many others.
                let editing = Box::pin(self.edit(&slug, credential, body, precondition));
                self.admit(LimitKind::Edit, client, editing).await
            }
            Err(_) => Limited::rejected_before_limit(ServiceError::NotFound),
        }
    }

    async fn edit(
        &self,
        slug: &Slug,
        credential: &Credential,
        body: impl Future<Output = Body<PageFields>>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let mut body = pin!(body);
        let mut ends = deadline();
        let mut opened = until(ends, self.opened(slug, credential, ends)).await?;
        let body = if let Some(body) = body.as_mut().now_or_never() {
            body
        } else {
            // The client waits for `100 Continue` before its body. The page may change meanwhile, so its head is read
            // again.
            drop(opened);
            let body = body.await;
            ends = deadline();
            opened = until(ends, self.opened(slug, credential, ends)).await?;
            body
        };
        until(ends, self.apply(opened, credential, body, precondition)).await
    }

    /// Replaces the page by a tombstone, so that its slug is never used again.
    ///
    /// A delete has no fields; `body` is the error of a request that has some.
    ///
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may or may not have been deleted.
    pub async fn delete(
        &self,
        client: Client,
        slug: &str,
        credential: &Credential,
        body: Body<()>,
        precondition: &Precondition,
    ) -> Limited<()> {
        match Slug::parse(slug) {
            Ok(slug) => {
                let deadline = deadline();
                let deletion = self.delete_page(&slug, credential, body, precondition, deadline);
                self.admit(LimitKind::Edit, client, until(deadline, deletion)).await
            }
            Err(_) => Limited::rejected_before_limit(ServiceError::NotFound),
        }
    }

    async fn delete_page(
        &self,
        slug: &Slug,
        credential: &Credential,
        body: Body<()>,
        precondition: &Precondition,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let mut store_budget = StoreBudget::new(deadline);
        let mut head = self.existing_head(slug, &mut store_budget).await?;
        credential.open(head.key_hash)?;
        body?;
        loop {
            precondition.check(head.state())?;
            let tombstone = head.tombstone(self.clock.now());
            let needed_by = Some(store_budget.needed_by());
            let swapped = self.store.put(Expected::Version(head.version), Record::Deleted(tombstone), needed_by);
            match store_budget.wait(swapped).await? {
                PutResult::Done => {
                    self.pages.drop_page(slug);
                    return Ok(());
                }
                // Another request changed or deleted the page between the read and the write.
                PutResult::Refused => back_off(&self.random).await,
            }
            store_budget.renew();
            head = self.existing_head(slug, &mut store_budget).await?;
        }
    }

    /// The head of the page under `slug`, if `credential` is its key.
    async fn opened(&self, slug: &Slug, credential: &Credential, deadline: Instant) -> Result<Opened, ServiceError> {
        let mut store_budget = StoreBudget::new(deadline);
        let head = self.existing_head(slug, &mut store_budget).await?;
        credential.open(head.key_hash)?;
        Ok(Opened { head, store_budget })
    }

    async fn apply(
        &self,
        opened: Opened,
        credential: &Credential,
        body: Body<PageFields>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let Opened { mut head, mut store_budget } = opened;
        let key = credential.open(head.key_hash)?;
        let update = body?.check_update(key)?;
        let rendered = match &update.text {
            TextUpdate::Replace(content) => Some(self.publishable(content, Some(key)).await?),
            TextUpdate::Keep | TextUpdate::Edit(_) => None,
        };
        let edit = Edit { update, rendered, key, precondition };
        edit.check_state(head.state())?;
        if edit.update.is_empty() {
            let (page, _permit) = self.page_with_permit(&head.slug, &mut store_budget).await?;
            edit.check_state(page.head.state())?;
            return self.current(page).await;
        }
        let slug = head.slug.clone();
        loop {
            let (expected, next, _permit) = self.next(head, &edit, &mut store_budget).await?;
            let next = Arc::new(next);
            let record = Record::Active(Arc::clone(&next));
            let swapped = self.store.put(Expected::Version(expected), record, Some(store_budget.needed_by()));
            match store_budget.wait(swapped).await? {
                PutResult::Done => return Ok(next),
                // Another request changed or deleted the page between the read and the write.
                PutResult::Refused => back_off(&self.random).await,
            }
            store_budget.renew();
            head = self.existing_head(&slug, &mut store_budget).await?;
        }
    }

    /// Also returns the memory of a large page that was read.
    async fn next(
        &self,
        head: PageHead,
        edit: &Edit<'_>,
        store_budget: &mut StoreBudget,
    ) -> Result<(PageVersion, Page, ReadPermit), ServiceError> {
        let Edit { update, rendered, .. } = edit;
        edit.check_state(head.state())?;
        if let (TextUpdate::Replace(content), Some(Made { rendered, .. })) = (&update.text, rendered) {
            let version = head.version;
            let head = head.updated(update.head.clone(), self.clock.now());
            return Ok((version, Page::new(head, content.clone(), rendered.clone()), ReadPermit::default()));
        }
        let (page, permit) = self.page_with_permit(&head.slug, store_budget).await?;
        edit.check_state(page.head.state())?;
        let version = page.head.version;
        let (next, permit) = self.with_parts_replaced(page, permit, edit).await?;
        Ok((version, next, permit))
    }

    /// The page under `slug`, and the memory for it and for a page that is made of it.
    async fn page_with_permit(
        &self,
        slug: &Slug,
        store_budget: &mut StoreBudget,
    ) -> Result<(Arc<Page>, ReadPermit), ServiceError> {
        let page = self.existing(slug, store_budget).await?;
        match self.large_reads.try_acquire(&page) {
            Ok(permit) => Ok((page, permit)),
            Err(needed) => {
                drop(page);
                let permit = self.large_reads.acquire(needed).await?;
                Ok((self.existing(slug, store_budget).await?, permit))
            }
        }
    }

    async fn with_parts_replaced(
        &self,
        page: Arc<Page>,
        permit: ReadPermit,
        edit: &Edit<'_>,
    ) -> Result<(Page, ReadPermit), ServiceError> {
        let Edit { update, key, .. } = edit;
        let changes = update.head.clone();
        let TextUpdate::Edit(edits) = &update.text else {
            // Also stores HTML of the newest renderer.
            let Page { head, text } = Arc::unwrap_or_clone(self.current(page).await?);
            return Ok((Page { head: head.updated(changes, self.clock.now()), text }, permit));
        };
        let text = text_edits::apply(page.text.content.as_str(), edits).map_err(BodyError::Edit)?;
        let content = Content::parse(text).map_err(BodyError::Content)?;
        check_text(key, "content", content.as_str())?;
        let head = page.head.clone();
        drop((page, permit));
        let Made { rendered, .. } = self.publishable(&content, Some(key)).await?;
        Ok((Page::new(head.updated(changes, self.clock.now()), content, rendered), ReadPermit::default()))
    }

    /// The caller has looked for `key` in `content`.
    async fn publishable(&self, content: &Content, key: Option<&EditKey>) -> Result<Made, ServiceError> {
        let made = self.rendered(content, key).await?;
        self.check_made(&made)?;
        Ok(made)
    }

    pub(super) async fn rendered(&self, content: &Content, key: Option<&EditKey>) -> Result<Made, ServiceError> {
        let checks = Checks { refuses: self.policy.refuses()?, key: key.cloned() };
        Ok(self.render(content, Purpose::Write, checks).await?)
    }

    pub(super) fn check_made(&self, made: &Made) -> Result<(), ServiceError> {
        if made.shows_key {
            return Err(BodyError::HoldsKey("content").into());
        }
        self.policy.check_content(made)
    }
}
