//! The embedded store on a disk that fails, fills up or loses power.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_store_redb::RedbStore;
use tokio::time::timeout;

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, noise, page};

/// Longest wait for the end of a store that must end. Nothing depends on it being short.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Why `store` ended.
async fn why_it_ended(store: &RedbStore) -> String {
    timeout(MAX_WAIT, store.fatal_error()).await.expect("the store says why it ended").to_string()
}

fn large() -> Arc<Page> {
    Arc::new(page(&noise(102_000)))
}

/// A store on a new disk with one page in it.
async fn with_one_page() -> (Disk, RedbStore, Arc<Page>) {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    // This leaves room in the file, so that no later write has to grow it, which syncs it once more.
    store.insert_if_absent(large(), None).await.unwrap();
    let page = Arc::new(page("there"));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    (disk, store, page)
}

async fn found(store: &RedbStore, page: &Arc<Page>) -> bool {
    match store.lookup(&page.head.slug).await.unwrap() {
        Lookup::Active(found) => found == *page,
        Lookup::Absent => false,
        Lookup::Hidden(_) | Lookup::Deleted(_) => panic!("never deleted"),
    }
}

async fn survives_power_failure(disk: &Disk, page: &Arc<Page>) -> bool {
    found(&RedbStore::on(disk.after_power_failure().storage()).unwrap(), page).await
}

#[tokio::test]
async fn an_acknowledged_write_survives_a_power_failure() {
    let (disk, store, page) = with_one_page().await;
    assert!(survives_power_failure(&disk, &page).await);
    let next = edited(&page, "next");
    store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert!(survives_power_failure(&disk, &next).await);
    let tombstone = next.head.tombstone(UnixMillis::new(CREATED + 2000));
    store.compare_and_set(next.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    let survived = RedbStore::on(disk.after_power_failure().storage()).unwrap();
    assert_eq!(survived.lookup(&page.head.slug).await.unwrap(), Lookup::Deleted(tombstone));
}

#[tokio::test]
async fn a_power_failure_at_any_sync_that_keeps_any_part_of_the_unsynced_loses_nothing_acknowledged() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    disk.keep_moments();
    let mut pages = Vec::new();
    for number in 1..=6 {
        let page = Arc::new(page(&noise(number * 3000)));
        store.insert_if_absent(page.clone(), None).await.unwrap();
        disk.acknowledge();
        pages.push(page);
    }
    let moments = disk.moments();
    assert!(moments.len() >= 12, "a commit has two phases");
    // The sectors that are kept: none, all, and some by a fixed sequence of numbers.
    let mut state = 1_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 31 == 1
    };
    for moment in moments {
        let mut disks = vec![moment.power_failure(|| false), moment.power_failure(|| true)];
        disks.extend((0..6).map(|_| moment.power_failure(&mut random)));
        for disk in disks {
            let survived = RedbStore::on(disk.storage()).unwrap();
            for page in &pages[..moment.acknowledged] {
                assert!(found(&survived, page).await);
            }
            for page in &pages[moment.acknowledged..] {
                // The write was not acknowledged, so its page is there completely or not at all.
                found(&survived, page).await;
            }
            assert_eq!(survived.insert_if_absent(large(), None).await.unwrap(), InsertResult::Inserted);
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_keeps_what_was_acknowledged_and_needs_no_restart_once_there_is_room() {
    let (disk, store, page) = with_one_page().await;
    let lost = [large(), large(), large()];
    disk.fill();
    for lost in &lost {
        let refused = store.insert_if_absent(lost.clone(), None).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
        assert!(found(&store, &page).await);
        assert!(!found(&store, lost).await);
        assert!(survives_power_failure(&disk, &page).await);
    }
    disk.make_room();
    assert_eq!(store.insert_if_absent(lost[0].clone(), None).await.unwrap(), InsertResult::Inserted);
    assert!(found(&store, &lost[0]).await);
    assert!(survives_power_failure(&disk, &lost[0]).await);
    assert!(survives_power_failure(&disk, &page).await);
}

#[tokio::test]
async fn on_a_disk_that_refuses_every_write_lookups_go_on_and_writes_resume_when_it_takes_them_again() {
    let (disk, store, page) = with_one_page().await;
    let next = edited(&page, "next");
    disk.refuse_writes(true);
    for _ in 0..3 {
        let refused = store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
        assert!(found(&store, &page).await);
    }
    disk.refuse_writes(false);
    let swapped = store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert_eq!(swapped, CasResult::Swapped);
    assert!(found(&store, &next).await);
    assert!(survives_power_failure(&disk, &next).await);
}

#[tokio::test]
async fn a_commit_that_fails_before_it_counts_is_unavailable_and_not_made() {
    let (disk, store, page) = with_one_page().await;
    let lost = Arc::new(page_like(&page));
    disk.fail_sync(0, false);
    let refused = store.insert_if_absent(lost.clone(), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!(!found(&store, &lost).await);
    assert!(found(&store, &page).await);
    assert_eq!(store.insert_if_absent(lost.clone(), None).await.unwrap(), InsertResult::Inserted);
    assert!(survives_power_failure(&disk, &lost).await);
}

#[tokio::test]
async fn a_commit_that_fails_at_its_end_is_read_back_and_acknowledged_once_it_is_on_disk() {
    let (disk, store, page) = with_one_page().await;
    let made = Arc::new(page_like(&page));
    disk.fail_sync(1, false);
    assert_eq!(store.insert_if_absent(made.clone(), None).await.unwrap(), InsertResult::Inserted);
    assert!(found(&store, &made).await);
    assert!(survives_power_failure(&disk, &made).await);
    assert!(survives_power_failure(&disk, &page).await);
}

#[tokio::test]
async fn a_commit_that_can_be_read_back_but_not_synced_has_an_unknown_outcome_and_is_whole_either_way() {
    let (disk, store, page) = with_one_page().await;
    let maybe = Arc::new(page_like(&page));
    disk.fail_sync(1, true);
    let unknown = store.insert_if_absent(maybe.clone(), None).await.unwrap_err();
    assert!(matches!(unknown, StoreError::OutcomeUnknown(_)), "{unknown}");
    assert!(found(&store, &page).await);
    let refused = store.insert_if_absent(large(), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");

    disk.heal_syncs();
    assert_eq!(store.insert_if_absent(large(), None).await.unwrap(), InsertResult::Inserted);
    let there = found(&store, &maybe).await;
    assert_eq!(survives_power_failure(&disk, &maybe).await, there);
    assert!(survives_power_failure(&disk, &page).await);
}

#[tokio::test]
async fn a_failed_batch_is_answered_to_every_one_of_its_callers() {
    let (disk, store, page) = with_one_page().await;
    let held = disk.hold_syncs();
    let mut first = store.insert_if_absent(Arc::new(page_like(&page)), None);
    assert!((&mut first).now_or_never().is_none());
    held.wait_for_one();
    let mut others: Vec<_> = (0..10).map(|_| store.insert_if_absent(Arc::new(page_like(&page)), None)).collect();
    for other in &mut others {
        assert!(other.now_or_never().is_none());
    }
    disk.refuse_writes(true);
    drop(held);
    for write in std::iter::once(first).chain(others) {
        assert!(matches!(write.await, Err(StoreError::Unavailable(_))));
    }
    assert!(found(&store, &page).await);
}

#[tokio::test]
async fn on_a_disk_that_does_not_answer_a_begun_write_is_unknown_and_all_else_unavailable_until_it_does() {
    let (disk, store, page) = with_one_page().await;
    let next = edited(&page, "next");
    disk.refuse_reads(true);
    disk.refuse_writes(true);
    let unknown = store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap_err();
    assert!(matches!(unknown, StoreError::OutcomeUnknown(_)), "{unknown}");
    let refused = store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    let refused = store.lookup(&page.head.slug).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    disk.refuse_reads(false);
    disk.refuse_writes(false);
    let swapped = store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert_eq!(swapped, CasResult::Swapped);
    assert!(found(&store, &next).await);
}

#[tokio::test]
async fn a_lookup_that_meets_one_failed_read_finds_its_page_all_the_same() {
    let (disk, store, page) = with_one_page().await;
    // There are more pages than fit into the cache, so some of them must be read from the disk.
    let mut pages = Vec::new();
    for _ in 0..20 {
        let mut large = page_like(&page);
        // Its text is too long to be compressed.
        large.text.html = "x".repeat(5_000_000);
        pages.push(Arc::new(large));
    }
    for page in &pages {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    disk.fail_one_read();
    for page in &pages {
        assert!(found(&store, page).await);
    }
    assert!(disk.has_failed_that_read());
    assert_eq!(store.insert_if_absent(large(), None).await.unwrap(), InsertResult::Inserted);
}

#[tokio::test]
async fn a_panic_while_the_file_is_opened_again_ends_the_store_and_says_why() {
    let (disk, store, page) = with_one_page().await;
    disk.panic_when_opened();
    disk.fail_sync(1, false);
    let unknown = store.insert_if_absent(Arc::new(page_like(&page)), None).await.unwrap_err();
    assert!(matches!(unknown, StoreError::OutcomeUnknown(_)), "the commit may have been made: {unknown}");
    let why = why_it_ended(&store).await;
    assert!(why.contains("as planned") && !why.contains('\n'), "{why}");
    let refused = store.insert_if_absent(large(), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    let refused = store.lookup(&page.head.slug).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    store.close().await;
    assert!(survives_power_failure(&disk, &page).await);
}

#[tokio::test]
async fn a_panic_anywhere_on_the_writer_thread_ends_the_store_and_says_why() {
    let (disk, store, page) = with_one_page().await;
    store.observe_commits(|_| panic!("as planned"));
    // The commit before this one may not have been observed yet; then this one has not started.
    let _ = store.insert_if_absent(large(), None).await;
    let why = why_it_ended(&store).await;
    assert!(why.contains("as planned") && !why.contains('\n'), "{why}");
    assert!(survives_power_failure(&disk, &page).await);
}

#[tokio::test]
async fn a_file_that_was_damaged_so_that_it_cannot_be_opened_again_ends_the_store_and_says_why() {
    let (disk, store, page) = with_one_page().await;
    disk.damage(|bytes| bytes[4096..].fill(0xaa));
    disk.fail_sync(0, false);
    store.insert_if_absent(Arc::new(page_like(&page)), None).await.unwrap_err();
    let why = why_it_ended(&store).await;
    assert!(why.contains("is damaged") && !why.contains('\n'), "{why}");
}

#[tokio::test]
async fn a_store_that_works_or_was_closed_has_not_failed() {
    let (_disk, store, page) = with_one_page().await;
    assert!(store.fatal_error().now_or_never().is_none());
    store.close().await;
    store.lookup(&page.head.slug).await.unwrap_err();
    assert!(store.fatal_error().now_or_never().is_none());
}

fn page_like(page: &Page) -> Page {
    crate::support::pages::page(page.text.content.as_str())
}
