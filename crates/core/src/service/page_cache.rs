//! The answers made of pages for their readers, ready to be sent, bounded in bytes.
//!
//! A page is found by its slug *and* its state, and the text of one state never changes. So an entry cannot be stale by
//! itself: whoever asks must know which state is current. A store of one process marks each change of a page
//! ([`PageStore::mark`](crate::ports::page_store::PageStore::mark)), so an entry with the present mark is current. A store that
//! replicas share is asked for the state first.
//!
//! An entry is made when a page is read, never when it is written, so a burst of creates does not displace what is
//! read. It has what was sent, and the page itself only if the store would have to be asked again for its text. Nothing is
//! kept of a page that takes more than [`LARGEST_BYTES`], because it would fill a shard.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::read_budget::ReadPermit;
use crate::domain::page::{Page, PageState, PageText};
use crate::domain::slug::Slug;

/// Bytes of one shard. A shard has a lock of its own, and an entry must fit into one shard.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// The largest page of which anything is kept, source and HTML together. One of 100 KB of usual text is far below it.
const LARGEST_BYTES: usize = 512 * 1024;

/// Most shards: enough that the cores of a large machine rarely meet.
const MAX_SHARDS: u64 = 64;

/// Bytes that an entry of usual size takes, by which the cache estimates how many it will have.
const USUAL_BYTES: u64 = 4 * 1024;

/// The most types of values that are made of a page. Each transport has one.
const MADE_TYPES: usize = 2;

/// Bytes of an entry in addition to its slug and what was made: its place in the cache, and the values that refer to each
/// other.
const ENTRY_BYTES: usize = 384;

/// Bytes of a page in addition to its texts: more than its other fields take.
const PAGE_BYTES: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct PageCacheMetrics {
    /// Reads whose answer was ready.
    pub hits: Counter,
    /// Reads whose page was read from the store.
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
    kept: Arc<Kept>,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct EntryBytes;

impl Weighter<Slug, Entry> for EntryBytes {
    fn weight(&self, _: &Slug, entry: &Entry) -> u64 {
        entry.bytes
    }
}

/// The place in the cache for what is made of one state of a page.
pub struct Kept {
    pub state: PageState,
    pub renderer_version: u16,
    /// The mark that the page had before it was looked up.
    mark: Mutex<Option<u64>>,
    /// The page itself, if the store would have to be asked again for its text.
    page: Option<Arc<Page>>,
    /// At most one value of each type.
    made: [OnceLock<Box<dyn Any + Send + Sync>>; MADE_TYPES],
    /// The bytes of the entry; 0 before there is one.
    bytes: Mutex<usize>,
    /// Weak, because the cache has the entry.
    cache: Weak<Inner>,
}

/// A page that was read, with the place for what is made of it, and with the memory that it holds until the answer is made.
pub struct PageRead {
    page: Arc<Page>,
    kept: Option<Arc<Kept>>,
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

    /// The entry of the page under `slug` in `state`.
    pub(super) fn get(&self, slug: &Slug, state: PageState) -> Option<Arc<Kept>> {
        let Entry { kept, .. } = self.0.entries.as_ref()?.get(slug)?;
        (kept.state == state).then_some(kept)
    }

    /// The entry of the page under `slug`, if it was made of a lookup after the page got this `mark`.
    pub(super) fn current(&self, slug: &Slug, mark: u64) -> Option<Arc<Kept>> {
        let Entry { kept, .. } = self.0.entries.as_ref()?.get(slug)?;
        let is_current = *kept.mark.lock() == Some(mark);
        is_current.then_some(kept)
    }

    pub(super) fn count_hit(&self) {
        self.0.metrics.hits.inc();
    }

    /// `page`, which was read from the store, with a place for what is made of it unless it is too large. The page itself is
    /// kept there too if `with_page` says so. `permit` ends with the response. The page had `mark` before it was looked up.
    pub(super) fn read(&self, page: Arc<Page>, with_page: bool, permit: ReadPermit, mark: Option<u64>) -> PageRead {
        self.0.metrics.misses.inc();
        let kept = self.0.entries.as_ref().filter(|_| held_bytes(&page) <= LARGEST_BYTES).map(|entries| {
            let (state, renderer_version) = (page.head.state(), page.head.renderer_version);
            // Another request may have missed the same page, or asked for another form of it.
            let standing = entries.peek(&page.head.slug).map(|entry| entry.kept);
            let kept = standing.filter(|kept| kept.state == state && kept.renderer_version == renderer_version);
            let kept = kept.unwrap_or_else(|| {
                let (page, cache) = (with_page.then(|| Arc::clone(&page)), Arc::downgrade(&self.0));
                let (made, bytes, mark) = (<[_; MADE_TYPES]>::default(), Mutex::default(), Mutex::default());
                Arc::new(Kept { state, renderer_version, mark, page, made, bytes, cache })
            });
            *kept.mark.lock() = mark;
            kept
        });
        PageRead { page, kept, _permit: permit }
    }

    /// Drops the page under `slug`, which was deleted. No request would be answered with it, and its text should not
    /// stay in memory. A reader that found the page before may still keep it afterwards.
    pub(super) fn drop_page(&self, slug: &Slug) {
        if let Some(entries) = &self.0.entries {
            entries.remove(slug);
            self.0.measure(entries);
        }
    }
}

impl Inner {
    fn measure(&self, entries: &Cache<Slug, Entry, EntryBytes>) {
        self.metrics.bytes.set(i64::try_from(entries.weight()).unwrap_or(i64::MAX));
    }
}

impl Kept {
    /// The value of this type that is kept. It is the default one at its first use.
    pub fn made<T: Default + Send + Sync + 'static>(&self) -> &T {
        let mut values = self.made.iter().map(|place| place.get_or_init(|| Box::new(T::default())));
        values.find_map(|value| value.downcast_ref()).expect("there is a place for each type")
    }

    /// The page itself, if it is kept.
    pub(super) fn page(self: &Arc<Self>) -> Option<PageRead> {
        let page = Arc::clone(self.page.as_ref()?);
        Some(PageRead { page, kept: Some(Arc::clone(self)), _permit: ReadPermit::default() })
    }

    /// Records that what is kept of the page under `slug` takes `more` bytes and `less` bytes no more. With the first bytes
    /// the cache has an entry. It may drop the entry because of any.
    pub fn changed(self: &Arc<Self>, slug: &Slug, more: usize, less: usize) {
        let Some(cache) = self.cache.upgrade() else { return };
        let Some(entries) = &cache.entries else { return };
        let mut bytes = self.bytes.lock();
        let is_new = *bytes == 0;
        if is_new {
            *bytes = ENTRY_BYTES + slug.as_str().len() + self.page.as_deref().map_or(0, held_bytes);
        }
        *bytes = (*bytes + more).saturating_sub(less);
        let entry = Entry { kept: Arc::clone(self), bytes: *bytes as u64 };
        let standing = entries.peek(slug).map(|entry| entry.kept);
        // An entry that the cache has dropped does not come back. The lock makes the last entry the one with all bytes.
        if is_new && standing.as_ref().is_none_or(|kept| kept.state.updated_at <= self.state.updated_at) {
            entries.insert(slug.clone(), entry);
        } else if standing.is_some_and(|kept| Arc::ptr_eq(&kept, self)) {
            let _ = entries.replace(slug.clone(), entry, true);
        }
        cache.measure(entries);
    }
}

impl PageRead {
    /// The page by itself.
    pub(super) fn share(&self) -> Arc<Page> {
        Arc::clone(&self.page)
    }

    /// The place for what is made of this page; `None` if nothing is kept of it.
    pub fn kept(&self) -> Option<&Arc<Kept>> {
        self.kept.as_ref()
    }
}

impl Deref for PageRead {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

fn held_bytes(page: &Page) -> usize {
    let PageText { content, html, code_blocks, .. } = &page.text;
    let origins = page.head.link_origins.iter().map(String::len).sum::<usize>();
    PAGE_BYTES + content.as_str().len() + html.len() + size_of_val(&code_blocks[..]) + origins
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

    /// Reads `page`, and keeps `bytes` beside it.
    fn keep(cache: &PageCache, page: &Arc<Page>, bytes: usize) -> Arc<Kept> {
        let read = cache.read(Arc::clone(page), false, ReadPermit::default(), None);
        read.kept().unwrap().changed(&page.head.slug, bytes, 0);
        Arc::clone(read.kept().unwrap())
    }

    #[test]
    fn a_page_is_found_in_the_state_that_is_asked_for_and_in_no_other() {
        let cache = cache(CACHE_BYTES);
        let first = page(1, 1);
        let slug = &first.head.slug;
        assert!(cache.get(slug, first.head.state()).is_none());
        keep(&cache, &first, 1);
        assert_eq!(cache.get(slug, first.head.state()).unwrap().state, first.head.state());
        let later = PageState { version: PageVersion::new(2), ..first.head.state() };
        assert!(cache.get(slug, later).is_none());
        let restored = PageState { updated_at: UnixMillis::new(2), ..first.head.state() };
        assert!(cache.get(slug, restored).is_none());
        keep(&cache, &page(1, 2), 1);
        assert!(cache.get(slug, first.head.state()).is_none());
        assert_eq!(cache.get(slug, later).unwrap().state, later);
        cache.drop_page(slug);
        assert!(cache.get(slug, later).is_none());
    }

    #[test]
    fn a_page_is_current_as_long_as_it_has_the_mark_that_it_had_before_the_last_lookup() {
        let (cache, first) = (cache(CACHE_BYTES), page(1, 1));
        let slug = &first.head.slug;
        for mark in [7, 9] {
            assert!(cache.current(slug, mark).is_none());
            let read = cache.read(Arc::clone(&first), false, ReadPermit::default(), Some(mark));
            read.kept().unwrap().changed(slug, 1, 0);
            assert_eq!(cache.current(slug, mark).unwrap().state, first.head.state());
        }
        assert!(cache.current(slug, 7).is_none());
        keep(&cache, &first, 1);
        assert!(cache.current(slug, 9).is_none(), "the page was changing when it was looked up");
    }

    type Number = OnceLock<u64>;
    type Name = OnceLock<&'static str>;

    #[test]
    fn what_is_made_of_a_page_is_found_by_all_who_read_it_later() {
        let cache = cache(CACHE_BYTES);
        let made = |kept: &Kept| *kept.made::<Number>().get_or_init(|| kept.state.version.get());
        assert_eq!(made(&keep(&cache, &page(1, 1), 8)), 1);
        let again = cache.get(&page(1, 1).head.slug, page(1, 1).head.state()).unwrap();
        assert_eq!(again.made::<Number>().get(), Some(&1));
        let read = cache.read(page(1, 1), false, ReadPermit::default(), None);
        assert_eq!(
            read.kept().unwrap().made::<Number>().get(),
            Some(&1),
            "for another form the page is read once more"
        );
    }

    #[test]
    fn one_value_of_each_type_is_kept_beside_a_page_of_one_state() {
        let cache = cache(CACHE_BYTES);
        let kept = keep(&cache, &page(1, 1), 1);
        kept.made::<Number>().set(1).unwrap();
        assert!(kept.made::<Name>().get().is_none());
        kept.made::<Name>().set("a result").unwrap();
        assert_eq!(kept.made::<Number>().get(), Some(&1));
        assert_eq!(kept.made::<Name>().get(), Some(&"a result"));
        let changed = keep(&cache, &page(1, 2), 1);
        assert!(changed.made::<Number>().get().is_none() && changed.made::<Name>().get().is_none());
        let mut renewed = Page::clone(&page(1, 2));
        renewed.head.renderer_version += 1;
        assert_eq!(keep(&cache, &Arc::new(renewed), 1).renderer_version, page(1, 2).head.renderer_version + 1);
    }

    #[test]
    fn the_page_itself_is_kept_and_counted_only_if_its_reader_says_so() {
        let cache = cache(CACHE_BYTES);
        let (alone, with_page) = (page(1, 1), page(2, 1));
        let held = held_bytes(&with_page);
        assert!(keep(&cache, &alone, 10).page().is_none());
        let entry = bytes(&cache);
        assert_eq!(entry, (ENTRY_BYTES + alone.head.slug.as_str().len() + 10) as u64);
        let read = cache.read(Arc::clone(&with_page), true, ReadPermit::default(), None);
        assert_eq!(bytes(&cache), entry, "nothing is kept of a page of which nothing was made");
        read.kept().unwrap().changed(&with_page.head.slug, 10, 0);
        assert_eq!(cache.get(&with_page.head.slug, with_page.head.state()).unwrap().page().unwrap().share(), with_page);
        assert_eq!(bytes(&cache), 2 * entry + held as u64);
    }

    #[test]
    fn entries_and_what_is_made_of_them_are_bounded_in_bytes() {
        let cache = cache(CACHE_BYTES);
        for number in 0..2000 {
            let kept = keep(&cache, &page(number, 1), 10_000);
            for (more, less) in [(10_000, 0), (20_000, 10_000)] {
                kept.changed(&page(number, 1).head.slug, more, less);
                assert!(bytes(&cache) <= CACHE_BYTES, "{}", bytes(&cache));
            }
        }
        assert!(bytes(&cache) > CACHE_BYTES / 2);
        assert_eq!(u64::try_from(cache.0.metrics.bytes.get()), Ok(bytes(&cache)));
    }

    #[test]
    fn what_is_made_of_an_earlier_state_does_not_displace_the_later_one() {
        let cache = cache(CACHE_BYTES);
        let (first, mut later) = (page(1, 1), Page::clone(&page(1, 2)));
        later.head.updated_at = UnixMillis::new(2);
        let slow = cache.read(Arc::clone(&first), false, ReadPermit::default(), None);
        let slower = keep(&cache, &first, 1);
        keep(&cache, &Arc::new(later.clone()), 1);
        for kept in [slow.kept().unwrap(), &slower] {
            kept.changed(&first.head.slug, 10, 0);
            assert!(cache.get(&later.head.slug, later.head.state()).is_some());
        }
    }

    #[test]
    fn a_page_that_outgrows_the_cache_is_dropped_and_does_not_come_back() {
        let cache = cache(CACHE_BYTES);
        let (page, whole) = (page(1, 1), usize::try_from(CACHE_BYTES).unwrap());
        let kept = keep(&cache, &page, 1);
        kept.changed(&page.head.slug, 2 * whole, 0);
        assert!(cache.get(&page.head.slug, page.head.state()).is_none());
        kept.changed(&page.head.slug, 1, 2 * whole);
        assert_eq!(bytes(&cache), 0);
    }

    #[test]
    fn a_page_of_100_kb_is_kept_and_the_largest_ones_and_a_page_without_a_cache_are_not() {
        let full = cache(CACHE_BYTES);
        let mut long = Page::clone(&page(1, 1));
        long.text.content = Content::parse("a".repeat(100_000)).unwrap();
        long.text.html = "a".repeat(LARGEST_BYTES);
        let permit = || ReadBudget::new(1 << 20).try_acquire(&long).unwrap_or_else(|_| unreachable!());
        assert!(full.read(Arc::new(long.clone()), true, permit(), None).kept().is_none());
        let permit = permit();
        long.text.html = "a".repeat(100_000);
        assert!(full.read(Arc::new(long), true, permit, None).kept().is_some());
        let off = cache(0);
        assert!(off.read(page(1, 1), true, ReadPermit::default(), None).kept().is_none());
        assert!(off.get(&page(1, 1).head.slug, page(1, 1).head.state()).is_none());
    }

    #[test]
    fn hits_and_misses_are_counted() {
        let cache = cache(CACHE_BYTES);
        keep(&cache, &page(1, 1), 1);
        assert!(cache.get(&page(1, 1).head.slug, page(1, 1).head.state()).is_some());
        cache.count_hit();
        assert!(cache.get(&page(1, 1).head.slug, page(1, 2).head.state()).is_none());
        assert_eq!((cache.0.metrics.hits.get(), cache.0.metrics.misses.get()), (1, 1));
    }
}
