//! The page cache: finished answers, bounded in bytes.
//!
//! An entry has the requested forms of one state of a page, and the page itself only if its text would cost another read.
//!
//! In one process the cache is coherent: the store [tells](PageStore::subscribe) it of every change. A reader takes the
//! slot of a page before it asks the store, and a change takes that slot away from the reader. So what was read before a
//! change is never cached after it.
//!
//! A store that replicas share is asked for the page's state first, and an entry of another state is not used.
//!
//! Creates make no entries.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::large_reads::ReadPermit;
use crate::ports::page_store::{ChangeListener, PageStore};
use crate::values::head::PageState;
use crate::values::page::{Page, PageText};
use crate::values::slug::Slug;

/// A shard has its own lock, and an entry must fit into it.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// Larger entries are not cached. A page of 100 KB of usual text is far smaller in all forms.
const LARGEST_BYTES: u64 = 1024 * 1024;

const MAX_SHARDS: u64 = 64;

/// Only an estimate: the cache makes room for so many entries.
const USUAL_BYTES: u64 = 4 * 1024;

const ENTRY_BYTES: usize = 256;

const FORM_BYTES: usize = 128;

const PAGE_BYTES: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct PageCacheMetrics {
    pub hits: Counter,
    pub misses: Counter,
    pub bytes: Gauge,
}

#[derive(Clone)]
pub struct PageCache {
    /// `None` if the cache is off.
    entries: Option<Arc<Entries>>,
    /// Every entry is current, since the store tells of each change.
    pub(super) is_coherent: bool,
    pub(super) metrics: PageCacheMetrics,
}

type Entries = Cache<Slug, Arc<CachedPage>, EntryBytes>;

/// The slot of one page, which its holder may fill until the page changes.
pub(super) type CacheSlot<'a> = PlaceholderGuard<
    'a,
    Slug,
    Arc<CachedPage>,
    EntryBytes,
    DefaultHashBuilder,
    DefaultLifecycle<Slug, Arc<CachedPage>>,
>;

/// The number by which the transport knows a form of a page, such as its HTML in one content coding.
pub type FormNumber = u8;

/// A cache entry: the forms of one state of a page.
#[derive(Clone)]
pub struct CachedPage {
    pub state: PageState,
    pub renderer_version: u16,
    pub is_noindex: bool,
    page: Option<Arc<Page>>,
    /// `None` if compression did not make it smaller.
    forms: Vec<(FormNumber, Option<Bytes>)>,
}

#[derive(Clone, Copy)]
pub(super) struct EntryBytes;

impl Weighter<Slug, Arc<CachedPage>> for EntryBytes {
    fn weight(&self, slug: &Slug, cached: &Arc<CachedPage>) -> u64 {
        let forms = cached.forms.iter().map(|(_, bytes)| FORM_BYTES + bytes.as_ref().map_or(0, Bytes::len));
        let page = cached.page.as_deref().map_or(0, held_bytes);
        (ENTRY_BYTES + slug.as_str().len() + page + forms.sum::<usize>()) as u64
    }
}

/// A page that was read, with the memory that it holds until the answer is made.
pub struct PageRead<'a> {
    pub(super) page: Arc<Page>,
    /// If nothing had it before the store was asked.
    pub(super) slot: Option<CacheSlot<'a>>,
    pub(super) keep_page: bool,
    pub(super) _permit: ReadPermit,
}

impl Deref for PageRead<'_> {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl PageCache {
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
        Self { entries: (bytes > 0).then(cache).map(Arc::new), is_coherent: false, metrics }
    }

    #[must_use]
    pub(super) fn subscribed_to(self, store: &dyn PageStore) -> Self {
        Self { is_coherent: store.subscribe(Arc::new(self.clone())), ..self }
    }

    pub(super) fn get(&self, slug: &Slug, state: PageState) -> Option<Arc<CachedPage>> {
        self.entries.as_ref()?.get(slug).filter(|cached| cached.state == state)
    }

    /// The entry, if it needs no look at the store.
    pub(super) fn current(&self, slug: &Slug) -> Option<Arc<CachedPage>> {
        self.entries.as_ref().filter(|_| self.is_coherent)?.get(slug)
    }

    /// The entry, or else its slot, unless another reader or a change has it. The caller is about to ask the store.
    pub(super) fn entry_or_slot(&self, slug: &Slug) -> (Option<Arc<CachedPage>>, Option<CacheSlot<'_>>) {
        let found = self.entries.as_ref().map(|entries| entries.get_value_or_guard(slug, Some(Duration::ZERO)));
        match found {
            Some(GuardResult::Value(cached)) => (Some(cached), None),
            Some(GuardResult::Guard(slot)) => (None, Some(slot)),
            Some(GuardResult::Timeout) | None => (None, None),
        }
    }

    pub fn count_hit(&self) {
        self.metrics.hits.inc();
    }

    /// Adds `bytes`, a form of `page`, unless the page may have changed since it was read, or the form that the reader
    /// `prefers` was made meanwhile. Returns what the answer is made of.
    pub fn insert(
        &self,
        page: PageRead<'_>,
        is_noindex: bool,
        form: FormNumber,
        bytes: Bytes,
        prefers: FormNumber,
    ) -> Arc<CachedPage> {
        let PageRead { page, slot, keep_page, .. } = page;
        let slug = &page.head.slug;
        let state = page.head.state();
        let renderer_version = page.head.state.renderer_version;
        let mut forms = vec![(form, Some(bytes))];
        let is_same = |cached: &CachedPage| cached.state == state && cached.renderer_version == renderer_version;
        let slot = slot.or_else(|| {
            // Only replicas find an entry of an earlier state.
            let is_earlier = |cached: &CachedPage| !self.is_coherent && cached.state.updated_at <= state.updated_at;
            let lacks_form = |cached: &CachedPage| prefers == form || cached.form(prefers).flatten().is_none();
            let is_wanted = |cached: &CachedPage| if is_same(cached) { lacks_form(cached) } else { is_earlier(cached) };
            let (slot, cached) = self.replace(slug, is_wanted)?;
            let others = cached.forms.iter().filter(|(other, _)| is_same(&cached) && *other != form);
            forms.extend(others.cloned());
            Some(slot)
        });
        let page_to_keep = keep_page.then(|| Arc::clone(&page));
        let cached = Arc::new(CachedPage { state, renderer_version, is_noindex, page: page_to_keep, forms });
        if let Some(slot) = slot {
            self.put(slot, slug, &cached);
        }
        cached
    }

    /// Adds a compressed form, unless the entry was dropped meanwhile.
    pub fn insert_encoded(
        &self,
        slug: &Slug,
        cached: &CachedPage,
        form: FormNumber,
        bytes: Option<Bytes>,
        made_of: FormNumber,
    ) {
        let is_same = |standing: &CachedPage| {
            standing.state == cached.state && standing.renderer_version == cached.renderer_version
        };
        if let Some((slot, standing)) = self.replace(slug, is_same) {
            let mut forms = standing.forms.clone();
            forms.retain(|(other, _)| *other != form && (bytes.is_none() || *other != made_of));
            forms.push((form, bytes));
            self.put(slot, slug, &Arc::new(CachedPage { forms, ..CachedPage::clone(&standing) }));
        }
    }

    fn replace(
        &self,
        slug: &Slug,
        is_wanted: impl FnOnce(&CachedPage) -> bool,
    ) -> Option<(CacheSlot<'_>, Arc<CachedPage>)> {
        let choose = |_: &Slug, cached: &mut Arc<CachedPage>| {
            if is_wanted(cached) { EntryAction::ReplaceWithGuard } else { EntryAction::Retain(()) }
        };
        match self.entries.as_ref()?.entry(slug, Some(Duration::ZERO), choose) {
            EntryResult::Replaced(slot, cached) => Some((slot, cached)),
            _ => None,
        }
    }

    fn put(&self, slot: CacheSlot<'_>, slug: &Slug, cached: &Arc<CachedPage>) {
        if EntryBytes.weight(slug, cached) <= LARGEST_BYTES {
            let _ = slot.insert(Arc::clone(cached));
        }
        self.measure();
    }

    /// Drops a deleted page, whose text should not stay in memory. In a cluster, a reader that found the page before may
    /// still add it afterwards.
    pub(super) fn drop_page(&self, slug: &Slug) {
        if let Some(entries) = self.entries.as_ref().filter(|_| !self.is_coherent) {
            entries.remove(slug);
            self.measure();
        }
    }

    fn measure(&self) {
        let bytes = self.entries.as_ref().map_or(0, |entries| entries.weight());
        self.metrics.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

impl ChangeListener for PageCache {
    fn change<'a>(&'a self, slugs: &[&Slug]) -> Box<dyn Send + 'a> {
        let Some(entries) = &self.entries else { return Box::new(()) };
        let take = |slug: &&Slug| {
            loop {
                // This takes the slot from a reader too.
                entries.remove(*slug);
                if let GuardResult::Guard(slot) = entries.get_value_or_guard(*slug, Some(Duration::ZERO)) {
                    break slot;
                }
            }
        };
        let slots: Vec<_> = slugs.iter().map(take).collect();
        self.measure();
        Box::new(slots)
    }
}

impl CachedPage {
    /// `None` if it was not made; `Some(None)` if compression did not make it smaller.
    pub fn form(&self, form: FormNumber) -> Option<Option<&Bytes>> {
        self.forms.iter().find(|(other, _)| *other == form).map(|(_, bytes)| bytes.as_ref())
    }

    pub(super) fn page(&self) -> Option<PageRead<'static>> {
        let page = Arc::clone(self.page.as_ref()?);
        Some(PageRead { page, slot: None, keep_page: true, _permit: ReadPermit::default() })
    }
}

fn held_bytes(page: &Page) -> usize {
    let PageText { content, html, code_blocks, .. } = &page.text;
    let origins = page.head.state.links.iter().map(String::len).sum::<usize>();
    PAGE_BYTES + content.as_str().len() + html.len() + size_of_val(&code_blocks[..]) + origins
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::values::content::Content;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKey;
    use crate::values::head::{PageHead, PageVersion};
    use crate::values::markdown::Rendered;
    use crate::values::slug::SlugSuffix;
    use crate::values::timestamp::UnixMillis;
    use crate::values::title::Title;

    const CACHE_BYTES: u64 = 8 * 1024 * 1024;

    fn page(number: usize, version: u64) -> Page {
        let mut rest = number;
        let suffix = SlugSuffix::random(|bound| {
            let digit = rest % bound;
            rest /= bound;
            digit
        });
        let title = Title::parse("A page").unwrap();
        let slug = Slug::derive(&title, suffix);
        let head = PageHead::first(slug, Details::with_title(title), EditKey::random(|_| 0).hash(), UnixMillis::new(1));
        let head = PageHead { version: PageVersion::new(version), ..head };
        let rendered = Rendered { html: "<p>a</p>".to_owned(), renderer_version: 1, ..Rendered::default() };
        Page::new(head, Content::parse("a".repeat(1000)).unwrap(), rendered)
    }

    /// `page` as it is read when nothing has its slot, or when its reader gets none.
    fn read<'a>(cache: &'a PageCache, page: &Page) -> PageRead<'a> {
        let (_, slot) = cache.entry_or_slot(&page.head.slug);
        PageRead { page: Arc::new(page.clone()), slot, keep_page: false, _permit: ReadPermit::default() }
    }

    fn cache() -> PageCache {
        PageCache::new(CACHE_BYTES, PageCacheMetrics::default())
    }

    fn bytes(cache: &PageCache) -> u64 {
        cache.entries.as_ref().unwrap().weight()
    }

    /// Keeps `bytes` bytes as the form 0 of `page`.
    fn keep(cache: &PageCache, page: &Page, bytes: usize) -> Arc<CachedPage> {
        cache.insert(read(cache, page), false, 0, vec![0; bytes].into(), 0)
    }

    #[test]
    fn a_page_is_found_only_in_the_state_that_is_asked_for() {
        let cache = cache();
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
    fn what_was_read_before_a_change_is_never_kept_after_it() {
        let (cache, first) = (PageCache { is_coherent: true, ..cache() }, page(1, 1));
        let slug = &first.head.slug;
        let is_kept = || cache.current(slug).is_some();
        let before = read(&cache, &first);
        let change = cache.change(&[slug, slug]);
        let meanwhile = read(&cache, &first);
        for read in [before, meanwhile] {
            cache.insert(read, false, 0, Bytes::new(), 0);
            assert!(!is_kept());
        }
        drop(change);
        let earlier = keep(&cache, &first, 1000);
        assert!(is_kept());
        let second = page(1, 2);
        let change = cache.change(&[slug]);
        assert!(!is_kept());
        cache.insert_encoded(slug, &earlier, 1, Some(Bytes::new()), 0);
        drop(change);
        cache.insert_encoded(slug, &earlier, 1, Some(Bytes::new()), 0);
        assert!(!is_kept());
        keep(&cache, &second, 1);
        // A reader that was overtaken.
        keep(&cache, &first, 1);
        assert_eq!(cache.current(slug).unwrap().state, second.head.state());
    }

    #[test]
    fn no_reader_on_any_thread_gets_what_a_change_has_replaced() {
        let (cache, first) = (PageCache { is_coherent: true, ..cache() }, page(1, 0));
        let (slug, stored, answered) = (&first.head.slug, AtomicU64::new(0), AtomicU64::new(0));
        let (hits, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::SeqCst) {
                        let oldest = answered.load(Ordering::SeqCst);
                        if let Some(cached) = cache.current(slug) {
                            assert!(cached.state.version.get() >= oldest);
                            hits.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                        let (_, slot) = cache.entry_or_slot(slug);
                        let found = page(1, stored.load(Ordering::SeqCst));
                        cache.insert(PageRead { slot, ..read(&cache, &found) }, false, 0, Bytes::new(), 0);
                    }
                });
            }
            for version in 1.. {
                let change = cache.change(&[slug]);
                stored.store(version, Ordering::SeqCst);
                drop(change);
                answered.store(version, Ordering::SeqCst);
                std::thread::yield_now();
                if version > 3000 && hits.load(Ordering::SeqCst) > 1000 {
                    break;
                }
            }
            is_done.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn forms_of_one_state_and_renderer_are_kept_together() {
        let cache = cache();
        let (first, form) =
            (page(1, 1), |cached: &CachedPage, number| cached.form(number).flatten().map(|bytes| bytes.to_vec()));
        keep(&cache, &first, 1);
        let both = cache.insert(read(&cache, &first), false, 3, Bytes::from_static(b"b"), 3);
        assert_eq!((form(&both, 0), form(&both, 3), form(&both, 6)), (Some(vec![0]), Some(b"b".to_vec()), None));
        let changed = cache.insert(read(&cache, &page(1, 2)), false, 3, Bytes::new(), 3);
        assert_eq!(form(&changed, 0), None);
        let mut renewed = page(1, 2);
        renewed.head.state.renderer_version += 1;
        assert_eq!(form(&keep(&cache, &renewed, 1), 3), None);
    }

    #[test]
    fn a_compressed_form_replaces_its_source_if_it_is_smaller() {
        let (cache, page) = (cache(), page(1, 1));
        let cached = keep(&cache, &page, 1000);
        let now = || cache.get(&page.head.slug, page.head.state()).unwrap();
        cache.insert_encoded(&page.head.slug, &cached, 1, None, 0);
        assert!(now().form(0).is_some() && now().form(1) == Some(None));
        cache.insert_encoded(&page.head.slug, &cached, 2, Some(Bytes::new()), 0);
        assert!(now().form(0).is_none() && now().form(2).is_some());
        // Two readers found no entry; the second one ends after the compression of what the first one added.
        let late = |prefers| cache.insert(read(&cache, &page), false, 0, vec![0; 1000].into(), prefers);
        assert!(late(2).form(0).is_some() && now().form(0).is_none(), "the source does not come back");
        assert!(late(0).form(0).is_some() && now().form(0).is_some(), "a reader that takes only the source wants it");
        cache.drop_page(&page.head.slug);
        cache.insert_encoded(&page.head.slug, &cached, 2, Some(Bytes::new()), 0);
        assert_eq!(bytes(&cache), 0, "an entry that was dropped does not come back");
    }

    #[test]
    fn the_page_itself_is_cached_only_if_its_reader_says_so() {
        let cache = cache();
        let (alone, with_page) = (page(1, 1), page(2, 1));
        assert!(keep(&cache, &alone, 10).page().is_none());
        let entry = bytes(&cache);
        let cached =
            cache.insert(PageRead { keep_page: true, ..read(&cache, &with_page) }, false, 0, vec![0; 10].into(), 0);
        assert_eq!(*cached.page().unwrap(), with_page);
        assert_eq!(bytes(&cache), 2 * entry + held_bytes(&with_page) as u64);
    }

    #[test]
    fn entries_are_bounded_in_bytes_and_large_ones_are_not_kept() {
        let cache = cache();
        for number in 0..2000 {
            keep(&cache, &page(number, 1), 20_000);
            assert!(bytes(&cache) <= CACHE_BYTES, "{}", bytes(&cache));
        }
        assert!(bytes(&cache) > CACHE_BYTES / 2);
        assert_eq!(u64::try_from(cache.metrics.bytes.get()), Ok(bytes(&cache)));
        let (large, full) = (page(2000, 1), bytes(&cache));
        keep(&cache, &large, 1024 * 1024);
        assert!(cache.get(&large.head.slug, large.head.state()).is_none());
        assert_eq!(bytes(&cache), full);
    }

    #[test]
    fn a_form_of_an_earlier_state_does_not_displace_the_later_one() {
        let cache = cache();
        let (first, mut later) = (page(1, 1), page(1, 2));
        later.head.updated_at = UnixMillis::new(2);
        let earlier = keep(&cache, &first, 1);
        keep(&cache, &later, 1);
        keep(&cache, &first, 1);
        cache.insert_encoded(&first.head.slug, &earlier, 1, None, 0);
        assert!(cache.get(&later.head.slug, later.head.state()).is_some());
    }

    #[test]
    fn without_a_cache_nothing_is_kept() {
        let (off, page) = (PageCache::new(0, PageCacheMetrics::default()), page(1, 1));
        assert!(keep(&off, &page, 1).form(0).is_some(), "the answer is made of it all the same");
        assert!(off.get(&page.head.slug, page.head.state()).is_none());
    }
}
