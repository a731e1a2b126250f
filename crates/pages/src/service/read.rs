//! Reading a page. An answer rests on a store's read that began after the request.

use std::{ops::Deref, sync::Arc};

use super::time_limits::{StoreBudget, deadline, until};
use super::{PageService, error::ServiceError, large_reads::ReadPermit};
use crate::ports::renderer::{ContentChecks, Purpose, RenderOutcome};
use crate::values::{head::PageHead, markdown::RENDERER_VERSION, page::Page, slug::Slug};

/// The reads of one page for one request, within its deadline.
pub struct Reading<'a> {
    service: &'a PageService,
    slug: &'a Slug,
    store_budget: StoreBudget,
}

/// A page that was read, with the memory that it holds until the answer is made.
pub struct PageRead {
    page: Arc<Page>,
    _permit: ReadPermit,
}

impl Deref for PageRead {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl Reading<'_> {
    pub async fn head(&mut self) -> Result<PageHead, ServiceError> {
        let Self { service, slug, store_budget } = self;
        until(store_budget.deadline, service.existing_head(slug, store_budget)).await
    }

    /// The whole page, with HTML from this version of the renderer or a newer one.
    pub async fn page(self) -> Result<PageRead, ServiceError> {
        let Self { service, slug, mut store_budget } = self;
        until(store_budget.deadline, async {
            let page = service.existing(slug, &mut store_budget).await?;
            let (page, permit) = service.with_permit(page, &mut store_budget).await?;
            Ok(PageRead { page: service.current(page).await?, _permit: permit })
        })
        .await
    }
}

impl PageService {
    pub fn read<'a>(&'a self, slug: &'a Slug) -> Reading<'a> {
        Reading { service: self, slug, store_budget: StoreBudget::new(deadline()) }
    }

    pub(super) async fn with_permit(
        &self,
        page: Arc<Page>,
        store_budget: &mut StoreBudget,
    ) -> Result<(Arc<Page>, ReadPermit), ServiceError> {
        match self.parts.large_reads.try_acquire(&page) {
            Ok(permit) => Ok((page, permit)),
            Err(needed) => {
                let slug = page.head.slug.clone();
                drop(page);
                let permit = self.parts.large_reads.acquire(needed).await?;
                Ok((self.existing(&slug, store_budget).await?, permit))
            }
        }
    }

    /// Renders old HTML again. The store keeps the old one until the page is changed.
    pub(super) async fn current(&self, page: Arc<Page>) -> Result<Arc<Page>, ServiceError> {
        if is_current(&page.head) {
            return Ok(page);
        }
        let content = &page.text.content;
        let RenderOutcome { rendered, .. } =
            self.parts.renderer.render(content, Purpose::Upkeep, ContentChecks::default()).await?;
        Ok(Arc::new(Page::new(page.head.clone(), content.clone(), rendered)))
    }
}

/// Whether the HTML, and what the head says of it, is of this version of the renderer or a newer one.
pub fn is_current(head: &PageHead) -> bool {
    head.state.renderer_version >= RENDERER_VERSION
}
