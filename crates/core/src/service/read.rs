//! Reading a page.
//!
//! Every answer rests on a read of the store that began after the request, or on what is kept of a page that the store knows to be
//! unchanged since. A store that keeps texts apart is asked for the page's head first. The head alone answers that there is no
//! page, or that the caller has it already. Otherwise the answer is made of what the cache keeps of that state, and the store
//! is asked for the page only if that is not enough.

use std::convert::Infallible;
use std::sync::Arc;

use super::error::ServiceError;
use super::page_cache::{Kept, PageRead};
use super::{PageService, StoreBudget, deadline, until};
use crate::domain::markdown::RENDERER_VERSION;
use crate::domain::page::{Page, PageHead, PageState};
use crate::domain::slug::Slug;
use crate::ports::page_store::Access;
use crate::ports::renderer::{Checks, Made, Purpose};

/// The result of a read whose caller may not need the page.
pub enum Reading<T> {
    /// The value that the caller has made of what is kept of the page, or of its head.
    Answered(T),
    Page(PageRead),
}

/// The record under a slug, as far as it was read.
enum Found<T> {
    Answered(Reading<T>),
    Page(Arc<Page>),
}

impl PageService {
    /// The value that `finished` makes of what is kept of the page under `slug`, or the page, if that is kept and known to be
    /// current. This neither waits nor asks the store; `None` says nothing about the page.
    pub fn read_now<T>(&self, slug: &Slug, finished: impl FnOnce(&Arc<Kept>) -> Option<T>) -> Option<Reading<T>> {
        let kept = self.pages.current(slug, self.store.mark(slug)?)?;
        self.reading_of(&kept, finished)
    }

    /// The page under `slug`, with HTML from this version of the renderer or a newer one. [`ServiceError::Overloaded`]
    /// means that too many large pages are being read.
    pub async fn read(&self, slug: &Slug) -> Result<PageRead, ServiceError> {
        match self.read_unless(slug, |_| None::<Infallible>, |_| None).await? {
            Reading::Page(page) => Ok(page),
            Reading::Answered(never) => match never {},
        }
    }

    /// The page under `slug` as [`PageService::read`] returns it, the value that `finished` makes of what is kept of it, or
    /// that `unchanged` makes of the page's head. Each is called only if that saves a read of the text, and only for the
    /// state in which the page would be returned.
    /// This asks the store, for a caller whom [`PageService::read_now`] has not answered.
    pub async fn read_unless<T>(
        &self,
        slug: &Slug,
        finished: impl FnOnce(&Arc<Kept>) -> Option<T>,
        unchanged: impl FnOnce(&PageHead) -> Option<T>,
    ) -> Result<Reading<T>, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            let mut store_budget = StoreBudget::new(deadline);
            let mut mark = self.store.mark(slug);
            let mut page = match self.find(slug, finished, unchanged, &mut store_budget).await? {
                Found::Answered(reading) => return Ok(reading),
                Found::Page(page) => page,
            };
            let permit = match self.large_reads.try_acquire(&page) {
                Ok(permit) => permit,
                Err(needed) => {
                    drop(page);
                    let permit = self.large_reads.acquire(needed).await?;
                    mark = self.store.mark(slug);
                    page = self.existing(slug, &mut store_budget).await?;
                    permit
                }
            };
            let was_current = is_current(&page.head);
            let page = self.current(page).await?;
            let with_page = !was_current || self.store.access() == Access::HeadFirst;
            Ok(Reading::Page(self.pages.read(page, with_page, permit, mark)))
        })
        .await
    }

    /// `page`, rendered again if an older renderer made its HTML. The cache has such a page as long as it is read; the
    /// store keeps the older HTML.
    pub(super) async fn current(&self, page: Arc<Page>) -> Result<Arc<Page>, ServiceError> {
        if is_current(&page.head) {
            return Ok(page);
        }
        if let Some(kept) = self.pages.get(&page.head.slug, page.head.state()).and_then(|kept| kept.page()) {
            return Ok(kept.share());
        }
        let content = &page.text.content;
        let Made { rendered, .. } = self.renderer.render(content, Purpose::Upkeep, Checks::default()).await?;
        Ok(Arc::new(Page::new(page.head.clone(), content.clone(), rendered)))
    }

    async fn find<T>(
        &self,
        slug: &Slug,
        finished: impl FnOnce(&Arc<Kept>) -> Option<T>,
        unchanged: impl FnOnce(&PageHead) -> Option<T>,
        store_budget: &mut StoreBudget,
    ) -> Result<Found<T>, ServiceError> {
        match self.store.access() {
            Access::Whole => return Ok(Found::Page(self.existing(slug, store_budget).await?)),
            Access::HeadFirst => {}
        }
        let head = self.existing_head(slug, store_budget).await?;
        if let Some(reading) = self.kept(slug, head.state(), finished) {
            return Ok(Found::Answered(reading));
        }
        // A page that is rendered again may have other links than its head says.
        if is_current(&head)
            && let Some(answer) = unchanged(&head)
        {
            return Ok(Found::Answered(Reading::Answered(answer)));
        }
        Ok(Found::Page(self.page_of(head, store_budget).await?))
    }

    /// The answer that `finished` makes of what is kept of the page under `slug` in `state`, else the page if it is kept.
    fn kept<T>(
        &self,
        slug: &Slug,
        state: PageState,
        finished: impl FnOnce(&Arc<Kept>) -> Option<T>,
    ) -> Option<Reading<T>> {
        self.reading_of(&self.pages.get(slug, state)?, finished)
    }

    fn reading_of<T>(&self, kept: &Arc<Kept>, finished: impl FnOnce(&Arc<Kept>) -> Option<T>) -> Option<Reading<T>> {
        let reading = finished(kept).map(Reading::Answered).or_else(|| kept.page().map(Reading::Page))?;
        self.pages.count_hit();
        Some(reading)
    }
}

/// Whether the newest renderer made the HTML of the page.
fn is_current(head: &PageHead) -> bool {
    head.renderer_version >= RENDERER_VERSION
}
