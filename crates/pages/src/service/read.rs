//! Reading a page. An answer rests on a store's read that began after the request.

use std::{ops::Deref, sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::time_limits::{StoreBudget, deadline, until};
use super::{PageService, error::ServiceError};
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

    /// Renders old HTML again. The store keeps the old one until the page is changed.
    pub(super) async fn current(&self, page: Arc<Page>) -> Result<Arc<Page>, ServiceError> {
        if is_current(&page.head) {
            return Ok(page);
        }
        let content = &page.text.content;
        let RenderOutcome { rendered, .. } =
            self.renderer.render(content, Purpose::Upkeep, ContentChecks::default()).await?;
        Ok(Arc::new(Page::new(page.head.clone(), content.clone(), rendered)))
    }
}

/// Whether the HTML, and what the head says of it, is of this version of the renderer or a newer one.
pub fn is_current(head: &PageHead) -> bool {
    head.state.renderer_version >= RENDERER_VERSION
}

/// A page with more bytes of source and HTML is large.
pub(super) const LARGE_PAGE_BYTES: usize = 64 * 1024;

const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The memory for large pages in use. Each counts twice, because a response or a changed page is made from it.
///
/// A page's size is only known after the lookup. If no memory is left for it, the request drops the page, waits for a
/// permit and looks the page up again. Small pages never wait, and nearly all pages are small.
#[derive(Clone)]
pub(super) struct ReadBudget {
    free: Arc<Semaphore>,
    most_bytes: usize,
}

#[derive(Default)]
pub(super) struct ReadPermit(
    #[expect(dead_code, reason = "it is held until it is dropped")] Option<OwnedSemaphorePermit>,
);

impl ReadBudget {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most_bytes)), most_bytes }
    }

    /// A permit for `page`, if the page is small or there is memory for it now.
    pub(super) fn try_acquire(&self, page: &Page) -> Result<ReadPermit, NeededBytes> {
        if !is_large(page) {
            return Ok(ReadPermit::default());
        }
        let bytes = text_bytes(page);
        let bytes = u32::try_from((2 * bytes).min(self.most_bytes)).unwrap_or(u32::MAX);
        Arc::clone(&self.free)
            .try_acquire_many_owned(bytes)
            .map(|permit| ReadPermit(Some(permit)))
            .map_err(|_| NeededBytes(bytes))
    }

    /// Waits for a permit. The caller must not hold the page meanwhile.
    pub(super) async fn acquire(&self, NeededBytes(bytes): NeededBytes) -> Result<ReadPermit, ServiceError> {
        match timeout(PERMIT_TIMEOUT, Arc::clone(&self.free).acquire_many_owned(bytes)).await {
            Ok(permit) => Ok(ReadPermit(Some(permit.expect("the semaphore is never closed")))),
            Err(_) => Err(ServiceError::Overloaded),
        }
    }
}

pub(super) fn is_large(page: &Page) -> bool {
    text_bytes(page) > LARGE_PAGE_BYTES
}

fn text_bytes(page: &Page) -> usize {
    page.text.content.as_str().len() + page.text.html.len()
}

pub(super) struct NeededBytes(u32);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use crate::values::content::Content;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKey;
    use crate::values::markdown::Rendered;
    use crate::values::timestamp::UnixMillis;
    use crate::values::title::Title;

    const MAX_BYTES: usize = 8 * 1024 * 1024;

    fn page(html_bytes: usize) -> Page {
        let (slug, title) = (Slug::parse("a-page-22222222").unwrap(), Title::parse("A page").unwrap());
        let head = PageHead::first(slug, Details::with_title(title), EditKey::random(|_| 0).hash(), UnixMillis::new(1));
        let rendered = Rendered { html: "a".repeat(html_bytes), renderer_version: 1, ..Rendered::default() };
        Page::new(head, Content::parse("a".to_owned()).unwrap(), rendered)
    }

    /// Takes permits until there is no memory left.
    fn acquire_all(reads: &ReadBudget, page: &Page) -> (Vec<ReadPermit>, NeededBytes) {
        let mut permits = Vec::new();
        loop {
            match reads.try_acquire(page) {
                Ok(permit) => permits.push(permit),
                Err(needed) => return (permits, needed),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_pages_in_memory_are_bounded_and_small_ones_never_wait() {
        let (reads, large, small) = (ReadBudget::new(MAX_BYTES), page(1_000_000), page(LARGE_PAGE_BYTES - 1));
        let (permits, needed) = acquire_all(&reads, &large);
        assert_eq!(permits.len(), MAX_BYTES / 2_000_002);
        assert!(reads.acquire(needed).now_or_never().is_none());
        for _ in 0..10_000 {
            assert!(reads.try_acquire(&small).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_page_gets_its_turn_when_another_was_answered() {
        let (reads, large) = (ReadBudget::new(MAX_BYTES), page(1_000_000));
        let (mut permits, needed) = acquire_all(&reads, &large);
        let waiting = tokio::spawn({
            let reads = reads.clone();
            async move { reads.acquire(needed).await.is_ok() }
        });
        tokio::task::yield_now().await;
        permits.pop();
        assert!(waiting.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_without_a_permit_is_refused_and_leaves_nothing() {
        let (reads, large) = (ReadBudget::new(MAX_BYTES), page(1_000_000));
        let (permits, _) = acquire_all(&reads, &large);
        let waiting = (0..400).map(|_| async { reads.acquire(NeededBytes(2_000_002)).await });
        assert!(join_all(waiting).await.into_iter().all(|permit| matches!(permit, Err(ServiceError::Overloaded))));
        drop(permits);
        assert_eq!(acquire_all(&reads, &large).0.len(), MAX_BYTES / 2_000_002);
    }

    #[tokio::test]
    async fn a_page_of_any_size_has_a_turn() {
        assert!(ReadBudget::new(MAX_BYTES).try_acquire(&page(2 * MAX_BYTES)).is_ok());
    }
}
