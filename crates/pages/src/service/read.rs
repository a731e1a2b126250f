//! Reading a page.
//!
//! An answer rests on a store's read that began after the request, or on an entry that the store knows to be current.
//! If the cache or the caller has the page in some state, its head is read first. Else the whole page is read at once.

use std::sync::Arc;

use super::error::ServiceError;
use super::page_cache::{Kept, PageCache, PageRead};
use super::{PageService, StoreBudget, deadline, until};
use crate::ports::renderer::{Checks, Made, Purpose};
use crate::values::markdown::RENDERER_VERSION;
use crate::values::page::{Page, PageHead};
use crate::values::slug::Slug;

pub struct FoundPage {
    pub kept: Option<Arc<Kept>>,
    record: FoundRecord,
    mark: Option<u64>,
    store_budget: StoreBudget,
}

enum FoundRecord {
    Head(PageHead),
    Page(Arc<Page>),
}

impl FoundPage {
    /// `None` if the page was read, or must be rendered again.
    pub fn head(&self) -> Option<&PageHead> {
        match &self.record {
            FoundRecord::Head(head) if is_current(head) => Some(head),
            FoundRecord::Head(_) | FoundRecord::Page(_) => None,
        }
    }
}

impl FoundRecord {
    fn head(&self) -> &PageHead {
        match self {
            Self::Head(head) => head,
            Self::Page(page) => &page.head,
        }
    }
}

impl PageService {
    /// Only if known to be current without the store. `None` says nothing about the page.
    pub fn kept(&self, slug: &Slug) -> Option<Arc<Kept>> {
        self.pages.current(slug, self.store.mark(slug)?)
    }

    /// Reads no more than is needed to know the state. `is_held`: the caller has the page in some state.
    pub async fn find(&self, slug: &Slug, is_held: bool) -> Result<FoundPage, ServiceError> {
        let (deadline, mark) = (deadline(), self.store.mark(slug));
        let mut store_budget = StoreBudget::new(deadline);
        let record = until(deadline, async {
            Ok(if mark.is_none() && (is_held || self.pages.has(slug)) {
                FoundRecord::Head(self.existing_head(slug, &mut store_budget).await?)
            } else {
                FoundRecord::Page(self.existing(slug, &mut store_budget).await?)
            })
        });
        let record = record.await?;
        let kept = self.pages.get(slug, record.head().state());
        let kept = kept.map(|kept| self.pages.renew(slug, kept, mark));
        Ok(FoundPage { kept, record, mark, store_budget })
    }

    /// With HTML of this renderer or a newer one. [`ServiceError::Overloaded`] means that too many large pages are
    /// being read.
    pub async fn load(&self, found: FoundPage) -> Result<PageRead, ServiceError> {
        if let Some(page) = found.kept.as_ref().and_then(|kept| kept.page()) {
            self.pages.count_hit();
            return Ok(page);
        }
        let FoundPage { record, mut mark, mut store_budget, .. } = found;
        until(store_budget.deadline, async {
            let mut page = match record {
                FoundRecord::Page(page) => page,
                FoundRecord::Head(head) => self.page_of(head, &mut store_budget).await?,
            };
            let permit = match self.large_reads.try_acquire(&page) {
                Ok(permit) => permit,
                Err(needed) => {
                    let slug = page.head.slug.clone();
                    drop(page);
                    let permit = self.large_reads.acquire(needed).await?;
                    mark = self.store.mark(&slug);
                    page = self.existing(&slug, &mut store_budget).await?;
                    permit
                }
            };
            // A later read would ask for the text, or render it, again.
            let keep_page = !is_current(&page.head) || mark.is_none();
            let page = self.current(page).await?;
            self.pages.metrics.misses.inc();
            Ok(PageRead { page, mark, keep_page, _permit: permit })
        })
        .await
    }

    pub async fn read(&self, slug: &Slug) -> Result<PageRead, ServiceError> {
        self.load(self.find(slug, false).await?).await
    }

    pub fn cache(&self) -> &PageCache {
        &self.pages
    }

    /// Renders old HTML again. Only the cache keeps the result.
    pub(super) async fn current(&self, page: Arc<Page>) -> Result<Arc<Page>, ServiceError> {
        if is_current(&page.head) {
            return Ok(page);
        }
        if let Some(kept) = self.pages.get(&page.head.slug, page.head.state()).and_then(|kept| kept.page()) {
            return Ok(kept.page);
        }
        let content = &page.text.content;
        let Made { rendered, .. } = self.render(content, Purpose::Upkeep, Checks::default()).await?;
        Ok(Arc::new(Page::new(page.head.clone(), content.clone(), rendered)))
    }
}

fn is_current(head: &PageHead) -> bool {
    head.renderer_version >= RENDERER_VERSION
}
