//! The page cache: finished answers, bounded in bytes.
//!
//! An entry has the requested forms of one state of a page, and the page itself only if its text would cost another
//! read. It never changes; a new entry replaces it.
//!
//! The text of a state never changes either, so an entry is current if its state is. A store of one process says so by
//! a mark ([`PageStore::mark`](crate::ports::page_store::PageStore::mark)); a shared store is asked for the state.
//!
//! Only reads make entries, so creates displace nothing.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::read_budget::ReadPermit;
use crate::values::page::{Page, PageState, PageText};
use crate::values::slug::Slug;

/// Each has its own lock, and an entry must fit into one.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// A page of 100 KB of usual text is far smaller in all forms.
const LARGEST_BYTES: u64 = 1024 * 1024;

/// The cores of a large machine rarely meet.
const MAX_SHARDS: u64 = 64;

/// Estimates the number of entries.
const USUAL_BYTES: u64 = 4 * 1024;

/// Besides slug and forms.
const ENTRY_BYTES: usize = 256;

/// A form's place, and the allocator's share.
const FORM_BYTES: usize = 128;

/// More than a page's fields take besides its texts.
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
    entries: Option<Arc<Cache<Slug, Arc<Kept>, EntryBytes>>>,
    pub(super) metrics: PageCacheMetrics,
}

/// A form, such as HTML in one content coding, numbered by the transport.
pub type FormNumber = u8;

/// A cache entry: the forms of one state of a page.
#[derive(Clone)]
pub struct Kept {
    pub state: PageState,
    pub renderer_version: u16,
    pub is_noindex: bool,
    mark: Option<u64>,
    page: Option<Arc<Page>>,
    /// `None` is not worth sending.
    forms: Vec<(FormNumber, Option<Bytes>)>,
}

#[derive(Clone, Copy)]
struct EntryBytes;

impl Weighter<Slug, Arc<Kept>> for EntryBytes {
    fn weight(&self, slug: &Slug, kept: &Arc<Kept>) -> u64 {
        let forms = kept.forms.iter().map(|(_, bytes)| FORM_BYTES + bytes.as_ref().map_or(0, Bytes::len));
        let page = kept.page.as_deref().map_or(0, held_bytes);
        (ENTRY_BYTES + slug.as_str().len() + page + forms.sum::<usize>()) as u64
    }
}

/// Holds its memory until the answer is made.
pub struct PageRead {
    pub(super) page: Arc<Page>,
    /// Taken before the lookup.
    pub(super) mark: Option<u64>,
    pub(super) keep_page: bool,
    pub(super) _permit: ReadPermit,
}

impl Deref for PageRead {
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
        Self { entries: (bytes > 0).then(cache).map(Arc::new), metrics }
    }

    /// Whether there is an entry, in any state.
    pub(super) fn has(&self, slug: &Slug) -> bool {
        self.entries.as_ref().is_some_and(|entries| entries.contains_key(slug))
    }

    pub(super) fn get(&self, slug: &Slug, state: PageState) -> Option<Arc<Kept>> {
        self.entries.as_ref()?.get(slug).filter(|kept| kept.state == state)
    }

    /// Only if its lookup began after the page got `mark`.
    pub(super) fn current(&self, slug: &Slug, mark: u64) -> Option<Arc<Kept>> {
        self.entries.as_ref()?.get(slug).filter(|kept| kept.mark == Some(mark))
    }

    pub fn count_hit(&self) {
        self.metrics.hits.inc();
    }

    /// Adds a form of `page` to the others of its state. The cache may drop the entry at any time.
    pub fn keep(&self, page: &PageRead, is_noindex: bool, form: FormNumber, bytes: Bytes) -> Arc<Kept> {
        let PageRead { page, mark, keep_page, .. } = page;
        let (slug, state, renderer_version) = (&page.head.slug, page.head.state(), page.head.renderer_version);
        let standing = self.entries.as_ref().and_then(|entries| entries.peek(slug));
        let same = standing.filter(|kept| kept.state == state && kept.renderer_version == renderer_version);
        let mut forms = same.map(|kept| kept.forms.clone()).unwrap_or_default();
        forms.retain(|(other, _)| *other != form);
        forms.push((form, Some(bytes)));
        let page = keep_page.then(|| Arc::clone(page));
        let kept = Arc::new(Kept { state, renderer_version, is_noindex, mark: *mark, page, forms });
        self.put(slug, &kept);
        kept
    }

    /// A lookup after `mark` has shown that `kept` is current.
    pub(super) fn renew(&self, slug: &Slug, kept: Arc<Kept>, mark: Option<u64>) -> Arc<Kept> {
        if mark.is_none() || kept.mark == mark {
            return kept;
        }
        let kept = Arc::new(Kept { mark, ..Kept::clone(&kept) });
        self.put(slug, &kept);
        kept
    }

    /// A dropped entry does not come back.
    pub fn keep_coded(&self, slug: &Slug, kept: &Kept, form: FormNumber, bytes: Option<Bytes>, made_of: FormNumber) {
        let Some(standing) = self.entries.as_ref().and_then(|entries| entries.peek(slug)) else { return };
        if standing.state == kept.state && standing.renderer_version == kept.renderer_version {
            let mut forms = standing.forms.clone();
            forms.retain(|(other, _)| *other != form && (bytes.is_none() || *other != made_of));
            forms.push((form, bytes));
            self.put(slug, &Arc::new(Kept { forms, ..Kept::clone(&standing) }));
        }
    }

    /// Unless the cache has a later state, or `kept` is too large.
    fn put(&self, slug: &Slug, kept: &Arc<Kept>) {
        let Some(entries) = &self.entries else { return };
        let is_older = |standing: Arc<Kept>| standing.state.updated_at > kept.state.updated_at;
        if EntryBytes.weight(slug, kept) <= LARGEST_BYTES && !entries.peek(slug).is_some_and(is_older) {
            entries.insert(slug.clone(), Arc::clone(kept));
            self.measure(entries);
        }
    }

    /// A deleted text should not stay in memory. An earlier reader may still keep it again.
    pub(super) fn drop_page(&self, slug: &Slug) {
        if let Some(entries) = &self.entries {
            entries.remove(slug);
            self.measure(entries);
        }
    }

    fn measure(&self, entries: &Cache<Slug, Arc<Kept>, EntryBytes>) {
        self.metrics.bytes.set(i64::try_from(entries.weight()).unwrap_or(i64::MAX));
    }
}

impl Kept {
    /// `None` if not made; `Some(None)` if not worth sending.
    pub fn form(&self, form: FormNumber) -> Option<Option<&Bytes>> {
        self.forms.iter().find(|(other, _)| *other == form).map(|(_, bytes)| bytes.as_ref())
    }

    pub(super) fn page(&self) -> Option<PageRead> {
        let page = Arc::clone(self.page.as_ref()?);
        Some(PageRead { page, mark: self.mark, keep_page: true, _permit: ReadPermit::default() })
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
    use crate::values::content::Content;
    use crate::values::edit_key::EditKey;
    use crate::values::markdown::Rendered;
    use crate::values::page::{PageHead, PageVersion};
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
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(1));
        let head = PageHead { version: PageVersion::new(version), ..head };
        let rendered = Rendered { html: "<p>a</p>".to_owned(), renderer_version: 1, ..Rendered::default() };
        Page::new(head, Content::parse("a".repeat(1000)).unwrap(), rendered)
    }

    fn read(page: &Page) -> PageRead {
        PageRead { page: Arc::new(page.clone()), mark: None, keep_page: false, _permit: ReadPermit::default() }
    }

    fn cache() -> PageCache {
        PageCache::new(CACHE_BYTES, PageCacheMetrics::default())
    }

    fn bytes(cache: &PageCache) -> u64 {
        cache.entries.as_ref().unwrap().weight()
    }

    /// Keeps `bytes` bytes as the form 0 of `page`.
    fn keep(cache: &PageCache, page: &Page, bytes: usize) -> Arc<Kept> {
        cache.keep(&read(page), false, 0, vec![0; bytes].into())
    }

    #[test]
    fn a_page_is_found_in_the_state_that_is_asked_for_and_in_no_other() {
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
    fn a_page_is_current_as_long_as_it_has_the_mark_that_it_had_before_the_last_lookup() {
        let (cache, first) = (cache(), page(1, 1));
        let slug = &first.head.slug;
        for mark in [7, 9] {
            assert!(cache.current(slug, mark).is_none());
            cache.keep(&PageRead { mark: Some(mark), ..read(&first) }, false, 0, Bytes::new());
            assert_eq!(cache.current(slug, mark).unwrap().state, first.head.state());
        }
        assert!(cache.current(slug, 7).is_none());
        // Pages share marks, so another page's change may be all that there was.
        let kept = cache.get(slug, first.head.state()).unwrap();
        cache.renew(slug, kept, Some(11));
        assert!(cache.current(slug, 9).is_none() && cache.current(slug, 11).is_some());
        keep(&cache, &first, 1);
        assert!(cache.current(slug, 11).is_none(), "the page was changing when it was looked up");
    }

    #[test]
    fn forms_of_one_state_and_renderer_are_kept_together() {
        let cache = cache();
        let (first, form) = (page(1, 1), |kept: &Kept, number| kept.form(number).flatten().map(|bytes| bytes.to_vec()));
        keep(&cache, &first, 1);
        let both = cache.keep(&read(&first), false, 3, Bytes::from_static(b"b"));
        assert_eq!((form(&both, 0), form(&both, 3), form(&both, 6)), (Some(vec![0]), Some(b"b".to_vec()), None));
        let changed = cache.keep(&read(&page(1, 2)), false, 3, Bytes::new());
        assert_eq!(form(&changed, 0), None);
        let mut renewed = page(1, 2);
        renewed.head.renderer_version += 1;
        assert_eq!(form(&keep(&cache, &renewed, 1), 3), None);
    }

    #[test]
    fn a_compressed_form_takes_the_place_of_the_one_that_it_was_made_of_if_it_is_worth_sending() {
        let (cache, page) = (cache(), page(1, 1));
        let kept = keep(&cache, &page, 1000);
        let now = || cache.get(&page.head.slug, page.head.state()).unwrap();
        cache.keep_coded(&page.head.slug, &kept, 1, None, 0);
        assert!(now().form(0).is_some() && now().form(1) == Some(None));
        cache.keep_coded(&page.head.slug, &kept, 2, Some(Bytes::new()), 0);
        assert!(now().form(0).is_none() && now().form(2).is_some());
        cache.drop_page(&page.head.slug);
        cache.keep_coded(&page.head.slug, &kept, 2, Some(Bytes::new()), 0);
        assert_eq!(bytes(&cache), 0, "an entry that was dropped does not come back");
    }

    #[test]
    fn the_page_itself_is_kept_and_counted_only_if_its_reader_says_so() {
        let cache = cache();
        let (alone, with_page) = (page(1, 1), page(2, 1));
        assert!(keep(&cache, &alone, 10).page().is_none());
        let entry = bytes(&cache);
        let kept = cache.keep(&PageRead { keep_page: true, ..read(&with_page) }, false, 0, vec![0; 10].into());
        assert_eq!(*kept.page().unwrap(), with_page);
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
        cache.keep_coded(&first.head.slug, &earlier, 1, None, 0);
        assert!(cache.get(&later.head.slug, later.head.state()).is_some());
    }

    #[test]
    fn without_a_cache_nothing_is_kept() {
        let (off, page) = (PageCache::new(0, PageCacheMetrics::default()), page(1, 1));
        assert!(keep(&off, &page, 1).form(0).is_some(), "the answer is made of it all the same");
        assert!(off.get(&page.head.slug, page.head.state()).is_none());
    }
}
