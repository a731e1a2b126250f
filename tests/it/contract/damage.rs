//! The embedded store's answers from a file with changed bytes: what was written, or that it cannot be read.

use std::sync::Arc;

use futures_util::FutureExt;
use handbill_core::domain::page::{Page, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, TakedownReason};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use handbill_store_redb::RedbStore;

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, noise, page};

/// A page of the database's file, in bytes.
const BLOCK_BYTES: usize = 4096;

/// The place of the flags in the head of the database's file, and that of the first of its two commits.
const FLAGS_AT: usize = 9;
const FIRST_SLOT_AT: usize = 64;

/// Size of what the head says of a commit, in bytes. Its second and third byte say whether it has trees.
const SLOT_BYTES: usize = 128;

/// Whether a page of the file has one record. Its first bytes are its kind (a leaf), a byte of padding and the number
/// of entries.
fn is_leaf_of_one(block: &[u8]) -> bool {
    block[0] == 1 && block[2..4] == [1, 0]
}

/// Every offset of `part` in `bytes`.
fn places(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(part.len())).filter(|&at| bytes[at..].starts_with(part)).collect()
}

/// The bytes of a file with a single page, and the record under its slug after `change`.
async fn file_of(page: &Arc<Page>, change: Option<Record>) -> (Vec<u8>, Lookup) {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    store.insert_if_absent(page.clone(), None).await.unwrap();
    if let Some(next) = change {
        assert_eq!(store.compare_and_set(page.head.version, next, None).await.unwrap(), CasResult::Swapped);
    }
    let written = store.lookup(&page.head.slug).await.unwrap();
    drop(store);
    (disk.bytes(), written)
}

/// The result of a lookup in a damaged file.
#[derive(Default, Debug)]
struct Seen {
    refused_at_start: usize,
    unreadable: usize,
    right: usize,
}

impl Seen {
    /// Looks up `slug` in a file of these bytes, which has `written` under it.
    async fn look(&mut self, bytes: Vec<u8>, slug: &Slug, written: &Lookup) {
        let disk = Disk::with(bytes);
        let Ok(store) = RedbStore::on(disk.storage()) else {
            self.refused_at_start += 1;
            return;
        };
        match store.lookup(slug).await {
            Ok(found) if found == *written => self.right += 1,
            Ok(other) => panic!("something else than was written: {other:?}"),
            Err(StoreError::Unreadable(_)) => self.unreadable += 1,
            Err(error) => panic!("damage does not pass: {error}"),
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_a_record_is_found_and_never_another_text() {
    let (small, old, deleted) = (Arc::new(page("A *small* page.")), Arc::new(page("old")), Arc::new(page("deleted")));
    let large = Arc::new(page(&noise(10_000)));
    let tombstone = deleted.head.tombstone(UnixMillis::new(CREATED + 5));
    for (page, change) in [
        (&small, None),
        (&large, None),
        (&old, Some(Record::Active(edited(&old, "new")))),
        (&deleted, Some(Record::Deleted(tombstone))),
    ] {
        let (whole, written) = file_of(page, change).await;
        let mut seen = Seen::default();
        // A record's value follows its key. Its length is at most this: its texts, and 100 bytes for the other fields.
        let len = page.head.slug.as_str().len() + page.text.content.as_str().len() + page.text.html.len() + 100;
        for key in places(&whole, page.head.slug.as_str().as_bytes()) {
            for at in (key..whole.len().min(key + len)).step_by(1 + len / 300) {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                seen.look(flipped, &page.head.slug, &written).await;
            }
        }
        // A tombstone has 23 bytes, and its key 20.
        assert!(seen.unreadable >= 40 || page.head.slug == large.head.slug && seen.unreadable >= 20, "{seen:?}");
    }
}

#[tokio::test]
async fn a_file_whose_head_or_tree_is_damaged_is_never_opened_as_one_without_its_pages() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    // Both commits of which the head knows have the first page.
    let pages = ["first", "second", "third"].map(|content| Arc::new(page(content)));
    for page in &pages {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    drop(store);
    let (whole, first) = (disk.bytes(), &pages[0]);
    let mut seen = Seen::default();
    // The head's flags: the commit that counts, whether the file must be repaired, whether commits have two phases.
    for flags in 0..8 {
        for slots_without_roots in [&[][..], &[0], &[1], &[0, 1]] {
            for damages_leaves in [false, true] {
                let mut bytes = whole.clone();
                bytes[FLAGS_AT] = flags;
                for slot in slots_without_roots {
                    bytes[FIRST_SLOT_AT + slot * SLOT_BYTES + 1..][..2].fill(0);
                }
                for at in places(&bytes, first.head.slug.as_str().as_bytes()) {
                    bytes[at + first.head.slug.as_str().len() + 30] ^= u8::from(damages_leaves);
                }
                seen.look(bytes, &first.head.slug, &Lookup::Active(first.clone())).await;
            }
        }
    }
    assert!(seen.refused_at_start >= 16 && seen.right >= 8, "{seen:?}");
}

#[tokio::test]
async fn a_slug_whose_key_is_damaged_is_neither_free_nor_unknown() {
    let page = Arc::new(page("A page."));
    let (mut bytes, _) = file_of(&page, None).await;
    for at in places(&bytes, page.head.slug.as_str().as_bytes()) {
        bytes[at + 3] ^= 1;
    }
    let store = RedbStore::on(Disk::with(bytes).storage()).unwrap();
    let error = store.lookup(&page.head.slug).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
    let error = store.insert_if_absent(page.clone(), None).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn a_record_in_the_place_of_another_is_found() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let (first, second) = (Arc::new(page("first")), Arc::new(page("other")));
    for page in [&first, &second] {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    drop(store);
    // Only the two keys are swapped.
    let (one, other) = (first.head.slug.as_str().as_bytes(), second.head.slug.as_str().as_bytes());
    let mut bytes = disk.bytes();
    let (mut at, mut swapped) = (0, 0);
    while at + one.len() <= bytes.len() {
        let window = &bytes[at..at + one.len()];
        let replacement = if window == one {
            other
        } else if window == other {
            one
        } else {
            &[]
        };
        bytes[at..at + replacement.len()].copy_from_slice(replacement);
        swapped += usize::from(!replacement.is_empty());
        at += replacement.len().max(1);
    }
    assert!(swapped >= 2);
    let mut seen = Seen::default();
    for page in [first, second] {
        seen.look(bytes.clone(), &page.head.slug, &Lookup::Active(page.clone())).await;
    }
    assert_eq!(seen.right, 0, "{seen:?}");
}

#[tokio::test]
async fn damage_that_makes_the_database_panic_is_unreadable_each_time_and_does_not_end_the_store() {
    let page = Arc::new(page("The only page."));
    let (mut bytes, _) = file_of(&page, None).await;
    let mut leaves = 0;
    for block in bytes.chunks_exact_mut(BLOCK_BYTES).filter(|block| is_leaf_of_one(block)) {
        if !places(block, page.head.slug.as_str().as_bytes()).is_empty() {
            // The end of the value is now far beyond the page.
            block[8..12].fill(0xff);
            leaves += 1;
        }
    }
    assert!(leaves > 0);
    let store = RedbStore::on(Disk::with(bytes).storage()).unwrap();
    for _ in 0..3 {
        let error = store.lookup(&page.head.slug).await.unwrap_err();
        let StoreError::Unreadable(cause) = error else { panic!("{error}") };
        assert!(cause.to_string().contains("the database panicked"), "{cause}");
    }
    assert!(store.fatal_error().now_or_never().is_none());
}

#[tokio::test]
async fn a_damaged_record_is_not_changed() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let damaged = Arc::new(page("A page that will be damaged."));
    store.insert_if_absent(damaged.clone(), None).await.unwrap();
    drop(store);
    let mut bytes = disk.bytes();
    let places = places(&bytes, damaged.text.content.as_str().as_bytes());
    assert!(!places.is_empty());
    for at in places {
        bytes[at] ^= 1;
    }
    let store = RedbStore::on(Disk::with(bytes).storage()).unwrap();
    let next = Record::Active(edited(&damaged, "next"));
    let error = store.compare_and_set(damaged.head.version, next, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
    let error = store.insert_if_absent(damaged.clone(), None).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
    let error = store.lookup(&damaged.head.slug).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
}

/// An operator takes it down: nothing of it is needed for that, and nobody else can.
#[tokio::test]
async fn only_a_record_that_cannot_be_read_is_replaced_by_a_tombstone_without_its_version() {
    let takedown = Takedown::new(TakedownReason::Malware, "desk").unwrap();
    let tombstone_of =
        |page: &Page| Tombstone::of_unreadable(page.head.slug.clone(), takedown.clone(), UnixMillis::new(7));
    let (damaged, unused) = (page("A page that will be damaged."), page("It was never stored."));
    for part in [damaged.text.content.as_str(), damaged.head.slug.as_str()] {
        let disk = Disk::default();
        let store = RedbStore::on(disk.storage()).unwrap();
        store.insert_if_absent(Arc::new(damaged.clone()), None).await.unwrap();
        let refused = store.delete_unreadable(tombstone_of(&damaged)).await.unwrap();
        assert_eq!(refused, CasResult::Stale, "it can be read");
        drop(store);
        let mut bytes = disk.bytes();
        for at in places(&bytes, part.as_bytes()) {
            bytes[at] ^= 1;
        }

        let store = RedbStore::on(Disk::with(bytes).storage()).unwrap();
        let found = store.lookup(&damaged.head.slug).await;
        assert!(matches!(found, Err(StoreError::Unreadable(_))), "{found:?}");
        let tombstone = tombstone_of(&damaged);
        assert_eq!(store.delete_unreadable(tombstone.clone()).await.unwrap(), CasResult::Swapped);
        assert_eq!(store.lookup(&damaged.head.slug).await.unwrap(), Lookup::Deleted(tombstone.clone()));
        assert_eq!(store.delete_unreadable(tombstone).await.unwrap(), CasResult::Stale, "it is deleted");
        assert_eq!(store.delete_unreadable(tombstone_of(&unused)).await.unwrap(), CasResult::Stale);
        assert_eq!(store.lookup(&unused.head.slug).await.unwrap(), Lookup::Absent);
    }
}
