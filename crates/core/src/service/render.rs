//! Keeps the HTML of pages up to date with the newest renderer.
//!
//! After an upgrade every stored page has the HTML of an older renderer. Each page is rendered again at its first read,
//! once in each replica, however many requests read the page at the same time. Only a few pages are rendered at the
//! same time, after creates and updates and before previews. If the process writes renewed pages back, the
//! new HTML is stored on the condition that the page's version has not changed, so a concurrent update or delete wins.
//! A cache of bounded size serves reads until the new HTML is stored, and all reads in a process that does not write
//! back. The cache of ready pages cannot do this: it does not have the largest pages, which take longest to render, and can be off.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::store_budget::STORE_BUDGET;
use crate::domain::markdown::RENDERER_VERSION;
use crate::domain::page::{Page, PageState, PageText};
use crate::domain::slug::Slug;
use crate::ports::page_store::{PageStore, Record};
use crate::ports::renderer::{Checks, Made, Purpose, Renderer};

/// Most pages that are rendered again at once, on any number of cores: half of the long texts that the renderer has at
/// once.
const MAX_AT_ONCE: usize = 2;

/// Most pages that are written back at once. If more would be, a later reader renders and writes them.
const MAX_WRITES: usize = 8;

/// Bytes that the cache counts for a page in addition to its texts: more than the page's other fields and its cache
/// entry take.
const PAGE_BYTES: usize = 1024;

/// A renderer, and the rule for when to use it.
#[derive(Clone)]
pub(super) struct Rendering(Arc<Inner>);

struct Inner {
    renderer: Arc<dyn Renderer>,
    /// The store that renewed pages are written back to, if any.
    store: Option<Arc<dyn PageStore>>,
    /// Limits how many pages are renewed at once.
    permits: Arc<Semaphore>,
    /// Limits how many are written back at once, so that a slow store delays no reader of an old page.
    writes: Semaphore,
    state: Mutex<State>,
}

struct State {
    renewed: LruCache<Slug, Arc<Page>>,
    renewed_bytes: usize,
    most_bytes: usize,
    /// The renderings in progress, which other readers of the same page join, and some that ended. A rendering is dropped
    /// when nobody waits for it any more.
    running: HashMap<Identity, WeakShared<Renewing>>,
}

/// One state of one page. Two pages with the same identity have the same content.
type Identity = (Slug, PageState);

type Renewing = BoxFuture<'static, Arc<Page>>;

impl Rendering {
    /// At most `most_bytes` of renewed pages are kept.
    pub(super) fn new(renderer: Arc<dyn Renderer>, store: Option<Arc<dyn PageStore>>, most_bytes: usize) -> Self {
        // Half of the cores: creates, updates and previews need the renderer too.
        let permits = available_parallelism().map_or(1, NonZero::get).div_ceil(2).min(MAX_AT_ONCE);
        let state = State { renewed: LruCache::unbounded(), renewed_bytes: 0, most_bytes, running: HashMap::new() };
        let (permits, writes) = (Arc::new(Semaphore::new(permits)), Semaphore::new(MAX_WRITES));
        Self(Arc::new(Inner { renderer, store, permits, writes, state: Mutex::new(state) }))
    }

    pub(super) fn renderer(&self) -> &dyn Renderer {
        &*self.0.renderer
    }

    /// `page`, rendered again if an older renderer made its HTML. A page whose rendering hangs keeps the older HTML.
    pub(super) async fn current(&self, page: Arc<Page>) -> Arc<Page> {
        if page.head.renderer_version >= RENDERER_VERSION {
            return page;
        }
        let renewing = {
            let mut state = self.0.state.lock();
            if let Some(renewed) = state.renewed(&page) {
                return renewed;
            }
            state.join_or_begin(&self.0, page)
        };
        renewing.await
    }
}

impl Inner {
    /// Renders `page` once a permit is free. From then on the rendering is finished even if every reader disconnects.
    async fn renew(self: Arc<Self>, page: Arc<Page>) -> Arc<Page> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(self.render_and_keep(page, permit, sender));
        receiver.await.expect("rendering is total")
    }

    async fn render_and_keep(
        self: Arc<Self>,
        page: Arc<Page>,
        permit: OwnedSemaphorePermit,
        sender: oneshot::Sender<Arc<Page>>,
    ) {
        let rendering = self.renderer.render(&page.text.content, Purpose::Upkeep, Checks::default());
        let Ok(Made { rendered, .. }) = rendering.await else {
            // Work of the service itself is never refused, so this hangs. The next reader must not hang another thread.
            self.state.lock().keep(&page);
            let _ = sender.send(page);
            return;
        };
        let renewed = Arc::new(Page::new(page.head.clone(), page.text.content.clone(), rendered));
        self.state.lock().keep(&renewed);
        // Readers do not wait until the new HTML is stored.
        drop(permit);
        let _ = sender.send(Arc::clone(&renewed));
        if let (Some(store), Ok(_permit)) = (&self.store, self.writes.try_acquire()) {
            // This write keeps the page's version. A concurrent change gives the page another version, and then this
            // write does nothing. If the write fails, the page is renewed again once the cache has dropped it.
            let written = store.compare_and_set(renewed.head.version, Record::Active(renewed), None);
            if let Ok(Err(error)) = timeout(STORE_BUDGET, written).await {
                tracing::debug!(%error, "a page that was rendered again could not be written back");
            }
        }
    }
}

impl State {
    fn renewed(&mut self, page: &Page) -> Option<Arc<Page>> {
        let renewed = self.renewed.get(&page.head.slug)?;
        (identity(renewed) == identity(page)).then(|| Arc::clone(renewed))
    }

    fn keep(&mut self, page: &Arc<Page>) {
        let replaced = self.renewed.put(page.head.slug.clone(), Arc::clone(page));
        self.renewed_bytes += held_bytes(page);
        self.renewed_bytes -= replaced.map_or(0, |page| held_bytes(&page));
        while self.renewed_bytes > self.most_bytes {
            let Some((_, oldest)) = self.renewed.pop_lru() else { break };
            self.renewed_bytes -= held_bytes(&oldest);
        }
    }

    fn join_or_begin(&mut self, inner: &Arc<Inner>, page: Arc<Page>) -> Shared<Renewing> {
        let identity = identity(&page);
        if let Some(running) = self.running.get(&identity).and_then(WeakShared::upgrade) {
            return running;
        }
        if self.running.len() == self.running.capacity() {
            // Those that ended are forgotten each time as many have begun as there are.
            self.running.retain(|_, running| running.upgrade().is_some());
            self.running.reserve(self.running.len());
        }
        let renewing = Arc::clone(inner).renew(page).boxed().shared();
        self.running.extend(renewing.downgrade().map(|weak| (identity, weak)));
        renewing
    }
}

fn identity(page: &Page) -> Identity {
    (page.head.slug.clone(), page.head.state())
}

pub(super) fn held_bytes(page: &Page) -> usize {
    let PageText { content, html, code_blocks, .. } = &page.text;
    let origins = page.head.link_origins.iter().map(String::len).sum::<usize>();
    PAGE_BYTES + content.as_str().len() + html.len() + size_of_val(&code_blocks[..]) + origins
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use futures_util::future::join_all;

    use super::*;
    use crate::domain::content::Content;
    use crate::domain::edit_key::EditKey;
    use crate::domain::markdown::{Rendered, render};
    use crate::domain::page::{PageHead, PageVersion};
    use crate::domain::slug::SlugSuffix;
    use crate::domain::timestamp::UnixMillis;
    use crate::domain::title::Title;
    use crate::ports::renderer::{Memory, RenderError};

    const CACHE_BYTES: usize = 16 * 1024 * 1024;

    /// A renderer that waits until a test lets it continue.
    struct Held {
        gate: Semaphore,
        html: String,
        begun: AtomicUsize,
        running: AtomicUsize,
        most: AtomicUsize,
    }

    impl Held {
        fn of(html_bytes: usize) -> Arc<Self> {
            let (begun, running, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            Arc::new(Self { gate: Semaphore::new(0), html: "x".repeat(html_bytes), begun, running, most })
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::SeqCst)
        }
    }

    #[async_trait]
    impl Renderer for Held {
        async fn render(&self, content: &Content, purpose: Purpose, _: Checks) -> Result<Made, RenderError> {
            assert_eq!(purpose, Purpose::Upkeep);
            self.begun.fetch_add(1, Ordering::SeqCst);
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            self.gate.acquire().await.expect("it is open").forget();
            self.running.fetch_sub(1, Ordering::SeqCst);
            if self.html.is_empty() {
                return Err(RenderError::Hung);
            }
            let rendered = Rendered { html: self.html.clone(), ..render(content.as_str()) };
            Ok(Made { rendered, is_refused: false, shows_key: false, memory: Memory::of(()) })
        }

        async fn first_heading(&self, _: &Content, _: Purpose) -> Result<Option<String>, RenderError> {
            unreachable!("a page that is stored has its title")
        }
    }

    /// A page with HTML of an older renderer. Each `number` gives another page.
    fn old(number: usize) -> Arc<Page> {
        let (mut digits, text) = (number, format!("Page {number}"));
        let suffix = SlugSuffix::random(|below| {
            let digit = digits % below;
            digits /= below;
            digit
        });
        let title = Title::parse("A page").unwrap();
        let (key_hash, now) = (EditKey::random(|_| 0).hash(), UnixMillis::new(0));
        let head = PageHead::first(Slug::derive(&title, suffix), title, key_hash, now);
        let rendered = Rendered { renderer_version: RENDERER_VERSION - 1, ..render(&text) };
        Arc::new(Page::new(head, Content::parse(text).unwrap(), rendered))
    }

    /// Lets every task run until it waits.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn those_who_read_one_old_page_share_one_rendering() {
        let renderer = Held::of(1);
        let rendering = Rendering::new(renderer.clone(), None, CACHE_BYTES);
        let mut readers = pin!(join_all((0..50).map(|_| rendering.current(old(0)))));
        assert!((&mut readers).now_or_never().is_none());
        settle().await;
        renderer.gate.add_permits(50);
        for page in readers.await {
            assert_eq!(page.head.renderer_version, RENDERER_VERSION);
            assert_eq!(page.head.state(), old(0).head.state());
        }
        rendering.current(old(0)).await;
        assert_eq!(renderer.begun(), 1, "those who come later have it too");
        assert!(rendering.0.state.lock().running.values().all(|running| running.upgrade().is_none()));
    }

    #[tokio::test]
    async fn a_page_whose_rendering_hangs_keeps_its_html_and_is_not_rendered_again() {
        let renderer = Held::of(0);
        let rendering = Rendering::new(renderer.clone(), None, CACHE_BYTES);
        renderer.gate.add_permits(2);
        for _ in 0..2 {
            assert_eq!(rendering.current(old(0)).await, old(0));
        }
        assert_eq!(renderer.begun(), 1);
    }

    #[tokio::test]
    async fn only_a_few_old_pages_are_rendered_at_once() {
        let renderer = Held::of(1);
        let rendering = Rendering::new(renderer.clone(), None, CACHE_BYTES);
        let permits = rendering.0.permits.available_permits();
        assert!(permits <= available_parallelism().unwrap().get().div_ceil(2) && permits <= 2);
        let mut readers = pin!(join_all((0..100).map(|number| rendering.current(old(number)))));
        assert!((&mut readers).now_or_never().is_none());
        settle().await;
        assert_eq!(renderer.begun(), permits);
        renderer.gate.add_permits(100);
        readers.await;
        assert_eq!((renderer.begun(), renderer.most.load(Ordering::SeqCst)), (100, permits));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_begun_and_what_has_begun_is_kept() {
        let renderer = Held::of(1);
        let rendering = Rendering::new(renderer.clone(), None, CACHE_BYTES);
        let permits = rendering.0.permits.available_permits();
        let mut readers: Vec<_> = (0..=permits).map(|number| Box::pin(rendering.current(old(number)))).collect();
        for reader in &mut readers {
            assert!(reader.now_or_never().is_none());
            settle().await;
        }
        drop(readers);
        renderer.gate.add_permits(100);
        settle().await;
        assert_eq!(renderer.begun(), permits);
        assert!(rendering.0.state.lock().running.values().all(|running| running.upgrade().is_none()));
        rendering.current(old(0)).await;
        assert_eq!(renderer.begun(), permits);
    }

    #[tokio::test]
    async fn the_memory_for_renewed_pages_is_bounded_in_bytes() {
        let renderer = Held::of(CACHE_BYTES / 4);
        renderer.gate.add_permits(100);
        let rendering = Rendering::new(renderer.clone(), None, CACHE_BYTES);
        for number in 0..10 {
            rendering.current(old(number)).await;
            let state = rendering.0.state.lock();
            let held: usize = state.renewed.iter().map(|(_, page)| held_bytes(page)).sum();
            assert!(held == state.renewed_bytes && held <= CACHE_BYTES, "{held}");
        }
        rendering.current(old(9)).await;
        assert_eq!(renderer.begun(), 10);
        rendering.current(old(0)).await;
        assert_eq!(renderer.begun(), 11, "the oldest was forgotten");
    }

    #[tokio::test]
    async fn what_was_renewed_is_not_shown_for_a_later_state_of_the_page() {
        let renderer = Held::of(1);
        renderer.gate.add_permits(100);
        let rendering = Rendering::new(renderer.clone(), None, CACHE_BYTES);
        rendering.current(old(0)).await;
        let mut later = Page::clone(&old(0));
        later.head.version = PageVersion::FIRST.next();
        assert_eq!(rendering.current(Arc::new(later)).await.head.version, PageVersion::FIRST.next());
        assert_eq!(renderer.begun(), 2);
    }
}
