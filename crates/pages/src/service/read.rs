//! Reading a page.
//!
//! An answer rests on a store's read that began after the request, or on the cache if the store tells of each change.
//! If the cache or the caller has the page in some state, its head is read first. Else the whole page is read at once.

use std::sync::Arc;

use super::PageService;
use super::error::ServiceError;
use super::large_reads::ReadPermit;
use super::page_cache::{CacheSlot, CachedPage, PageCache, PageRead};
use super::time_limits::{StoreBudget, deadline, until};
use crate::ports::renderer::{ContentChecks, Purpose, RenderOutcome};
use crate::values::head::PageHead;
use crate::values::markdown::RENDERER_VERSION;
use crate::values::page::Page;
use crate::values::slug::Slug;

/// A page that can be read, as far as the store was asked.
pub struct FoundPage<'a> {
    pub cached: Option<Arc<CachedPage>>,
    head: PageHead,
    /// `None` if only the head was read.
    page: Option<Arc<Page>>,
    slot: Option<CacheSlot<'a>>,
    store_budget: StoreBudget,
}

impl FoundPage<'_> {
    /// If only that was read. A page that must be rendered again may have other links than its head says.
    pub fn head(&self) -> Option<&PageHead> {
        Some(&self.head).filter(|head| self.page.is_none() && is_current(head))
    }
}

impl PageService {
    /// Only if known to be current without the store. `None` says nothing about the page.
    pub fn cached(&self, slug: &Slug) -> Option<Arc<CachedPage>> {
        self.parts.pages.current(slug)
    }

    /// Reads no more than is needed to know the state. `is_held`: the caller has the page in some state.
    pub async fn find(&self, slug: &Slug, is_held: bool) -> Result<FoundPage<'_>, ServiceError> {
        let deadline = deadline();
        let (cached, slot) = self.parts.pages.entry_or_slot(slug);
        let mut store_budget = StoreBudget::new(deadline);
        let found = until(deadline, async {
            Ok(if !self.parts.pages.is_coherent && (is_held || cached.is_some()) {
                (self.existing_head(slug, &mut store_budget).await?, None)
            } else {
                let page = self.existing(slug, &mut store_budget).await?;
                (page.head.clone(), Some(page))
            })
        });
        let (head, page) = found.await?;
        let cached = cached.filter(|cached| cached.state == head.state());
        Ok(FoundPage { cached, head, page, slot, store_budget })
    }

    /// The whole page, with HTML from this version of the renderer or a newer one.
    pub async fn load<'a>(&'a self, found: FoundPage<'a>) -> Result<PageRead<'a>, ServiceError> {
        if let Some(page) = found.cached.as_ref().and_then(|cached| cached.page()) {
            self.parts.pages.count_hit();
            return Ok(page);
        }
        let FoundPage { head, page, slot, mut store_budget, .. } = found;
        until(store_budget.deadline, async {
            let page = match page {
                Some(page) => page,
                None => self.existing(&head.slug, &mut store_budget).await?,
            };
            let (page, permit) = self.with_permit(page, &mut store_budget).await?;
            // A later read would ask for the text, or render it, again.
            let keep_page = !is_current(&page.head) || !self.parts.pages.is_coherent;
            let page = self.current(page).await?;
            self.parts.pages.metrics.misses.inc();
            Ok(PageRead { page, slot, keep_page, _permit: permit })
        })
        .await
    }

    pub async fn read(&self, slug: &Slug) -> Result<PageRead<'_>, ServiceError> {
        self.load(self.find(slug, false).await?).await
    }

    pub(super) async fn with_permit(
        &self,
        page: Arc<Page>,
        store_budget: &mut StoreBudget,
    ) -> Result<(Arc<Page>, ReadPermit), ServiceError> {
        match self.large_reads.try_acquire(&page) {
            Ok(permit) => Ok((page, permit)),
            Err(needed) => {
                let slug = page.head.slug.clone();
                drop(page);
                let permit = self.large_reads.acquire(needed).await?;
                Ok((self.existing(&slug, store_budget).await?, permit))
            }
        }
    }

    pub fn cache(&self) -> &PageCache {
        &self.parts.pages
    }

    /// Renders old HTML again. Only the cache keeps the result.
    pub(super) async fn current(&self, page: Arc<Page>) -> Result<Arc<Page>, ServiceError> {
        if is_current(&page.head) {
            return Ok(page);
        }
        let cached = self.parts.pages.get(&page.head.slug, page.head.state()).and_then(|cached| cached.page());
        // Of a page that was hidden and shown meanwhile the cache has an earlier head.
        if let Some(cached) = cached.filter(|cached| cached.page.head.changed_at == page.head.changed_at) {
            return Ok(cached.page);
        }
        let content = &page.text.content;
        let RenderOutcome { rendered, .. } = self.render(content, Purpose::Upkeep, ContentChecks::default()).await?;
        Ok(Arc::new(Page::new(page.head.clone(), content.clone(), rendered)))
    }
}

fn is_current(head: &PageHead) -> bool {
    head.state.renderer_version >= RENDERER_VERSION
}
