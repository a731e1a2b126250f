//! Large pages are read in turn, so that however many are asked for at once, few are in memory.
//!
//! A page's size is known once it was looked up. One that finds no room is dropped, waits, and is looked up again in its
//! turn: what waits holds nothing. Small pages, which nearly all are, never wait, whatever the large ones do.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::ServiceError;
use crate::domain::page::Page;

/// A page of more bytes than this, source and HTML together, is large. Ten thousand smaller ones at once, one for each
/// connection, would need as many connections that are all answered in the same moment.
const LARGE_BYTES: usize = 64 * 1024;

/// Bytes of large pages that are being read and made into answers: 40 of the largest, several for each core.
const ROOM_BYTES: usize = 32 * 1024 * 1024;

/// How long a large page waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// The room for large pages. Clones share it.
#[derive(Clone)]
pub(super) struct LargeReads(Arc<Semaphore>);

/// A page that was read, and its turn if it is large. Kept until the answer is made.
pub struct PageRead {
    page: Arc<Page>,
    _turn: Turn,
}

/// What a read may hold; nothing for a small page.
#[derive(Default)]
pub(super) struct Turn(
    #[expect(dead_code, reason = "it is given back when it is dropped")] Option<OwnedSemaphorePermit>,
);

impl LargeReads {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_BYTES)))
    }

    /// The turn of a page of this size, if it is small or there is room for it now.
    pub(super) fn try_turn(&self, page: &Page) -> Result<Turn, WaitsFor> {
        let bytes = page.content.as_str().len() + page.rendered.html.len();
        if bytes <= LARGE_BYTES {
            return Ok(Turn::default());
        }
        // The largest page there can be has room.
        let bytes = u32::try_from(bytes.min(ROOM_BYTES)).unwrap_or(u32::MAX);
        Arc::clone(&self.0).try_acquire_many_owned(bytes).map(|permit| Turn(Some(permit))).map_err(|_| WaitsFor(bytes))
    }

    /// Waits for the turn of a page, which is not to be held meanwhile.
    pub(super) async fn turn(&self, WaitsFor(bytes): WaitsFor) -> Result<Turn, ServiceError> {
        match timeout(TURN_TIMEOUT, Arc::clone(&self.0).acquire_many_owned(bytes)).await {
            Ok(permit) => Ok(Turn(Some(permit.expect("the semaphore is never closed")))),
            Err(_) => Err(ServiceError::Overloaded),
        }
    }
}

/// Bytes that a large page needs.
pub(super) struct WaitsFor(u32);

impl PageRead {
    pub(super) fn new(page: Arc<Page>, turn: Turn) -> Self {
        Self { page, _turn: turn }
    }

    /// The page alone, for an answer that is written while it is sent.
    pub fn share(&self) -> Arc<Page> {
        Arc::clone(&self.page)
    }
}

/// A page that was not read but written, which limits on writes bound.
impl From<Arc<Page>> for PageRead {
    fn from(page: Arc<Page>) -> Self {
        Self { page, _turn: Turn::default() }
    }
}

impl Deref for PageRead {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use crate::domain::content::Content;
    use crate::domain::edit_key::EditKey;
    use crate::domain::markdown::Rendered;
    use crate::domain::page::PageVersion;
    use crate::domain::slug::Slug;
    use crate::domain::timestamp::UnixMillis;

    fn page(html_bytes: usize) -> Page {
        Page {
            slug: Slug::parse("a-page-22222222").unwrap(),
            title: None,
            content: Content::parse("a".to_owned()).unwrap(),
            rendered: Rendered { html: "a".repeat(html_bytes), renderer_version: 1, ..Rendered::default() },
            key_hash: EditKey::draw(|_| 0).hash(),
            version: PageVersion::FIRST,
            created_at: UnixMillis::new(1),
            updated_at: UnixMillis::new(1),
        }
    }

    /// Takes turns until there is no room.
    fn fill(reads: &LargeReads, page: &Page) -> (Vec<Turn>, WaitsFor) {
        let mut turns = Vec::new();
        loop {
            match reads.try_turn(page) {
                Ok(turn) => turns.push(turn),
                Err(waits_for) => return (turns, waits_for),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_pages_in_memory_are_bounded_in_bytes_and_small_ones_never_wait() {
        let (reads, large, small) = (LargeReads::new(), page(1_000_000), page(LARGE_BYTES - 1));
        let (turns, waits_for) = fill(&reads, &large);
        assert_eq!(turns.len(), ROOM_BYTES / 1_000_001);
        assert!(reads.turn(waits_for).now_or_never().is_none());
        for _ in 0..10_000 {
            assert!(reads.try_turn(&small).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_page_gets_its_turn_when_another_was_answered() {
        let (reads, large) = (LargeReads::new(), page(1_000_000));
        let (mut turns, waits_for) = fill(&reads, &large);
        let waiting = tokio::spawn({
            let reads = reads.clone();
            async move { reads.turn(waits_for).await.is_ok() }
        });
        tokio::task::yield_now().await;
        turns.pop();
        assert!(waiting.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_get_no_turn_in_time_are_told_so_and_leave_nothing_behind() {
        let (reads, large) = (LargeReads::new(), page(1_000_000));
        let (turns, _) = fill(&reads, &large);
        let waiting = (0..400).map(|_| async { reads.turn(WaitsFor(1_000_001)).await });
        assert!(join_all(waiting).await.into_iter().all(|turn| matches!(turn, Err(ServiceError::Overloaded))));
        drop(turns);
        assert_eq!(fill(&reads, &large).0.len(), ROOM_BYTES / 1_000_001);
    }

    #[tokio::test]
    async fn a_page_of_any_size_has_a_turn() {
        assert!(LargeReads::new().try_turn(&page(2 * ROOM_BYTES)).is_ok());
    }
}
