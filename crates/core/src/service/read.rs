//! Reading a page.
//!
//! Every answer rests on a read of the store that began after the request, or on a state that the store knows to be
//! current. A store that keeps texts apart is asked for the page's head first. The head alone answers that there is no
//! page, or that the caller has it already. Otherwise the page of that state is taken from the cache, and from the store
//! only if the cache does not have it.

use std::convert::Infallible;
use std::sync::Arc;

use super::error::ServiceError;
use super::page_cache::PageRead;
use super::read_budget::LARGE_BYTES;
use super::{PageService, StoreBudget, active, deadline, until};
use crate::domain::markdown::RENDERER_VERSION;
use crate::domain::page::{Page, PageHead};
use crate::domain::slug::Slug;
use crate::ports::page_store::Access;

/// The result of a read whose caller may need only the page's head.
pub enum Reading<T> {
    /// The value that the caller has made of the head.
    Unchanged(T),
    Page(PageRead),
}

/// The record under a slug, as far as it was read.
enum Found<T> {
    Answered(Reading<T>),
    Page(Arc<Page>),
}

impl PageService {
    /// The page under `slug`, if it is ready and known to be current, or small and in the store's memory. This neither waits
    /// nor asks another thread; `None` says nothing about the page.
    pub fn read_now(&self, slug: &Slug) -> Option<Result<PageRead, ServiceError>> {
        let reads = self.store.access().now()?;
        if let Some(ready) = reads.known_state(slug).and_then(|state| self.pages.get(slug, state)) {
            ready.count_hit();
            return Some(Ok(ready));
        }
        let page = match active(reads.lookup_now(slug, LARGE_BYTES)?) {
            Ok(page) => page,
            Err(error) => return Some(Err(error)),
        };
        let permit = self.large_reads.try_acquire(&page).ok()?;
        (page.head.renderer_version >= RENDERER_VERSION).then(|| Ok(self.pages.keep(page, permit)))
    }

    /// The page under `slug`, with HTML from this version of the renderer or a newer one. [`ServiceError::Overloaded`]
    /// means that too many large pages are being read.
    /// This asks the store, for a caller whom [`PageService::read_now`] has not answered.
    pub async fn read(&self, slug: &Slug) -> Result<PageRead, ServiceError> {
        match self.read_unless(slug, |_| None::<Infallible>).await? {
            Reading::Page(page) => Ok(page),
            Reading::Unchanged(never) => match never {},
        }
    }

    /// The page under `slug` as [`PageService::read`] returns it, or the value that `unchanged` makes of the page's
    /// head. `unchanged` is called only if that saves a read of the text, and only if the page would be returned with
    /// this head.
    pub async fn read_unless<T>(
        &self,
        slug: &Slug,
        unchanged: impl FnOnce(&PageHead) -> Option<T>,
    ) -> Result<Reading<T>, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            let mut store_budget = StoreBudget::new(deadline);
            let mut page = match self.find(slug, unchanged, &mut store_budget).await? {
                Found::Answered(reading) => return Ok(reading),
                Found::Page(page) => page,
            };
            let permit = match self.large_reads.try_acquire(&page) {
                Ok(permit) => permit,
                Err(needed) => {
                    drop(page);
                    let permit = self.large_reads.acquire(needed).await?;
                    page = self.looked_up(slug, &mut store_budget).await?;
                    permit
                }
            };
            Ok(Reading::Page(self.pages.keep(self.rendering.current(page).await, permit)))
        })
        .await
    }

    async fn find<T>(
        &self,
        slug: &Slug,
        unchanged: impl FnOnce(&PageHead) -> Option<T>,
        store_budget: &mut StoreBudget,
    ) -> Result<Found<T>, ServiceError> {
        match self.store.access() {
            Access::Whole | Access::AtOnce(_) => return Ok(Found::Page(self.looked_up(slug, store_budget).await?)),
            Access::HeadFirst => {}
        }
        let head = self.existing_head(slug, store_budget).await?;
        if let Some(ready) = self.pages.get(slug, head.state()) {
            ready.count_hit();
            return Ok(Found::Answered(Reading::Page(ready)));
        }
        // A page that is rendered again may have other links than its head says.
        if head.renderer_version >= RENDERER_VERSION
            && let Some(answer) = unchanged(&head)
        {
            return Ok(Found::Answered(Reading::Unchanged(answer)));
        }
        Ok(Found::Page(self.page_of(head, store_budget).await?))
    }
}
