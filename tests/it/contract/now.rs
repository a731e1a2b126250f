//! Lookups of the embedded store that neither wait nor use another thread.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use handbill_core::domain::page::{Page, PageHead};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{InsertResult, Lookup, PageStore, ReadsNow, Record};
use handbill_store_redb::RedbStore;

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, page as new_page, slug, with_head};

/// The lookups that may wait for the disk at the same time.
const LOOKUPS_AT_ONCE: usize = 16;

/// Longest wait for a call that must not wait. Nothing depends on it being short.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// A store that has none of its file in memory, with one page in it.
async fn with_one_page() -> (Disk, Arc<RedbStore>, Arc<Page>) {
    let disk = Disk::default().without_cache();
    let store = Arc::new(RedbStore::on(disk.storage()).unwrap());
    let page = Arc::new(new_page("there"));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    (disk, store, page)
}

/// The result of a lookup that must not wait, on a thread of its own; an error if it waits.
fn looked_up_in_time(store: &Arc<RedbStore>, slug: &Slug) -> Result<Option<Lookup>, RecvTimeoutError> {
    let (answer, answered) = mpsc::channel();
    let (store, slug) = (Arc::clone(store), slug.clone());
    thread::spawn(move || answer.send(store.lookup_now(&slug, usize::MAX)));
    answered.recv_timeout(MAX_WAIT)
}

#[tokio::test]
async fn while_a_disk_does_not_answer_pages_in_memory_are_found_on_the_only_thread() {
    let (disk, store, page) = with_one_page().await;
    disk.keep_in_memory(Some(0));
    for _ in 0..100 {
        assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), None);
    }
    disk.keep_in_memory(None);
    let held = disk.hold_reads();
    let waiting: Vec<_> = (0..LOOKUPS_AT_ONCE + 10)
        .map(|_| {
            let (store, slug) = (Arc::clone(&store), page.head.slug.clone());
            tokio::spawn(async move { store.lookup(&slug).await.unwrap() })
        })
        .collect();
    let held = tokio::task::spawn_blocking(move || {
        held.wait_for(LOOKUPS_AT_ONCE);
        held
    });
    let held = held.await.unwrap();
    // Every thread for lookups waits for the disk, and further lookups wait for a thread.
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Active(page.clone())));
    assert_eq!(store.head(&page.head.slug).now_or_never().unwrap().unwrap(), Lookup::Active(page.head.clone()));
    disk.keep_in_memory(Some(0));
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), None);
    drop(held);
    for found in join_all(waiting).await {
        assert_eq!(found.unwrap(), Lookup::Active(page.clone()));
    }
}

#[tokio::test]
async fn what_is_found_without_waiting_is_what_a_lookup_finds() {
    let (_disk, store, page) = with_one_page().await;
    let never = new_page("never stored");
    assert_eq!(store.lookup_now(&never.head.slug, usize::MAX), Some(Lookup::Absent));
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Active(page.clone())));
    assert_eq!(store.known_state(&page.head.slug), Some(page.head.state()), "it shows the page's state like a lookup");
    let next = edited(&page, "next");
    store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert_eq!(store.known_state(&page.head.slug), None);
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Active(next.clone())));
    assert_eq!(store.known_state(&page.head.slug), Some(next.head.state()));
    let tombstone = next.head.tombstone(UnixMillis::new(CREATED + 2000));
    store.compare_and_set(next.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Deleted(tombstone)));
    store.close().await;
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), None);
}

#[tokio::test]
async fn a_lookup_that_would_wait_at_any_of_its_reads_ends_there_and_leaves_the_store_as_it_was() {
    let (disk, store, mut page) = with_one_page().await;
    let never = new_page("never stored").head.slug;
    let mut most = 0;
    for reads in 0.. {
        disk.keep_in_memory(Some(reads));
        let found = store.lookup_now(&page.head.slug, usize::MAX);
        disk.keep_in_memory(Some(reads));
        let absent = store.lookup_now(&never, usize::MAX);
        disk.keep_in_memory(None);
        // Nothing was left locked: the same thread, other threads and the writer go on.
        assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Active(page.clone())));
        assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page.clone()));
        let next = edited(&page, "next");
        store.compare_and_set(page.head.version, Record::Active(next.clone()), None).await.unwrap();
        let other = Arc::new(new_page("another"));
        assert_eq!(store.insert_if_absent(other, None).await.unwrap(), InsertResult::Inserted);
        match (found, absent) {
            (Some(found), Some(absent)) => {
                assert_eq!((found, absent), (Lookup::Active(page.clone()), Lookup::Absent));
                break;
            }
            _ => most = reads + 1,
        }
        page = next;
    }
    // Closing the file waits for reads in progress. None of those that ended early is left.
    store.close().await;
    drop(store);
    let reopened = RedbStore::on(disk.storage()).unwrap();
    assert!(matches!(reopened.lookup(&page.head.slug).await.unwrap(), Lookup::Active(_)));
    assert!(most >= 2, "a lookup reads the tables' tree and a table, and this one made {most} reads");
}

#[tokio::test]
async fn a_lookup_that_must_not_wait_and_meets_a_failed_read_leaves_it_to_one_that_may() {
    let (disk, store, page) = with_one_page().await;
    disk.fail_one_read();
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), None);
    assert!(disk.has_failed_that_read());
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), None, "the file must be opened again");
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page.clone()));
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Active(page.clone())));
    disk.refuse_reads(true);
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), None);
    disk.refuse_reads(false);
    assert_eq!(store.head(&page.head.slug).await.unwrap(), Lookup::Active(page.head.clone()));
}

#[tokio::test]
async fn while_the_file_grows_a_lookup_that_must_not_wait_does_not() {
    let (disk, store, page) = with_one_page().await;
    let large = new_page(&"x".repeat(102_400));
    let pages: Vec<_> = (0..200).map(|_| with_head(&large, |head| PageHead { slug: slug(), ..head })).collect();
    let growing = disk.hold_growth();
    let written = Arc::clone(&store);
    let writing = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(join_all(pages.into_iter().map(|page| written.insert_if_absent(page, None))))
    });
    growing.wait_for_one();
    let found = looked_up_in_time(&store, &page.head.slug);
    drop(growing);
    assert_eq!(found, Ok(None));
    for written in writing.join().unwrap() {
        assert_eq!(written.unwrap(), InsertResult::Inserted);
    }
    assert_eq!(store.lookup_now(&page.head.slug, usize::MAX), Some(Lookup::Active(page)));
}

#[tokio::test]
async fn while_the_writer_opens_the_file_again_a_lookup_that_must_not_wait_does_not() {
    let (disk, store, page) = with_one_page().await;
    let syncs = disk.hold_syncs();
    let mut write = store.insert_if_absent(Arc::new(new_page("another")), None);
    assert!((&mut write).now_or_never().is_none());
    syncs.wait_for_one();
    disk.fail_sync(0, false);
    let reads = disk.hold_reads();
    drop(syncs);
    // The writer has closed the file and reads it for opening.
    reads.wait_for(1);
    let found = looked_up_in_time(&store, &page.head.slug);
    drop(reads);
    assert_eq!(found, Ok(None));
    let _ = write.await;
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
}
