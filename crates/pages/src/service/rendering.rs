//! Renders Markdown on threads for blocking work, so that long texts delay no other request.

use std::{mem, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::{task::spawn_blocking, time::timeout};

use super::time_limits::{DEADLINE, STORE_BUDGET};
use crate::ports::renderer::{ContentChecks, Purpose, RenderError, RenderOutcome, Renderer};
use crate::values::edit_key::holds_key;
use crate::values::{content::Content, markdown::render};

/// A text of this length takes about a millisecond.
const SHORT_BYTES: usize = 4 * 1024;

/// Short texts at once, which take 9 MB together.
const MAX_SHORT: usize = 8;

/// Long texts at once. 100 KB take 27 MB in the sanitiser's tree.
const MAX_LONG: usize = 2;

/// A publish waits for one preview at most.
const MAX_PREVIEWS: usize = 1;

const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

// After that the store still has its time.
const _: () = assert!(PERMIT_TIMEOUT.as_millis() + STORE_BUDGET.as_millis() < DEADLINE.as_millis());

pub struct RenderThreads {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    previews: Arc<Semaphore>,
}

struct Permit {
    _of_length: OwnedSemaphorePermit,
    _of_previews: Option<OwnedSemaphorePermit>,
}

impl Default for RenderThreads {
    fn default() -> Self {
        let [short, long, previews] = [MAX_SHORT, MAX_LONG, MAX_PREVIEWS].map(|most| Arc::new(Semaphore::new(most)));
        Self { short, long, previews }
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(semaphore).acquire_owned().await.expect("the semaphore is never closed")
}

impl RenderThreads {
    async fn permit(&self, bytes: usize, purpose: Purpose) -> Permit {
        let of_previews = if purpose == Purpose::Preview { Some(acquire(&self.previews).await) } else { None };
        let of_length = acquire(if bytes <= SHORT_BYTES { &self.short } else { &self.long }).await;
        Permit { _of_length: of_length, _of_previews: of_previews }
    }

    async fn run<T: Send + 'static>(
        &self,
        content: &Content,
        purpose: Purpose,
        work: impl FnOnce(&str) -> T + Send + 'static,
    ) -> Result<T, RenderError> {
        let permit = self.permit(content.as_str().len(), purpose);
        let permit = match purpose {
            Purpose::Upkeep => permit.await,
            Purpose::Write | Purpose::Preview => timeout(PERMIT_TIMEOUT, permit).await.map_err(|_| RenderError)?,
        };
        let content = content.clone();
        let done = spawn_blocking(move || {
            // The work continues if the client disconnects.
            let _permit = permit;
            work(content.as_str())
        });
        Ok(done.await.expect("rendering is total"))
    }
}

#[async_trait]
impl Renderer for RenderThreads {
    async fn render(
        &self,
        content: &Content,
        purpose: Purpose,
        checks: ContentChecks,
    ) -> Result<RenderOutcome, RenderError> {
        self.run(content, purpose, move |source| checked(source, &checks)).await
    }
}

/// A hostile text takes up to 28 ms for the blocklist, and 3 ms for the key.
fn checked(source: &str, ContentChecks { blocklist, key }: &ContentChecks) -> RenderOutcome {
    let mut rendered = render(source);
    let shown = mem::take(&mut rendered.shown);
    let is_refused = blocklist.as_ref().is_some_and(|list| list.refuses(source, &shown.addresses));
    let holds_key = key.as_ref().is_some_and(|key| shown.any(|text| holds_key(text, key)));
    RenderOutcome { rendered, is_refused, holds_key }
}

/// On the caller's thread, for tests that control the time or count instructions.
pub struct RenderInPlace;

#[async_trait]
impl Renderer for RenderInPlace {
    async fn render(
        &self,
        content: &Content,
        _purpose: Purpose,
        checks: ContentChecks,
    ) -> Result<RenderOutcome, RenderError> {
        Ok(checked(content.as_str(), &checks))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use crate::values::edit_key::EditKey;

    fn threads() -> RenderThreads {
        RenderThreads::default()
    }

    fn content(bytes: usize) -> Content {
        Content::parse("a".repeat(bytes)).unwrap()
    }

    /// Works that wait until the first value is dropped.
    fn gates(count: usize) -> (Vec<Sender<()>>, Vec<impl FnOnce(&str) -> bool + Send + 'static>) {
        let channels = std::iter::repeat_with(mpsc::channel).take(count);
        channels.map(|(open, opened)| (open, move |_: &str| opened.recv().is_err())).unzip()
    }

    #[tokio::test]
    async fn a_key_that_only_the_html_shows_is_found_in_it() {
        let key = EditKey::parse(&format!("hbk_{}", "a".repeat(43))).unwrap();
        for (text, shown) in [("&#104;bk_", true), ("hbk_", true), ("&#105;bk_", false)] {
            let content = Content::parse(format!("{text}{}", "a".repeat(43))).unwrap();
            let checks = ContentChecks { key: Some(key.clone()), ..ContentChecks::default() };
            let made = threads().render(&content, Purpose::Write, checks).await.unwrap();
            assert_eq!(made.holds_key, shown, "{text}");
        }
    }

    #[tokio::test]
    async fn a_short_text_waits_neither_for_long_texts_nor_for_previews() {
        let (threads, long, short) = (threads(), content(SHORT_BYTES + 1), content(SHORT_BYTES));
        let (open, mut works) = gates(8);
        let previews = works.split_off(4);
        let writes = works.into_iter().map(|work| threads.run(&long, Purpose::Write, work));
        let previews = previews.into_iter().map(|work| threads.run(&short, Purpose::Preview, work));
        let mut all = Box::pin(async { (join_all(writes).await, join_all(previews).await) });
        assert!((&mut all).now_or_never().is_none());
        assert_eq!(threads.run(&short, Purpose::Write, str::len).await, Ok(SHORT_BYTES));
        drop(open);
        let (writes, previews) = all.await;
        assert!(writes.into_iter().chain(previews).all(|done| done == Ok(true)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_text_is_published_beside_previews_of_long_texts() {
        let (threads, long) = (threads(), content(SHORT_BYTES + 1));
        let (open, works) = gates(4);
        let mut previews = Box::pin(join_all(works.into_iter().map(|work| threads.run(&long, Purpose::Preview, work))));
        assert!((&mut previews).now_or_never().is_none());
        assert!(threads.permit(SHORT_BYTES + 1, Purpose::Write).now_or_never().is_some());
        drop(open);
        previews.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_without_a_permit_is_refused_and_upkeep_waits() {
        let threads = threads();
        let permits = join_all((0..MAX_LONG).map(|_| threads.permit(SHORT_BYTES + 1, Purpose::Write))).await;
        let long = content(SHORT_BYTES + 1);
        assert_eq!(threads.run(&long, Purpose::Write, str::len).await, Err(RenderError));
        let upkeep = threads.run(&long, Purpose::Upkeep, str::len);
        let (upkeep, ()) = tokio::join!(upkeep, async {
            tokio::time::sleep(2 * PERMIT_TIMEOUT).await;
            drop(permits);
        });
        assert_eq!(upkeep, Ok(SHORT_BYTES + 1));
    }

    #[tokio::test]
    async fn a_permit_is_taken_until_its_text_is_rendered() {
        let (threads, long) = (threads(), content(SHORT_BYTES + 1));
        let (open, works) = gates(MAX_LONG);
        for work in works {
            assert!(threads.run(&long, Purpose::Write, work).now_or_never().is_none());
        }
        assert!(threads.permit(SHORT_BYTES + 1, Purpose::Write).now_or_never().is_none());
        drop(open);
        threads.permit(SHORT_BYTES + 1, Purpose::Write).await;
    }
}
