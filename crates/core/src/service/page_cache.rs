//! Pages that are ready to be sent, each with what its readers have made of it, bounded in bytes.
//!
//! A page is found by its slug *and* its state, and the text of one state never changes. So an entry cannot be stale by
//! itself: whoever asks must know which state is current. The embedded store knows the states of pages that were read
//! lately ([`ReadsNow::known_state`](crate::ports::page_store::ReadsNow::known_state)). A store that replicas share
//! is asked for the state first.
//!
//! An entry is made when a page is read, never when it is written, so a burst of creates does not displace what is
//! read. A page that takes more than [`LARGEST_BYTES`] is not kept, because with what is made of it it would fill a shard.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::read_budget::ReadPermit;
use super::render::held_bytes;
use crate::domain::page::{Page, PageState};
use crate::domain::slug::Slug;

/// Bytes of one shard. A shard has a lock of its own, and an entry must fit into one shard.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// The largest page that is kept, source and HTML together. One of 100 KB of usual text is far below it.
const LARGEST_BYTES: usize = 512 * 1024;

/// Most shards: enough that the cores of a large machine rarely meet.
const MAX_SHARDS: u64 = 64;

/// Bytes that an entry of usual size takes, by which the cache estimates how many it will have.
const USUAL_BYTES: u64 = 8 * 1024;

#[derive(Clone, Debug, Default)]
pub struct PageCacheMetrics {
    /// Reads that found their page ready.
    pub hits: Counter,
    /// Reads that did not.
    pub misses: Counter,
    /// Bytes of all entries.
    pub bytes: Gauge,
}

/// The cache. Clones share it.
#[derive(Clone)]
pub struct PageCache(Arc<Inner>);

struct Inner {
    /// `None` if the cache is off.
    entries: Option<Cache<Slug, Entry, EntryBytes>>,
    metrics: PageCacheMetrics,
}

/// A page as the cache holds it. The bytes of an entry must not change while the cache has it, so a page that has grown
/// gets a new entry.
#[derive(Clone)]
struct Entry {
    ready: Arc<Ready>,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct EntryBytes;

impl Weighter<Slug, Entry> for EntryBytes {
    fn weight(&self, _: &Slug, entry: &Entry) -> u64 {
        entry.bytes
    }
}

/// A page, and what its readers have made of it.
struct Ready {
    page: Arc<Page>,
    made: Made,
    bytes: Mutex<u64>,
}

/// At most one value of each type, and a place for the values of other types.
#[derive(Default)]
struct Made(OnceLock<(Box<dyn Any + Send + Sync>, Box<Made>)>);

impl Made {
    fn of<T: Default + Send + Sync + 'static>(&self) -> &T {
        let (value, others) = self.0.get_or_init(|| (Box::new(T::default()), Box::default()));
        value.downcast_ref().unwrap_or_else(|| others.of())
    }
}

/// A page that was read, and its place in the cache.
pub struct PageRead {
    ready: Arc<Ready>,
    /// The cache that has the page; `None` if no cache has it.
    cache: Option<PageCache>,
    /// The share of memory that a large page holds until the response is made.
    _permit: ReadPermit,
}

impl PageCache {
    /// A cache of `bytes`; with 0 there is none.
    pub fn new(bytes: u64, metrics: PageCacheMetrics) -> Self {
        let shards = (bytes / SHARD_BYTES).clamp(1, MAX_SHARDS);
        let options = OptionsBuilder::new()
            .shards(usize::try_from(shards).unwrap_or(1))
            .estimated_items_capacity(usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX).max(1))
            .weight_capacity(bytes)
            .build()
            .expect("every option is set");
        let cache =
            || Cache::with_options(options, EntryBytes, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self(Arc::new(Inner { entries: (bytes > 0).then(cache), metrics }))
    }

    /// The page under `slug` in `state`, if it is ready.
    pub(super) fn get(&self, slug: &Slug, state: PageState) -> Option<PageRead> {
        let Entry { ready, .. } = self.0.entries.as_ref()?.get(slug)?;
        if ready.page.head.state() != state {
            return None;
        }
        Some(PageRead { ready, cache: Some(self.clone()), _permit: ReadPermit::default() })
    }

    /// Keeps `page`, which was read because it was not ready, unless it is too large. `permit` ends with the response.
    pub(super) fn keep(&self, page: Arc<Page>, permit: ReadPermit) -> PageRead {
        self.0.metrics.misses.inc();
        let Some(entries) = self.0.entries.as_ref().filter(|_| held_bytes(&page) <= LARGEST_BYTES) else {
            return PageRead { ready: Arc::new(Ready::new(page)), cache: None, _permit: permit };
        };
        // Several requests may have missed the same page.
        let standing = entries.peek(&page.head.slug).filter(|entry| *entry.ready.page == *page);
        let ready = standing.map_or_else(
            || {
                let ready = Arc::new(Ready::new(page));
                entries.insert(ready.page.head.slug.clone(), ready.entry());
                self.measure(entries);
                ready
            },
            |entry| entry.ready,
        );
        PageRead { ready, cache: Some(self.clone()), _permit: permit }
    }

    /// Drops the page under `slug`, which was deleted. No request would be answered with it, and its text should not
    /// stay in memory. A reader that found the page before may still keep it afterwards.
    pub(super) fn drop_page(&self, slug: &Slug) {
        if let Some(entries) = &self.0.entries {
            entries.remove(slug);
            self.measure(entries);
        }
    }

    fn measure(&self, entries: &Cache<Slug, Entry, EntryBytes>) {
        self.0.metrics.bytes.set(i64::try_from(entries.weight()).unwrap_or(i64::MAX));
    }
}

impl Ready {
    fn new(page: Arc<Page>) -> Self {
        let bytes = held_bytes(&page) as u64;
        Self { page, made: Made::default(), bytes: Mutex::new(bytes) }
    }

    fn entry(self: &Arc<Self>) -> Entry {
        Entry { ready: Arc::clone(self), bytes: *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl PageRead {
    /// The page by itself, for a response that is written while it is sent.
    pub fn share(&self) -> Arc<Page> {
        Arc::clone(&self.ready.page)
    }

    /// Whether a cache has this page, so that a finished representation of it can be used again.
    pub fn is_kept(&self) -> bool {
        self.cache.is_some()
    }

    /// Another hold on this page, if a cache has it, for work that goes on after the response.
    pub fn share_kept(&self) -> Option<Self> {
        let cache = self.cache.clone()?;
        Some(Self { ready: Arc::clone(&self.ready), cache: Some(cache), _permit: ReadPermit::default() })
    }

    /// The value of this type that is kept beside the page. It is the default one at its first use.
    pub fn made<T: Default + Send + Sync + 'static>(&self) -> &T {
        self.ready.made.of()
    }

    pub(super) fn count_hit(&self) {
        if let Some(cache) = &self.cache {
            cache.0.metrics.hits.inc();
        }
    }

    /// Records that `bytes` more are kept beside this page. The cache may drop the page because of it.
    pub fn grew(&self, bytes: usize) {
        let Some(cache) = &self.cache else { return };
        let Some(entries) = &cache.0.entries else { return };
        let mut held = self.ready.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *held += bytes as u64;
        // This does nothing if the cache has dropped the page. The lock makes the last entry the one with all bytes.
        let slug = &self.ready.page.head.slug;
        if entries.peek(slug).is_some_and(|entry| Arc::ptr_eq(&entry.ready, &self.ready)) {
            let _ = entries.replace(slug.clone(), Entry { ready: Arc::clone(&self.ready), bytes: *held }, true);
        }
        cache.measure(entries);
    }
}

impl Deref for PageRead {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.ready.page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::content::Content;
    use crate::domain::edit_key::EditKey;
    use crate::domain::markdown::Rendered;
    use crate::domain::page::{PageHead, PageVersion};
    use crate::domain::slug::SlugSuffix;
    use crate::domain::timestamp::UnixMillis;
    use crate::domain::title::Title;
    use crate::service::read_budget::ReadBudget;

    const CACHE_BYTES: u64 = 1024 * 1024;

    fn page(number: usize, version: u64) -> Arc<Page> {
        let mut rest = number;
        let suffix = SlugSuffix::random(|bound| {
            let digit = rest % bound;
            rest /= bound;
            digit
        });
        let title = Title::parse("A page").unwrap();
        let slug = Slug::derive(&title, suffix);
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(1));
        let head = PageHead { version: PageVersion::new(version), ..head };
        let rendered = Rendered { html: "<p>a</p>".to_owned(), renderer_version: 1, ..Rendered::default() };
        Arc::new(Page::new(head, Content::parse("a".repeat(1000)).unwrap(), rendered))
    }

    fn cache(bytes: u64) -> PageCache {
        PageCache::new(bytes, PageCacheMetrics::default())
    }

    fn bytes(cache: &PageCache) -> u64 {
        cache.0.entries.as_ref().unwrap().weight()
    }

    #[test]
    fn a_page_is_found_in_the_state_that_is_asked_for_and_in_no_other() {
        let cache = cache(CACHE_BYTES);
        let first = page(1, 1);
        assert!(cache.get(&first.head.slug, first.head.state()).is_none());
        cache.keep(Arc::clone(&first), ReadPermit::default());
        assert_eq!(cache.get(&first.head.slug, first.head.state()).unwrap().share(), first);
        let later = PageState { version: PageVersion::new(2), ..first.head.state() };
        assert!(cache.get(&first.head.slug, later).is_none());
        let restored = PageState { updated_at: UnixMillis::new(2), ..first.head.state() };
        assert!(cache.get(&first.head.slug, restored).is_none());
        cache.keep(page(1, 2), ReadPermit::default());
        assert!(cache.get(&first.head.slug, first.head.state()).is_none());
        assert_eq!(cache.get(&first.head.slug, later).unwrap().head.version, PageVersion::new(2));
        cache.drop_page(&first.head.slug);
        assert!(cache.get(&first.head.slug, later).is_none());
    }

    type Number = OnceLock<u64>;
    type Name = OnceLock<&'static str>;

    #[test]
    fn what_is_made_of_a_page_is_made_once_for_all_who_read_it() {
        let cache = cache(CACHE_BYTES);
        let reads = [0, 1].map(|_| cache.keep(page(1, 1), ReadPermit::default()));
        let made: Vec<_> =
            reads.iter().map(|read| *read.made::<Number>().get_or_init(|| read.head.version.get())).collect();
        let again = cache.get(&page(1, 1).head.slug, page(1, 1).head.state()).unwrap();
        assert_eq!((made, *again.made::<Number>().get_or_init(|| 7)), (vec![1, 1], 1));
    }

    #[test]
    fn one_value_of_each_type_is_kept_beside_a_page_of_one_state() {
        let cache = cache(CACHE_BYTES);
        let read = cache.keep(page(1, 1), ReadPermit::default());
        read.made::<Number>().set(1).unwrap();
        assert!(read.made::<Name>().get().is_none());
        read.made::<Name>().set("a result").unwrap();
        assert_eq!(read.made::<Number>().get(), Some(&1));
        assert_eq!(read.made::<Name>().get(), Some(&"a result"));
        let changed = cache.keep(page(1, 2), ReadPermit::default());
        assert!(changed.made::<Number>().get().is_none() && changed.made::<Name>().get().is_none());
    }

    #[test]
    fn entries_and_what_is_made_of_them_are_bounded_in_bytes() {
        let cache = cache(CACHE_BYTES);
        for number in 0..2000 {
            let read = cache.keep(page(number, 1), ReadPermit::default());
            for _ in 0..3 {
                read.grew(10_000);
                assert!(bytes(&cache) <= CACHE_BYTES, "{}", bytes(&cache));
            }
        }
        assert!(bytes(&cache) > CACHE_BYTES / 2);
        assert_eq!(u64::try_from(cache.0.metrics.bytes.get()), Ok(bytes(&cache)));
    }

    #[test]
    fn what_is_made_of_an_earlier_state_does_not_displace_the_later_one() {
        let cache = cache(CACHE_BYTES);
        let slow = cache.keep(page(1, 1), ReadPermit::default());
        cache.keep(page(1, 2), ReadPermit::default());
        slow.grew(10);
        let later = page(1, 2);
        assert_eq!(cache.get(&later.head.slug, later.head.state()).unwrap().share(), later);
    }

    #[test]
    fn a_page_that_outgrows_the_cache_is_dropped_and_can_still_be_sent() {
        let cache = cache(CACHE_BYTES);
        let read = cache.keep(page(1, 1), ReadPermit::default());
        read.grew(2 * usize::try_from(CACHE_BYTES).unwrap());
        assert!(cache.get(&page(1, 1).head.slug, page(1, 1).head.state()).is_none());
        assert_eq!((bytes(&cache), read.share()), (0, page(1, 1)));
        read.grew(1);
        assert_eq!(bytes(&cache), 0, "a page that was dropped does not come back");
    }

    #[test]
    fn a_page_of_100_kb_is_kept_and_the_largest_ones_and_a_page_without_a_cache_are_not() {
        let full = cache(CACHE_BYTES);
        let mut long = Page::clone(&page(1, 1));
        long.text.content = Content::parse("a".repeat(100_000)).unwrap();
        long.text.html = "a".repeat(LARGEST_BYTES);
        let permit = || ReadBudget::new(1 << 20).try_acquire(&long).unwrap_or_else(|_| unreachable!());
        assert!(!full.keep(Arc::new(long.clone()), permit()).is_kept());
        assert_eq!(bytes(&full), 0);
        let permit = permit();
        long.text.html = "a".repeat(100_000);
        assert!(full.keep(Arc::new(long), permit).is_kept());
        assert!(bytes(&full) > 200_000);
        let off = cache(0);
        assert!(!off.keep(page(1, 1), ReadPermit::default()).is_kept());
        assert!(off.get(&page(1, 1).head.slug, page(1, 1).head.state()).is_none());
    }

    #[test]
    fn hits_and_misses_are_counted() {
        let cache = cache(CACHE_BYTES);
        cache.keep(page(1, 1), ReadPermit::default());
        cache.get(&page(1, 1).head.slug, page(1, 1).head.state()).unwrap().count_hit();
        assert!(cache.get(&page(1, 1).head.slug, page(1, 2).head.state()).is_none());
        assert_eq!((cache.0.metrics.hits.get(), cache.0.metrics.misses.get()), (1, 1));
    }
}
