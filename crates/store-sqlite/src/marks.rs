//! How a cached page is known to be current: a slug's mark changes whenever its page may have changed.
//!
//! A reader takes the mark, looks the page up, and keeps both. The writer invalidates marks before it commits, and
//! gives new ones afterwards. Slugs share marks, so a mark may change without need.

use std::sync::atomic::{AtomicU64, Ordering};

use handbill_pages::values::slug::Slug;
use xxhash_rust::xxh3::xxh3_64;

/// 8 bytes each.
const MARKS: usize = 4096;

/// Counts the changes under way, at most 256.
const UNDER_WAY: u64 = 0xffff;

const CHANGED: u64 = UNDER_WAY + 1;

pub(super) struct Marks(Box<[AtomicU64]>);

pub(super) struct Changing<'a>(Vec<&'a AtomicU64>);

impl Default for Marks {
    fn default() -> Self {
        Self((0..MARKS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Marks {
    /// `None` while the page may be changing.
    pub(super) fn get(&self, slug: &Slug) -> Option<u64> {
        Some(self.of(slug).load(Ordering::SeqCst)).filter(|mark| mark & UNDER_WAY == 0)
    }

    pub(super) fn change<'a>(&'a self, slugs: impl Iterator<Item = &'a Slug>) -> Changing<'a> {
        Self::changing(slugs.map(|slug| self.of(slug)))
    }

    pub(super) fn change_all(&self) -> Changing<'_> {
        Self::changing(self.0.iter())
    }

    fn changing<'a>(marks: impl Iterator<Item = &'a AtomicU64>) -> Changing<'a> {
        let marks: Vec<_> = marks.collect();
        for mark in &marks {
            mark.fetch_add(1, Ordering::SeqCst);
        }
        Changing(marks)
    }

    fn of(&self, slug: &Slug) -> &AtomicU64 {
        #[expect(clippy::cast_possible_truncation, reason = "any part of the hash will do")]
        let hash = xxh3_64(slug.as_str().as_bytes()) as usize;
        &self.0[hash % MARKS]
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for mark in &self.0 {
            mark.fetch_add(CHANGED - 1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_mark_while_it_changes_and_another_one_afterwards() {
        let (marks, slug) = (Marks::default(), Slug::parse("a-page-22222222").unwrap());
        let before = marks.get(&slug);
        let first = marks.change([&slug].into_iter());
        let second = marks.change_all();
        assert_eq!(marks.get(&slug), None);
        drop(first);
        assert_eq!(marks.get(&slug), None, "another change is under way");
        drop(second);
        assert!(marks.get(&slug).is_some() && marks.get(&slug) != before);
    }
}
