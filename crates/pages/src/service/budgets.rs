//! What a request may take: time of the page store, and memory for large pages.
//!
//! A page's size is only known after the lookup. If no memory is left for the page, the request drops it, waits for a
//! permit and looks the page up again. So a waiting request holds no page. Small pages never wait, and nearly all pages
//! are small.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::error::ServiceError;
use crate::ports::page_store::StoreError;
use crate::values::page::Page;

/// Longest time that a request waits for the page store before the client learns that the store is unavailable.
///
/// All calls of one attempt share this time: a store that answers the first call late gets only the rest for the
/// second. A lost compare-and-set shows that the store answers, so the next attempt has the whole budget again, within
/// [`super::DEADLINE`].
pub const STORE_BUDGET: Duration = Duration::from_millis(2750);

/// The rest of [`STORE_BUDGET`] in an operation that ends at `deadline`.
pub(super) struct StoreBudget {
    left: Duration,
    pub(super) deadline: Instant,
}

impl StoreBudget {
    pub(super) fn new(deadline: Instant) -> Self {
        Self { left: STORE_BUDGET, deadline }
    }

    /// The whole budget again, for another attempt.
    pub(super) fn renew(&mut self) {
        self.left = STORE_BUDGET;
    }

    /// The time by which the answer to a call that begins now is needed.
    pub(super) fn needed_by(&self) -> Instant {
        self.deadline.min(Instant::now() + self.left)
    }

    /// The answer to `call`, if it comes within the rest of the budget. After [`ServiceError::DeadlinePassed`] the outcome
    /// of the call is unknown.
    pub(super) async fn wait<T>(
        &mut self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ServiceError> {
        let began = Instant::now();
        let answer = timeout(self.left, call).await;
        self.left = self.left.saturating_sub(began.elapsed());
        Ok(answer.map_err(|_| ServiceError::DeadlinePassed)??)
    }
}

/// A page with more bytes than this, source and HTML together, is large. Smaller pages have no limit: ten thousand of
/// them are in memory only if ten thousand connections are answered at the same moment.
pub(super) const LARGE_BYTES: usize = 64 * 1024;

/// Longest wait for a permit to read a large page.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The memory for large pages that are being read, changed and turned into responses. Each counts twice, because a response
/// or a changed page is made from it. Clones share it.
#[derive(Clone)]
pub(super) struct ReadBudget {
    free: Arc<Semaphore>,
    most_bytes: usize,
}

/// The bytes that a read may hold; nothing for a small page.
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
        // Even the largest page fits.
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

/// Whether a permit is needed to hold `page` for longer than a moment.
pub(super) fn is_large(page: &Page) -> bool {
    text_bytes(page) > LARGE_BYTES
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
    use crate::values::edit_key::EditKey;
    use crate::values::markdown::Rendered;
    use crate::values::page::PageHead;
    use crate::values::slug::Slug;
    use crate::values::timestamp::UnixMillis;
    use crate::values::title::Title;

    const MAX_BYTES: usize = 8 * 1024 * 1024;

    fn page(html_bytes: usize) -> Page {
        let (slug, title) = (Slug::parse("a-page-22222222").unwrap(), Title::parse("A page").unwrap());
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(1));
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
    async fn large_pages_in_memory_are_bounded_in_bytes_and_small_ones_never_wait() {
        let (reads, large, small) = (ReadBudget::new(MAX_BYTES), page(1_000_000), page(LARGE_BYTES - 1));
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
    async fn those_who_get_no_turn_in_time_are_told_so_and_leave_nothing_behind() {
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

#[cfg(test)]
mod time_tests {
    use tokio::time::sleep;

    use super::super::DEADLINE;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_is_told_the_rest_of_the_budget() {
        let mut budget = StoreBudget::new(Instant::now() + DEADLINE + DEADLINE);
        assert_eq!(budget.needed_by(), Instant::now() + STORE_BUDGET);
        let slow = async {
            sleep(Duration::from_secs(1)).await;
            Ok(())
        };
        budget.wait(slow).await.unwrap();
        // Time between two calls does not count.
        sleep(Duration::from_secs(2)).await;
        let rest = STORE_BUDGET.saturating_sub(Duration::from_secs(1));
        assert_eq!(budget.needed_by(), Instant::now() + rest);
        budget.renew();
        assert_eq!(budget.needed_by(), Instant::now() + STORE_BUDGET);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_told_the_requests_deadline_if_that_comes_first() {
        let deadline = Instant::now() + DEADLINE;
        sleep(Duration::from_secs(4)).await;
        assert_eq!(StoreBudget::new(deadline).needed_by(), deadline);
    }
}
