//! The page cache: finished bodies, bounded in bytes.
//!
//! An entry has the bodies that were asked for of one state of a page.
//!
//! In one process the cache is coherent: the store [tells](PageService::subscribe) it of every change. A reader takes the
//! slot of a page before it asks the store, and a change takes that slot away from the reader. So what was read before a
//! change is never cached after it.
//!
//! A store that replicas share is asked for the page's state first, and an entry of another state is not used.
//!
//! Creates make no entries.

use std::{sync::Arc, time::Duration};

use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::representation::{Made, Representation};
use super::{etag::PageFacts, kept_body::KeptBody, negotiation::Coding};
use crate::telemetry::metrics::PageCacheMetrics;
use handbill_pages::ports::page_store::ChangeListener;
use handbill_pages::service::PageService;
use handbill_pages::values::slug::Slug;

/// A shard has its own lock, and an entry must fit into it.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// Larger entries are not cached. A page of 100 KB of usual text is far smaller in all representations.
const LARGEST_BYTES: u64 = 1024 * 1024;

const MAX_SHARDS: u64 = 64;

/// Only an estimate: the cache makes room for so many entries.
const USUAL_BYTES: u64 = 4 * 1024;

const ENTRY_BYTES: usize = 256;

const BODY_BYTES: usize = 128;

#[derive(Clone)]
pub struct PageCache {
    /// `None` if the cache is off.
    entries: Option<Arc<Entries>>,
    /// Every entry is current, since the store tells of each change.
    pub(super) is_coherent: bool,
    metrics: PageCacheMetrics,
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

/// The bodies of one state of a page, made by one version of the renderer.
#[derive(Clone)]
pub(super) struct CachedPage {
    pub(super) page: PageFacts,
    bodies: Vec<CachedBody>,
}

#[derive(Clone)]
struct CachedBody {
    representation: Representation,
    coding: Coding,
    /// `None` if compression did not make it smaller.
    body: Option<KeptBody>,
}

#[derive(Clone, Copy)]
pub(super) struct EntryBytes;

impl Weighter<Slug, Arc<CachedPage>> for EntryBytes {
    fn weight(&self, slug: &Slug, cached: &Arc<CachedPage>) -> u64 {
        let bodies = cached.bodies.iter().map(|body| BODY_BYTES + body.body.as_ref().map_or(0, KeptBody::len));
        (ENTRY_BYTES + slug.as_str().len() + bodies.sum::<usize>()) as u64
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
        let entries = (bytes > 0).then(|| {
            Cache::with_options(options, EntryBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
        });
        Self { entries: entries.map(Arc::new), is_coherent: false, metrics }
    }

    #[must_use]
    pub(super) fn subscribed_to(self, service: &PageService) -> Self {
        Self { is_coherent: service.subscribe(Arc::new(self.clone())), ..self }
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

    pub(super) fn count_hit(&self) {
        self.metrics.hits.inc();
    }

    /// Keeps `made`, which has one body, unless the page may have changed since it was read, or the body in the coding that the
    /// reader `prefers` was made meanwhile. Returns it with the other bodies of the same state.
    pub(super) fn insert(
        &self,
        slug: &Slug,
        slot: Option<CacheSlot<'_>>,
        mut made: CachedPage,
        prefers: Coding,
    ) -> Arc<CachedPage> {
        self.metrics.misses.inc();
        let slot = slot.or_else(|| {
            let (slot, standing) = self.replace(slug, |standing| self.is_wanted(&made, standing, prefers))?;
            if made.is_same_state(&standing) {
                let CachedBody { representation, coding, .. } = made.bodies[0];
                let others = standing.bodies.iter();
                let others = others.filter(|other| (other.representation, other.coding) != (representation, coding));
                made.bodies.extend(others.cloned());
            }
            Some(slot)
        });
        let cached = Arc::new(made);
        if let Some(slot) = slot {
            self.put(slot, slug, &cached);
        }
        cached
    }

    fn is_wanted(&self, made: &CachedPage, standing: &CachedPage, prefers: Coding) -> bool {
        if made.is_same_state(standing) {
            let CachedBody { representation, coding, .. } = made.bodies[0];
            prefers == coding || !matches!(standing.made(representation, prefers), Made::Body(_))
        } else {
            // Only replicas find an entry of an earlier state.
            !self.is_coherent && standing.page.state.updated_at <= made.page.state.updated_at
        }
    }

    /// Adds `representation`, compressed: `None` if that made it no smaller. Does nothing if the entry was dropped meanwhile.
    pub(super) fn insert_gzip(
        &self,
        slug: &Slug,
        cached: &CachedPage,
        representation: Representation,
        smaller: Option<KeptBody>,
    ) {
        if let Some((slot, standing)) = self.replace(slug, |standing| standing.is_same_state(cached)) {
            let mut changed = CachedPage::clone(&standing);
            // The source goes once there is something smaller.
            changed.bodies.retain(|body| {
                body.representation != representation || body.coding == Coding::Identity && smaller.is_none()
            });
            changed.bodies.push(CachedBody { representation, coding: Coding::Gzip, body: smaller });
            self.put(slot, slug, &Arc::new(changed));
        }
    }

    fn replace(
        &self,
        slug: &Slug,
        is_wanted: impl FnOnce(&CachedPage) -> bool,
    ) -> Option<(CacheSlot<'_>, Arc<CachedPage>)> {
        let found = self.entries.as_ref()?.entry(slug, Some(Duration::ZERO), |_, cached| {
            if is_wanted(cached) { EntryAction::ReplaceWithGuard } else { EntryAction::Retain(()) }
        });
        match found {
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

    /// Drops a page that the store no longer has: its text should not stay in memory. In a cluster, a reader that found the page
    /// before may still add it afterwards.
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
        let slots: Vec<_> = slugs.iter().map(|slug| taken(entries, slug)).collect();
        self.measure();
        Box::new(slots)
    }
}

/// The slot of a page, from a reader too.
fn taken<'a>(entries: &'a Entries, slug: &Slug) -> CacheSlot<'a> {
    loop {
        entries.remove(slug);
        if let GuardResult::Guard(slot) = entries.get_value_or_guard(slug, Some(Duration::ZERO)) {
            return slot;
        }
    }
}

impl CachedPage {
    /// With one body, which has no coding.
    pub(super) fn new(page: PageFacts, representation: Representation, body: KeptBody) -> Self {
        Self { page, bodies: vec![CachedBody { representation, coding: Coding::Identity, body: Some(body) }] }
    }

    pub(super) fn made(&self, representation: Representation, coding: Coding) -> Made<'_> {
        let body = self.bodies.iter().find(|body| body.representation == representation && body.coding == coding);
        body.map_or(Made::Not, |made| made.body.as_ref().into())
    }

    fn is_same_state(&self, other: &Self) -> bool {
        self.page.state == other.page.state && self.page.renderer_version == other.page.renderer_version
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use handbill_pages::values::head::{PageState, PageVersion};
    use handbill_pages::values::slug::SlugSuffix;
    use handbill_pages::values::timestamp::UnixMillis;
    use handbill_pages::values::title::Title;

    const CACHE_BYTES: u64 = 8 * 1024 * 1024;

    const JSON: Representation = Representation::Json;
    const HTML: Representation = Representation::Html;

    fn slug(number: usize) -> Slug {
        let mut rest = number;
        let suffix = SlugSuffix::random(|bound| {
            let digit = rest % bound;
            rest /= bound;
            digit
        });
        Slug::derive(&Title::parse("A page").unwrap(), suffix)
    }

    fn state(version: u64) -> PageState {
        PageState { version: version.try_into().unwrap(), updated_at: UnixMillis::new(1) }
    }

    fn made(version: u64, representation: Representation, bytes: usize) -> CachedPage {
        let page = PageFacts { state: state(version), renderer_version: 1, is_noindex: false };
        CachedPage::new(page, representation, vec![0; bytes].into())
    }

    fn cache() -> PageCache {
        PageCache::new(CACHE_BYTES, PageCacheMetrics::default())
    }

    fn bytes(cache: &PageCache) -> u64 {
        cache.entries.as_ref().unwrap().weight()
    }

    fn entry(cache: &PageCache, slug: &Slug) -> Option<Arc<CachedPage>> {
        cache.entries.as_ref()?.get(slug)
    }

    /// As a reader does who found no entry, or no body in it.
    fn keep(cache: &PageCache, slug: &Slug, made: CachedPage) -> Arc<CachedPage> {
        let (_, slot) = cache.entry_or_slot(slug);
        cache.insert(slug, slot, made, Coding::Identity)
    }

    fn length(cached: &CachedPage, representation: Representation, coding: Coding) -> Option<usize> {
        match cached.made(representation, coding) {
            Made::Body(body) => Some(body.len()),
            Made::Not | Made::NotWorth => None,
        }
    }

    #[test]
    fn what_was_read_before_a_change_is_never_kept_after_it() {
        let (cache, page) = (PageCache { is_coherent: true, ..cache() }, slug(1));
        let (_, before) = cache.entry_or_slot(&page);
        let change = cache.change(&[&page, &page]);
        let (_, meanwhile) = cache.entry_or_slot(&page);
        for slot in [before, meanwhile] {
            cache.insert(&page, slot, made(1, JSON, 0), Coding::Identity);
            assert!(entry(&cache, &page).is_none());
        }
        drop(change);
        let earlier = keep(&cache, &page, made(1, JSON, 1000));
        assert!(entry(&cache, &page).is_some());
        let change = cache.change(&[&page]);
        assert!(entry(&cache, &page).is_none());
        cache.insert_gzip(&page, &earlier, JSON, Some(Vec::new().into()));
        drop(change);
        cache.insert_gzip(&page, &earlier, JSON, Some(Vec::new().into()));
        assert!(entry(&cache, &page).is_none());
        keep(&cache, &page, made(2, JSON, 1));
        // A reader that was overtaken.
        keep(&cache, &page, made(1, JSON, 1));
        assert_eq!(entry(&cache, &page).unwrap().page.state, state(2));
    }

    #[test]
    fn no_reader_on_any_thread_gets_what_a_change_has_replaced() {
        let (cache, page) = (PageCache { is_coherent: true, ..cache() }, slug(1));
        let (stored, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        let (hits, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::SeqCst) {
                        let oldest = answered.load(Ordering::SeqCst);
                        let (cached, slot) = cache.entry_or_slot(&page);
                        if let Some(cached) = cached {
                            assert!(cached.page.state.version.get() >= oldest);
                            hits.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                        let found = made(stored.load(Ordering::SeqCst), JSON, 0);
                        cache.insert(&page, slot, found, Coding::Identity);
                    }
                });
            }
            for version in 1.. {
                let change = cache.change(&[&page]);
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
    fn bodies_of_one_state_and_renderer_are_kept_together() {
        let (cache, page) = (cache(), slug(1));
        keep(&cache, &page, made(1, JSON, 1));
        let both = keep(&cache, &page, made(1, HTML, 2));
        let markdown = Representation::Markdown(crate::http::representation::Source::OwnAddress);
        assert_eq!([JSON, HTML, markdown].map(|one| length(&both, one, Coding::Identity)), [Some(1), Some(2), None]);
        let changed = keep(&cache, &page, made(2, HTML, 1));
        assert_eq!(length(&changed, JSON, Coding::Identity), None);
        let mut renewed = made(2, JSON, 1);
        renewed.page.renderer_version = 2;
        let renewed = keep(&cache, &page, renewed);
        assert_eq!(length(&renewed, HTML, Coding::Identity), None);
    }

    #[test]
    fn a_compressed_body_replaces_its_source_if_it_is_smaller() {
        let (cache, page) = (cache(), slug(1));
        let cached = keep(&cache, &page, made(1, JSON, 1000));
        let now = |coding| length(&entry(&cache, &page).unwrap(), JSON, coding);
        cache.insert_gzip(&page, &cached, JSON, None);
        assert!(now(Coding::Identity).is_some());
        assert!(matches!(entry(&cache, &page).unwrap().made(JSON, Coding::Gzip), Made::NotWorth));
        cache.insert_gzip(&page, &cached, JSON, Some(Vec::new().into()));
        assert!(now(Coding::Identity).is_none() && now(Coding::Gzip).is_some());
        // Two readers found no entry; the second one ends after the compression of what the first one added.
        let late = |prefers| cache.insert(&page, None, made(1, JSON, 1000), prefers);
        assert!(length(&late(Coding::Gzip), JSON, Coding::Identity).is_some());
        assert!(now(Coding::Identity).is_none(), "the source does not come back");
        late(Coding::Identity);
        assert!(now(Coding::Identity).is_some(), "a reader that takes only the source wants it");
        cache.drop_page(&page);
        cache.insert_gzip(&page, &cached, JSON, Some(Vec::new().into()));
        assert_eq!(bytes(&cache), 0, "an entry that was dropped does not come back");
    }

    #[test]
    fn entries_are_bounded_in_bytes_and_large_ones_are_not_kept() {
        let cache = cache();
        for number in 0..2000 {
            keep(&cache, &slug(number), made(1, JSON, 20_000));
            assert!(bytes(&cache) <= CACHE_BYTES, "{}", bytes(&cache));
        }
        assert!(bytes(&cache) > CACHE_BYTES / 2);
        assert_eq!(u64::try_from(cache.metrics.bytes.get()), Ok(bytes(&cache)));
        let (large, full) = (slug(2000), bytes(&cache));
        keep(&cache, &large, made(1, JSON, 1024 * 1024));
        assert!(entry(&cache, &large).is_none());
        assert_eq!(bytes(&cache), full);
    }

    #[test]
    fn a_body_of_an_earlier_state_does_not_displace_the_later_one() {
        let (cache, page) = (cache(), slug(1));
        let mut later = made(2, JSON, 1);
        later.page.state.updated_at = UnixMillis::new(2);
        let earlier = keep(&cache, &page, made(1, JSON, 1));
        keep(&cache, &page, later);
        keep(&cache, &page, made(1, JSON, 1));
        cache.insert_gzip(&page, &earlier, JSON, None);
        assert_eq!(entry(&cache, &page).unwrap().page.state.version, PageVersion::FIRST.next());
    }

    #[test]
    fn without_a_cache_nothing_is_kept() {
        let (off, page) = (PageCache::new(0, PageCacheMetrics::default()), slug(1));
        let cached = keep(&off, &page, made(1, JSON, 1));
        assert_eq!(length(&cached, JSON, Coding::Identity), Some(1), "the answer is made of it all the same");
        assert!(entry(&off, &page).is_none());
    }
}
