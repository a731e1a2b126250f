//! The heads that this process has read or written last, so that a write need not read its head again.
//!
//! A write is conditional on the version and time of the head that it replaces. So a head that has changed since makes the
//! write lose; it never makes the write wrong.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;

use super::nonces::Nonces;
use crate::domain::page::{PageHead, PageVersion, TextId};
use crate::domain::slug::Slug;

/// How many heads are kept, of less than 2 KiB each.
const HEADS: NonZero<usize> = NonZero::new(2048).expect("it is not zero");

/// The head of an active page, and what else its replacement must know.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) head: PageHead,
    pub(super) text: TextId,
    pub(super) nonces: Nonces,
}

/// The last heads, by slug.
pub(super) struct RecentHeads(Mutex<LruCache<Slug, Base>>);

impl RecentHeads {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(HEADS)))
    }

    /// Keeps `base`, unless a newer head is kept.
    pub(super) fn keep(&self, base: Base) {
        self.with(|heads| {
            let is_newer = |kept: &Base| kept.head.updated_at > base.head.updated_at;
            if !heads.peek(&base.head.slug).is_some_and(is_newer) {
                heads.put(base.head.slug.clone(), base);
            }
        });
    }

    /// Forgets the head of `slug`.
    pub(super) fn forget(&self, slug: &Slug) {
        self.with(|heads| heads.pop(slug));
    }

    /// The head of `slug` at this version, if it is kept.
    pub(super) fn at(&self, slug: &Slug, version: PageVersion) -> Option<Base> {
        self.with(|heads| heads.get(slug).filter(|base| base.head.version == version).cloned())
    }

    fn with<T>(&self, work: impl FnOnce(&mut LruCache<Slug, Base>) -> T) -> T {
        // Nothing panics while the lock is held, so the list is consistent even if it is poisoned.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
