//! Reading a page.
//!
//! Every answer rests on a read of the store that began after the request, or on what is kept of a page that the store knows to be
//! unchanged since. A store that keeps texts apart is asked for the page's head first. The head alone answers that there is no
//! page, or that the caller has it already. Otherwise the answer is made of what the cache keeps of that state, and the store
//! is asked for the page only if that is not enough.

use std::sync::Arc;

use super::error::ServiceError;
use super::page_cache::{Kept, PageCache, PageRead};
use super::{PageService, StoreBudget, deadline, until};
use crate::ports::page_store::Access;
use crate::ports::renderer::{Checks, Made, Purpose};
use crate::values::markdown::RENDERER_VERSION;
use crate::values::page::{Page, PageHead};
use crate::values::slug::Slug;

/// A page that can be read, as far as the store was asked.
pub struct FoundPage {
    /// What is kept of it in its present state.
    pub kept: Option<Arc<Kept>>,
    record: Record,
    mark: Option<u64>,
    store_budget: StoreBudget,
}

enum Record {
    Head(PageHead),
    Page(Arc<Page>),
}

impl FoundPage {
    /// The page's head, if only that was read. A page that must be rendered again may have other links than its head says.
    pub fn head(&self) -> Option<&PageHead> {
        match &self.record {
            Record::Head(head) if is_current(head) => Some(head),
            Record::Head(_) | Record::Page(_) => None,
        }
    }
}

impl Record {
    fn head(&self) -> &PageHead {
        match self {
            Self::Head(head) => head,
            Self::Page(page) => &page.head,
        }
    }
}

impl PageService {
    /// What is kept of the page under `slug`, if it is known to be current without asking the store. `None` says nothing about
    /// the page.
    pub fn kept(&self, slug: &Slug) -> Option<Arc<Kept>> {
        self.pages.current(slug, self.store.mark(slug)?)
    }

    /// Asks the store for the page under `slug`, as far as that is needed to know its state.
    pub async fn find(&self, slug: &Slug) -> Result<FoundPage, ServiceError> {
        let (deadline, mark) = (deadline(), self.store.mark(slug));
        let mut store_budget = StoreBudget::new(deadline);
        let record = until(deadline, async {
            Ok(match self.store.access() {
                Access::Whole => Record::Page(self.existing(slug, &mut store_budget).await?),
                Access::HeadFirst => Record::Head(self.existing_head(slug, &mut store_budget).await?),
            })
        });
        let record = record.await?;
        let kept = self.pages.get(slug, record.head().state());
        let kept = kept.map(|kept| self.pages.renew(slug, kept, mark));
        Ok(FoundPage { kept, record, mark, store_budget })
    }

    /// The whole page that was found, with HTML from this version of the renderer or a newer one.
    /// [`ServiceError::Overloaded`] means that too many large pages are being read.
    pub async fn load(&self, found: FoundPage) -> Result<PageRead, ServiceError> {
        if let Some(page) = found.kept.as_ref().and_then(|kept| kept.page()) {
            self.pages.count_hit();
            return Ok(page);
        }
        let FoundPage { record, mut mark, mut store_budget, .. } = found;
        until(store_budget.deadline, async {
            let mut page = match record {
                Record::Page(page) => page,
                Record::Head(head) => self.page_of(head, &mut store_budget).await?,
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
            // The store would have to be asked again for the text, or the text rendered again.
            let keep_page = !is_current(&page.head) || self.store.access() == Access::HeadFirst;
            let page = self.current(page).await?;
            self.pages.metrics.misses.inc();
            Ok(PageRead { page, mark, keep_page, _permit: permit })
        })
        .await
    }

    /// The page under `slug`, as [`PageService::load`] returns it.
    pub async fn read(&self, slug: &Slug) -> Result<PageRead, ServiceError> {
        self.load(self.find(slug).await?).await
    }

    /// What is kept of pages.
    pub fn cache(&self) -> &PageCache {
        &self.pages
    }

    /// `page`, rendered again if an older renderer made its HTML. The cache has such a page as long as it is read; the
    /// store keeps the older HTML.
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

/// Whether the newest renderer made the HTML of the page.
fn is_current(head: &PageHead) -> bool {
    head.renderer_version >= RENDERER_VERSION
}
