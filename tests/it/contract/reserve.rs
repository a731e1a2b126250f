//! The embedded store on a volume that is full but for the room that it keeps for deletions.

use std::sync::Arc;

use futures_util::future::join_all;
use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_store_redb::RedbStore;

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, noise, page};

/// A store on a disk with `pages` pages of some KB, which has become full.
async fn full_with(pages: usize) -> (Disk, RedbStore, Vec<Arc<Page>>) {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let pages: Vec<_> = (0..pages).map(|number| Arc::new(page(&noise(1000 + 37 * number)))).collect();
    for page in &pages {
        assert_eq!(store.insert_if_absent(page.clone(), None).await.unwrap(), InsertResult::Inserted);
    }
    disk.fill();
    // Creates use up what the file still has.
    while store.insert_if_absent(large(), None).await.is_ok() {}
    while store.insert_if_absent(small(), None).await.is_ok() {}
    (disk, store, pages)
}

fn large() -> Arc<Page> {
    Arc::new(page(&noise(102_000)))
}

fn small() -> Arc<Page> {
    Arc::new(page("x"))
}

async fn delete(store: &RedbStore, page: &Page) -> Result<CasResult, StoreError> {
    let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 2000));
    store.compare_and_set(page.head.version, Record::Deleted(tombstone), None).await
}

async fn is_deleted(store: &RedbStore, page: &Page) -> bool {
    matches!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Deleted(_))
}

fn is_unavailable<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Unavailable(_)))
}

#[tokio::test]
async fn on_a_full_volume_every_deletion_is_done_and_survives_a_power_failure() {
    let (disk, store, pages) = full_with(200).await;
    let (one_by_one, at_once) = pages.split_at(100);
    for page in one_by_one {
        assert_eq!(delete(&store, page).await.unwrap(), CasResult::Swapped);
    }
    for deleted in join_all(at_once.iter().map(|page| delete(&store, page))).await {
        assert_eq!(deleted.unwrap(), CasResult::Swapped);
    }
    let survived = RedbStore::on(disk.after_power_failure().storage()).unwrap();
    for page in &pages {
        assert!(is_deleted(&store, page).await && is_deleted(&survived, page).await);
    }
}

#[tokio::test]
async fn a_create_or_update_never_uses_the_room_for_deletions_and_resumes_when_there_is_room() {
    let (disk, store, pages) = full_with(20).await;
    let updated = Record::Active(edited(&pages[1], &noise(100_000)));
    for _ in 0..3 {
        assert!(is_unavailable(&store.insert_if_absent(large(), None).await));
        assert!(is_unavailable(&store.compare_and_set(pages[1].head.version, updated.clone(), None).await));
    }
    // They fail as well if a deletion of the same commit gets the room.
    let (deleted, created) = tokio::join!(delete(&store, &pages[0]), store.insert_if_absent(large(), None));
    assert_eq!(deleted.unwrap(), CasResult::Swapped);
    assert!(is_unavailable(&created));
    for _ in 0..3 {
        assert!(is_unavailable(&store.insert_if_absent(large(), None).await));
    }
    assert_eq!(delete(&store, &pages[2]).await.unwrap(), CasResult::Swapped);
    disk.make_room();
    assert_eq!(store.insert_if_absent(large(), None).await.unwrap(), InsertResult::Inserted);
    disk.fill();
    assert_eq!(delete(&store, &pages[3]).await.unwrap(), CasResult::Swapped);
}

#[tokio::test]
async fn a_full_volume_is_not_tried_again_until_it_has_room() {
    let (disk, store, _) = full_with(3).await;
    let opened = disk.opened();
    for _ in 0..100 {
        assert!(is_unavailable(&store.insert_if_absent(small(), None).await));
    }
    assert_eq!(disk.opened(), opened, "each attempt opens the database again");
    disk.make_room();
    assert_eq!(store.insert_if_absent(large(), None).await.unwrap(), InsertResult::Inserted);
}

#[tokio::test]
async fn a_deletion_is_done_even_if_the_database_cannot_be_opened_for_writing_without_the_room_for_deletions() {
    let (disk, store, pages) = full_with(3).await;
    disk.never_write_in_place();
    assert!(is_unavailable(&store.insert_if_absent(large(), None).await));
    assert!(!is_deleted(&store, &pages[0]).await, "it can be read");
    for page in &pages {
        assert_eq!(delete(&store, page).await.unwrap(), CasResult::Swapped);
        assert!(is_deleted(&store, page).await);
    }
}
