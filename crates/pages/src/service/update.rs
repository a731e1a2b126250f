//! Changing a page's title or content, and deleting a page for ever.

use std::sync::Arc;

use tokio::time::Instant;

use super::error::{BodyError, ServiceError};
use super::request::{Body, Credential, LateBody, PageFields, PageUpdate, Precondition, TextUpdate, check_text};
use super::time_limits::{StoreBudget, back_off, deadline, until};
use super::{Limited, PageService, read::ReadPermit};
use crate::ports::page_store::{Expected, PutResult};
use crate::ports::{rate_limiter::LimitKind, renderer::RenderOutcome};
use crate::values::head::{PageHead, PageState};
use crate::values::{
    client::Client, content::Content, edit_key::EditKey, page::Page, record::Record, slug::Slug, text_edits,
};

struct Authorized {
    head: PageHead,
    store_budget: StoreBudget,
}

struct UpdateRequest<'a> {
    update: PageUpdate,
    /// Only for a whole new text.
    rendered: Option<RenderOutcome>,
    key: &'a EditKey,
    precondition: &'a Precondition,
}

impl UpdateRequest<'_> {
    fn check_state(&self, state: PageState) -> Result<(), ServiceError> {
        self.precondition.check(state)?;
        self.update.check_state(state)
    }
}

impl PageService {
    /// Waits for `body` outside of [`DEADLINE`](super::DEADLINE).
    ///
    /// Concurrent updates of different fields both take effect. After [`ServiceError::Store`] or
    /// [`ServiceError::DeadlinePassed`] the outcome is unknown.
    pub async fn update(
        &self,
        client: Client,
        slug: &str,
        credential: &Credential,
        body: LateBody<impl Future<Output = Body<PageFields>>>,
        precondition: &Precondition,
    ) -> Limited<Arc<Page>> {
        match Slug::parse(slug) {
            Ok(slug) => {
                // On the heap: the future is large.
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
        body: LateBody<impl Future<Output = Body<PageFields>>>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let mut ends = deadline();
        let mut authorized = until(ends, self.authorized(slug, credential, ends)).await?;
        let fields = body.fields.await;
        if body.is_awaited {
            // The page may have changed meanwhile.
            ends = deadline();
            authorized = until(ends, self.authorized(slug, credential, ends)).await?;
        }
        until(ends, self.apply(authorized, credential, fields, precondition)).await
    }

    /// `body` is the error of a tool's arguments.
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
        let Authorized { mut head, mut store_budget } = self.authorized(slug, credential, deadline).await?;
        body?;
        let turn = self.turns.take(slug).await;
        if turn.has_waited {
            head = self.existing_head(slug, &mut store_budget).await?;
        }
        loop {
            precondition.check(head.state())?;
            let tombstone = head.tombstone(self.clock.now());
            let needed_by = Some(store_budget.needed_by());
            let swapped = self.store.put(Expected::page(&head), Record::Deleted(tombstone), needed_by);
            match store_budget.wait(swapped).await? {
                PutResult::Done => return Ok(()),
                PutResult::Refused => back_off(&self.random).await,
            }
            store_budget.renew();
            head = self.existing_head(slug, &mut store_budget).await?;
        }
    }

    async fn authorized(
        &self,
        slug: &Slug,
        credential: &Credential,
        deadline: Instant,
    ) -> Result<Authorized, ServiceError> {
        let mut store_budget = StoreBudget::new(deadline);
        let head = self.existing_head(slug, &mut store_budget).await?;
        credential.open(head.state.key_hash)?;
        Ok(Authorized { head, store_budget })
    }

    async fn apply(
        &self,
        authorized: Authorized,
        credential: &Credential,
        body: Body<PageFields>,
        precondition: &Precondition,
    ) -> Result<Arc<Page>, ServiceError> {
        let Authorized { mut head, mut store_budget } = authorized;
        let key = credential.open(head.state.key_hash)?;
        let update = body?.check_update(key)?;
        let rendered = match &update.text {
            TextUpdate::Replace(content) => Some(self.publishable(content, key).await?),
            TextUpdate::Keep | TextUpdate::Edit(_) => None,
        };
        let request = UpdateRequest { update, rendered, key, precondition };
        request.check_state(head.state())?;
        if request.update.is_empty() {
            let page = self.existing(&head.slug, &mut store_budget).await?;
            let (page, _permit) = self.with_permit(page, &mut store_budget).await?;
            request.check_state(page.head.state())?;
            return self.current(page).await;
        }
        let slug = head.slug.clone();
        let turn = self.turns.take(&slug).await;
        if turn.has_waited {
            head = self.existing_head(&slug, &mut store_budget).await?;
        }
        loop {
            let (expected, next, _permit) = self.next(head, &request, &mut store_budget).await?;
            let next = Arc::new(next);
            let record = Record::Active(Arc::clone(&next));
            let swapped = self.store.put(expected, record, Some(store_budget.needed_by()));
            match store_budget.wait(swapped).await? {
                PutResult::Done => return Ok(next),
                PutResult::Refused => back_off(&self.random).await,
            }
            store_budget.renew();
            head = self.existing_head(&slug, &mut store_budget).await?;
        }
    }

    /// The state that the write replaces, the next one, and the memory of a large page that was read.
    async fn next(
        &self,
        head: PageHead,
        request: &UpdateRequest<'_>,
        store_budget: &mut StoreBudget,
    ) -> Result<(Expected, Page, ReadPermit), ServiceError> {
        let UpdateRequest { update, rendered, key, .. } = request;
        request.check_state(head.state())?;
        if let (TextUpdate::Replace(content), Some(RenderOutcome { rendered, .. })) = (&update.text, rendered) {
            let expected = Expected::page(&head);
            let head = head.updated(&update.details, self.clock.now());
            return Ok((expected, Page::new(head, content.clone(), rendered.clone()), ReadPermit::default()));
        }
        let page = self.existing(&head.slug, store_budget).await?;
        let (page, permit) = self.with_permit(page, store_budget).await?;
        request.check_state(page.head.state())?;
        let expected = Expected::page(&page.head);
        let TextUpdate::Edit(edits) = &update.text else {
            // Also stores HTML of the newest renderer.
            let Page { head, text } = Arc::unwrap_or_clone(self.current(page).await?);
            let head = head.updated(&update.details, self.clock.now());
            return Ok((expected, Page { head, text }, permit));
        };
        let text = text_edits::apply(page.text.content.as_str(), edits).map_err(BodyError::Edit)?;
        let content = Content::parse(text).map_err(BodyError::Content)?;
        check_text(key, "content", content.as_str())?;
        let head = page.head.clone();
        drop((page, permit));
        let RenderOutcome { rendered, .. } = self.publishable(&content, key).await?;
        let head = head.updated(&update.details, self.clock.now());
        Ok((expected, Page::new(head, content, rendered), ReadPermit::default()))
    }

    /// The caller has looked for `key` in `content`.
    async fn publishable(&self, content: &Content, key: &EditKey) -> Result<RenderOutcome, ServiceError> {
        let made = self.rendered(content, Some(key)).await?;
        self.check_made(&made)?;
        Ok(made)
    }
}
