//! Commits that several writes of the embedded store share, and what readers and callers see meanwhile.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_store_redb::RedbStore;
use rustix::process::getpriority_process;
use tokio::time;

use super::disk::Disk;
use crate::support::pages::{CREATED, edited, page, page_at};

/// A store on `disk`, and the number of operations in each of its commits.
fn observed(disk: &Disk) -> (RedbStore, Arc<Mutex<Vec<usize>>>) {
    let store = RedbStore::on(disk.storage()).unwrap();
    let commits = Arc::new(Mutex::new(Vec::new()));
    let counted = commits.clone();
    store.observe_commits(move |commit| counted.lock().unwrap().push(commit.operations));
    (store, commits)
}

/// Polls `future` once, which queues its operation.
fn begin<T>(future: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) {
    assert!(future.now_or_never().is_none());
}

#[tokio::test]
async fn writes_that_wait_for_a_commit_share_the_next_one() {
    let disk = Disk::default();
    let (store, commits) = observed(&disk);
    let pages: Vec<_> = (0..41).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    let held = disk.hold_syncs();
    let mut writes: Vec<_> = pages.iter().map(|page| store.insert_if_absent(page.clone(), None)).collect();
    begin(&mut writes[0]);
    held.wait_for_one();
    writes[1..].iter_mut().for_each(begin);
    drop(held);
    for inserted in join_all(writes).await {
        assert_eq!(inserted.unwrap(), InsertResult::Inserted);
    }
    store.close().await;
    assert_eq!(*commits.lock().unwrap(), [1, 40]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_writer_leaves_the_core_to_threads_that_answer() {
    let store = RedbStore::on(Disk::default().storage()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    store.observe_commits(move |_| tell.send(getpriority_process(None).unwrap()).unwrap());
    store.insert_if_absent(Arc::new(page("a page")), None).await.unwrap();
    let own = getpriority_process(None).unwrap();
    assert_eq!(told.recv().unwrap(), (own + 10).min(19));
    assert_eq!(getpriority_process(None).unwrap(), own, "only the writer's own thread");
}

#[tokio::test]
async fn a_batch_is_bounded_in_operations_and_in_bytes() {
    let disk = Disk::default();
    let (store, commits) = observed(&disk);
    let (small, large) = (Arc::new(page("small")), Arc::new(page(&"x".repeat(102_400))));
    let held = disk.hold_syncs();
    let mut first = store.insert_if_absent(Arc::new(page("first")), None);
    begin(&mut first);
    held.wait_for_one();
    let mut writes = vec![first];
    writes.extend((0..300).map(|_| store.insert_if_absent(small.clone(), None)));
    writes.extend((0..300).map(|_| store.insert_if_absent(large.clone(), None)));
    for write in &mut writes[1..] {
        tokio::task::unconstrained(async { begin(write) }).await;
    }
    drop(held);
    join_all(writes).await;
    store.close().await;
    // After the first insert, the second commit has 256 small ones. The third has the other 44, and as many large ones
    // of 0.2 MB as fit into 4 MiB. For the inserts after those the slugs are taken, so there is nothing to commit.
    assert_eq!(*commits.lock().unwrap(), [1, 256, 44 + 20]);
}

#[tokio::test]
async fn operations_of_one_batch_see_those_before_them() {
    let disk = Disk::default();
    let (store, commits) = observed(&disk);
    let first = Arc::new(page("first"));
    let other = Arc::new(page_at(first.head.slug.clone(), "other"));
    let second = edited(&first, "second");
    let tombstone = second.head.tombstone(UnixMillis::new(CREATED + 2000));
    let held = disk.hold_syncs();
    let mut before = store.insert_if_absent(Arc::new(page("before")), None);
    begin(&mut before);
    held.wait_for_one();
    let mut inserts = [store.insert_if_absent(first.clone(), None), store.insert_if_absent(other, None)];
    inserts.iter_mut().for_each(begin);
    let mut swaps = [
        store.compare_and_set(first.head.version, Record::Active(second.clone()), None),
        store.compare_and_set(first.head.version, Record::Active(second.clone()), None),
        store.compare_and_set(second.head.version, Record::Deleted(tombstone.clone()), None),
    ];
    swaps.iter_mut().for_each(begin);
    drop(held);
    before.await.unwrap();
    let inserted: Vec<_> = join_all(inserts).await.into_iter().map(Result::unwrap).collect();
    // The record that was in the way is read after the commit, which has deleted it.
    assert_eq!(inserted, [InsertResult::Inserted, InsertResult::SlugTaken(Record::Deleted(tombstone.clone()))]);
    let swapped = join_all(swaps).await.into_iter().map(Result::unwrap);
    assert_eq!(swapped.collect::<Vec<_>>(), [CasResult::Swapped, CasResult::Stale, CasResult::Swapped]);
    assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Lookup::Deleted(tombstone));
    store.close().await;
    assert_eq!(*commits.lock().unwrap(), [1, 5]);
}

#[tokio::test]
async fn a_lookup_does_not_wait_for_a_commit_and_a_write_does() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    // This leaves room in the file. A write that has to grow it syncs it then too, for which lookups do wait.
    store.insert_if_absent(Arc::new(page(&"x".repeat(102_400))), None).await.unwrap();
    let there = Arc::new(page("there"));
    store.insert_if_absent(there.clone(), None).await.unwrap();
    let (coming, next) = (Arc::new(page("coming")), edited(&there, "next"));

    let held = disk.hold_syncs();
    let mut insert = store.insert_if_absent(coming.clone(), None);
    begin(&mut insert);
    held.wait_for_one();
    let mut swap = store.compare_and_set(there.head.version, Record::Active(next.clone()), None);
    begin(&mut swap);
    for _ in 0..10 {
        assert_eq!(store.lookup(&there.head.slug).await.unwrap(), Lookup::Active(there.clone()));
    }
    assert!((&mut insert).now_or_never().is_none());
    let survived = RedbStore::on(disk.after_power_failure().storage()).unwrap();
    assert_eq!(survived.lookup(&coming.head.slug).await.unwrap(), Lookup::Absent);

    drop(held);
    insert.await.unwrap();
    swap.await.unwrap();
    assert_eq!(store.lookup(&coming.head.slug).await.unwrap(), Lookup::Active(coming));
    assert_eq!(store.lookup(&there.head.slug).await.unwrap(), Lookup::Active(next));
}

#[tokio::test]
async fn a_write_given_up_before_its_turn_is_not_done_and_one_given_up_later_is() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let (begun, waiting) = (Arc::new(page("begun")), Arc::new(page("waiting")));
    let held = disk.hold_syncs();
    let mut first = store.insert_if_absent(begun.clone(), None);
    begin(&mut first);
    held.wait_for_one();
    let mut second = store.insert_if_absent(waiting.clone(), None);
    begin(&mut second);
    drop((first, second));
    drop(held);
    store.insert_if_absent(Arc::new(page("after")), None).await.unwrap();
    assert_eq!(store.lookup(&begun.head.slug).await.unwrap(), Lookup::Active(begun));
    assert_eq!(store.lookup(&waiting.head.slug).await.unwrap(), Lookup::Absent);
}

// Time is paused. It advances to the limit when nothing else can happen.
#[tokio::test(start_paused = true)]
async fn a_write_that_finds_the_queue_full_is_unavailable_after_a_time_limit_and_not_done() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let large = Arc::new(page(&"x".repeat(102_400)));
    let held = disk.hold_syncs();
    // Each insert takes 0.2 MB of the queue's 64 MiB.
    let mut queued: Vec<_> = (0..321).map(|_| store.insert_if_absent(large.clone(), None)).collect();
    for write in &mut queued {
        tokio::task::unconstrained(async { begin(write) }).await;
    }
    let late = Arc::new(page(&"y".repeat(102_400)));
    let refused = time::timeout(Duration::from_mins(1), store.insert_if_absent(late.clone(), None)).await;
    let refused = refused.expect("the limit is shorter").unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    drop(held);
    for inserted in join_all(queued).await {
        inserted.unwrap();
    }
    assert_eq!(store.lookup(&late.head.slug).await.unwrap(), Lookup::Absent);
    assert_eq!(store.insert_if_absent(late, None).await.unwrap(), InsertResult::Inserted);
}

#[tokio::test]
async fn closing_finishes_what_is_queued_and_refuses_what_comes_later() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.storage()).unwrap();
    let pages: Vec<_> = (0..10).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    let held = disk.hold_syncs();
    let mut writes: Vec<_> = pages.iter().map(|page| store.insert_if_absent(page.clone(), None)).collect();
    writes.iter_mut().for_each(begin);
    drop(held);
    store.close().await;
    for inserted in join_all(writes).await {
        assert_eq!(inserted.unwrap(), InsertResult::Inserted);
    }
    let refused = store.insert_if_absent(Arc::new(page("late")), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    let refused = store.lookup(&pages[0].head.slug).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");

    let again = RedbStore::on(disk.storage()).unwrap();
    for page in pages {
        assert_eq!(again.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
    }
}
