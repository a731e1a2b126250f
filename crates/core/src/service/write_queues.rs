//! Writers of one page take turns in this process, and each hands on the page that it has written.
//!
//! The store does only one of several writes that begin from one version. Without turns, all other writers would have
//! made it work for nothing, and would begin again from a read. So each page has a queue, in the order of arrival.
//!
//! A writer takes its place before it reads the page's head, so that no write of this process can come between that
//! read and its turn without being handed on. A page that was handed on counts only if it is newer than the head that
//! its receiver has read. The receiver read that head after its request began, so the newer state also began after
//! that, and an answer may rest on it. The store checks with each write whether the page still is in that state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::read_budget::is_large;
use crate::domain::page::{Page, PageHead};
use crate::domain::slug::Slug;

/// Longest wait for a turn. Fifty writers of one page have theirs in this time if a write takes 40 ms. After it a writer
/// goes on without a turn: then the store alone decides which write is done.
pub(super) const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// The queues of all pages that are being written. Clones share them.
#[derive(Clone, Default)]
pub(super) struct WriteQueues {
    queues: Arc<Mutex<HashMap<Slug, Entry>>>,
    metrics: TurnMetrics,
}

/// How many turns came at once, came after a wait, or did not come in time, so that the writer went on without one.
#[derive(Clone, Default)]
pub struct TurnMetrics {
    pub at_once: Counter,
    pub waited: Counter,
    pub skipped: Counter,
}

/// A queue, and how many have a place in it.
struct Entry {
    queue: Arc<Queue>,
    places: usize,
}

struct Queue {
    turn: Arc<Semaphore>,
    written: Mutex<Option<WriteBase>>,
}

/// The page that a write is made from.
#[derive(Clone)]
pub(super) enum WriteBase {
    /// Its text must be read if the write needs it.
    Head(PageHead),
    /// A small page.
    Page(Arc<Page>),
}

impl WriteBase {
    /// The part of `page` that may be kept without a permit.
    pub(super) fn of(page: &Arc<Page>) -> Self {
        if is_large(page) { Self::Head(page.head.clone()) } else { Self::Page(Arc::clone(page)) }
    }

    pub(super) fn head(&self) -> &PageHead {
        match self {
            Self::Head(head) => head,
            Self::Page(page) => &page.head,
        }
    }
}

/// A place in the queue of a page. The queue is kept as long as somebody has a place.
pub(super) struct Ticket {
    turns: WriteQueues,
    slug: Slug,
    queue: Arc<Queue>,
}

/// The right to write a page. The next writer's turn begins when this is dropped.
pub(super) struct WritePermit {
    /// Dropped first, so that the next writer goes on. `None` if the turn did not come in time.
    _permit: Option<OwnedSemaphorePermit>,
    place: Ticket,
}

impl WriteQueues {
    pub(super) fn new(metrics: TurnMetrics) -> Self {
        Self { queues: Arc::default(), metrics }
    }

    /// A place among the writers of the page under `slug`. Take it before you read the page's head.
    pub(super) fn place(&self, slug: &Slug) -> Ticket {
        let new = || Entry {
            queue: Arc::new(Queue { turn: Arc::new(Semaphore::new(1)), written: Mutex::default() }),
            places: 0,
        };
        let mut queues = self.queues.lock();
        let held = queues.entry(slug.clone()).or_insert_with(new);
        held.places += 1;
        Ticket { turns: self.clone(), slug: slug.clone(), queue: Arc::clone(&held.queue) }
    }
}

impl Ticket {
    /// Waits for the turn to write the page, for at most [`TURN_TIMEOUT`].
    pub(super) async fn turn(self) -> WritePermit {
        let (turn, metrics) = (&self.queue.turn, &self.turns.metrics);
        let permit = if let Ok(permit) = Arc::clone(turn).try_acquire_owned() {
            metrics.at_once.inc();
            Some(permit)
        } else {
            let permit = timeout(TURN_TIMEOUT, Arc::clone(turn).acquire_owned()).await.ok().and_then(Result::ok);
            let outcome = if permit.is_some() { &metrics.waited } else { &metrics.skipped };
            outcome.inc();
            permit
        };
        WritePermit { _permit: permit, place: self }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.turns.queues.lock();
        if let Some(held) = queues.get_mut(&self.slug) {
            held.places -= 1;
            if held.places == 0 {
                queues.remove(&self.slug);
            }
        }
    }
}

impl WritePermit {
    /// The page as the last writer has written it, if that is newer than `read`, the head that this writer has read since
    /// it took its place.
    pub(super) fn written_after(&self, read: &PageHead) -> Option<WriteBase> {
        self.place.queue.written.lock().clone().filter(|base| base.head().updated_at > read.updated_at)
    }

    /// Ends the turn, and hands on `page`, which was just written.
    pub(super) fn hand_on(self, page: &Arc<Page>) {
        *self.place.queue.written.lock() = Some(WriteBase::of(page));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::domain::content::Content;
    use crate::domain::edit_key::EditKey;
    use crate::domain::markdown::Rendered;
    use crate::domain::page::PageVersion;
    use crate::domain::timestamp::UnixMillis;
    use crate::domain::title::Title;
    use crate::service::read_budget::LARGE_BYTES;

    fn slug() -> Slug {
        Slug::parse("a-page-22222222").unwrap()
    }

    fn page(version: u64) -> Arc<Page> {
        let head = PageHead {
            version: PageVersion::new(version),
            updated_at: UnixMillis::new(1000 + version.cast_signed()),
            ..PageHead::first(
                slug(),
                Title::parse("A page").unwrap(),
                EditKey::random(|_| 0).hash(),
                UnixMillis::new(1000),
            )
        };
        Arc::new(Page::new(head, Content::parse("a".to_owned()).unwrap(), Rendered::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn writers_of_one_page_go_in_the_order_of_their_arrival_and_get_what_was_written_last() {
        let turns = WriteQueues::default();
        let read = page(1).head.clone();
        let first = turns.place(&slug()).turn().await;
        assert!(first.written_after(&read).is_none());
        let (mut second, mut third) = (Box::pin(turns.place(&slug()).turn()), Box::pin(turns.place(&slug()).turn()));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        first.hand_on(&page(2));
        assert!(third.as_mut().now_or_never().is_none(), "it is the second's turn");
        let second = second.await;
        assert_eq!(second.written_after(&read).unwrap().head().version, PageVersion::new(2));
        // The second's write fails, so the first's is the last that is known.
        drop(second);
        assert_eq!(third.await.written_after(&read).unwrap().head().version, PageVersion::new(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_ends_before_the_next_writer_asks_for_its_turn_is_handed_on() {
        let turns = WriteQueues::default();
        let first = turns.place(&slug()).turn().await;
        let second = turns.place(&slug());
        first.hand_on(&page(2));
        let second = second.turn().await;
        assert_eq!(second.written_after(&page(1).head).unwrap().head().version, PageVersion::new(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_is_not_newer_than_what_the_next_writer_has_read_is_not_handed_on() {
        let turns = WriteQueues::default();
        let first = turns.place(&slug()).turn().await;
        let second = turns.place(&slug());
        first.hand_on(&page(2));
        assert!(second.turn().await.written_after(&page(2).head).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_large_page_only_the_head_is_kept_for_the_next_writer() {
        let turns = WriteQueues::default();
        let mut large = Page::clone(&page(2));
        large.text.html = "a".repeat(LARGE_BYTES);
        let large = Arc::new(large);
        let first = turns.place(&slug()).turn().await;
        let next = turns.place(&slug());
        first.hand_on(&large);
        assert_eq!(Arc::strong_count(&large), 1, "only this test has it");
        assert_eq!(next.turn().await.written_after(&page(1).head).unwrap().head(), &large.head);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_of_a_page_when_nobody_writes_it() {
        let turns = WriteQueues::default();
        turns.place(&slug()).turn().await.hand_on(&page(2));
        assert!(turns.queues.lock().is_empty());
        assert!(turns.place(&slug()).turn().await.written_after(&page(1).head).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_disconnects_while_it_waits_or_writes_leaves_the_queue_to_the_others() {
        let turns = WriteQueues::default();
        let holder = turns.place(&slug()).turn().await;
        let mut waiting = Box::pin(turns.place(&slug()).turn());
        let mut next = Box::pin(turns.place(&slug()).turn());
        assert!(waiting.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
        drop(waiting);
        drop(holder);
        drop(next.await);
        assert!(turns.queues.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_whose_turn_does_not_come_in_time_goes_on_without_it() {
        let metrics = TurnMetrics::default();
        let turns = WriteQueues::new(metrics.clone());
        let hanging = turns.place(&slug()).turn().await;
        let began = tokio::time::Instant::now();
        let late = turns.place(&slug()).turn().await;
        assert_eq!(began.elapsed(), TURN_TIMEOUT);
        let mut waiting = Box::pin(turns.place(&slug()).turn());
        assert!(waiting.as_mut().now_or_never().is_none());
        late.hand_on(&page(2));
        drop(hanging);
        drop(waiting.await);
        assert!(turns.queues.lock().is_empty());
        assert_eq!([metrics.at_once, metrics.waited, metrics.skipped].map(|counter| counter.get()), [1, 1, 1]);
    }
}
