//! The fence between two datacentres: one writes, and operators move that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use handbill::app::Deps;
use handbill::operators::archive::import::{ImportError, Importer};
use handbill_core::domain::archive::Entry;
use handbill_core::domain::page::{HeadChanges, Page};
use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_store_cql::{CqlStore, Fenced, builder};
use scylla::statement::{Consistency, Statement};

use super::ring::{EAST, Ring, WEST};
use crate::environment::in_time;
use crate::support::pages::{edited, page, with_head};

/// How often something is tried that soon succeeds or is refused.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(20);

/// Waits until `store` may write, or may not.
pub(crate) async fn until(store: &CqlStore, may_write: bool) -> Option<Fenced> {
    fence_is(store, |fenced| fenced.is_none() == may_write).await
}

/// Waits until `store` knows that `datacenter` writes.
async fn until_elsewhere(store: &CqlStore, datacenter: &str) {
    fence_is(store, |fenced| *fenced == Some(Fenced::Elsewhere(datacenter.to_owned()))).await;
}

async fn fence_is(store: &CqlStore, as_awaited: impl Fn(&Option<Fenced>) -> bool) -> Option<Fenced> {
    let mut fenced = store.fenced();
    in_time("the fence", fenced.wait_for(as_awaited)).await.unwrap().clone()
}

pub(crate) async fn insert(store: &CqlStore, page: &Arc<Page>) -> Result<InsertResult, StoreError> {
    store.insert_if_absent(Arc::clone(page), None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_datacentre_reads_and_does_not_write() {
    let ring = Ring::migrated().await;
    let (west, east) = (ring.store(WEST).await, ring.store(EAST).await);
    assert_eq!(until(&east, false).await, Some(Fenced::Elsewhere(WEST.to_owned())));
    let first = Arc::new(page("written in the west"));
    assert_eq!(insert(&west, &first).await.unwrap(), InsertResult::Inserted);
    ring.repair().await;

    let refused = insert(&east, &Arc::new(page("written in the east"))).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    let change = edited(&first, "changed in the east");
    let refused = east.compare_and_set(first.head.version, Record::Active(change), None).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(west.lookup(&first.head.slug).await.unwrap(), Lookup::Active(first));

    let swept = ring.command("sweep", &["--scylla-datacenter", EAST]).await;
    assert!(swept.code == Some(2) && swept.errors.contains(WEST), "{swept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_datacentre_asks_for_no_row_and_with_a_second_one_the_row_counts() {
    let ring = Ring::start().await;
    ring.place("ALTER", &[WEST]).await;
    let migrated = ring.command("migrate", &["--scylla-datacenter", WEST]).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    ring.name_in_one_row("handbill", EAST, 2).await;
    let west = ring.store(WEST).await;
    until(&west, true).await;
    assert_eq!(insert(&west, &Arc::new(page("written alone"))).await.unwrap(), InsertResult::Inserted);
    let refused = ring.failover(EAST, &[]).await;
    assert!(refused.code == Some(2) && refused.errors.contains("no copies in east"), "{refused:?}");

    ring.place("ALTER", &[WEST, EAST]).await;
    assert_eq!(until(&west, false).await, Some(Fenced::Elsewhere(EAST.to_owned())));
    let refused = insert(&west, &Arc::new(page("written beside another"))).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    ring.name_in_one_row("handbill", WEST, 3).await;
    until(&west, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_one_row_of_the_fence_is_enough_and_the_highest_epoch_counts() {
    let ring = Ring::migrated().await;
    let west = ring.store(WEST).await;
    until(&west, true).await;
    ring.name_in_one_row("handbill 5", EAST, 2).await;
    assert_eq!(until(&west, false).await, Some(Fenced::Elsewhere(EAST.to_owned())));
    ring.name_in_one_row("handbill 3", WEST, 3).await;
    until(&west, true).await;
    let moved = ring.failover(EAST, &["--skip-copy"]).await;
    assert!(moved.code == Some(0), "a move begins above the highest epoch: {moved:?}");
    until(&ring.store(EAST).await, true).await;
}

/// The writes that `store` acknowledged until `is_over`, one at least: when each was sent and answered, and its page.
async fn write_until(store: Arc<CqlStore>, is_over: Arc<AtomicBool>) -> Vec<(Instant, Instant, Arc<Page>)> {
    let mut acknowledged = Vec::new();
    while acknowledged.is_empty() || !is_over.load(Ordering::Relaxed) {
        let (sent, mut written) = (Instant::now(), Arc::new(page("first")));
        if let Ok(InsertResult::Inserted) = insert(&store, &written).await {
            acknowledged.push((sent, Instant::now(), Arc::clone(&written)));
            let (sent, next) = (Instant::now(), edited(&written, "second"));
            let changed = store.compare_and_set(written.head.version, Record::Active(Arc::clone(&next)), None).await;
            if let Ok(CasResult::Swapped) = changed {
                written = next;
                acknowledged.push((sent, Instant::now(), written));
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_move_loses_nothing_and_at_no_time_do_both_sides_write() {
    let ring = Ring::migrated().await;
    let west = Arc::new(ring.store(WEST).await);
    // The nodes keep no hints, so the east lacks this page until somebody copies it.
    ring.kill(EAST).await;
    let missed = Arc::new(page("missed by the east"));
    assert_eq!(insert(&west, &missed).await.unwrap(), InsertResult::Inserted);
    ring.heal().await;
    let east = Arc::new(ring.store(EAST).await);
    assert_eq!(east.lookup(&missed.head.slug).await.unwrap(), Lookup::Absent, "otherwise nothing is to be copied");

    let is_over = Arc::new(AtomicBool::new(false));
    let [old, new] = [&west, &east].map(|store| tokio::spawn(write_until(Arc::clone(store), Arc::clone(&is_over))));
    let began = Instant::now();
    let moved = ring.failover(EAST, &[]).await;
    assert!(moved.code == Some(0) && moved.output.contains("east writes from now on"), "{moved:?}");
    assert!(moved.errors.contains("west goes on writing"), "it copies beside writes: {moved:?}");
    until(&east, true).await;
    is_over.store(true, Ordering::Relaxed);
    let (old, new) = in_time("a write on each side", async { (old.await.unwrap(), new.await.unwrap()) }).await;
    assert!(!old.is_empty() && !new.is_empty(), "{} in the west, {} in the east", old.len(), new.len());
    let last = old.iter().map(|(_, answered, _)| answered).max().unwrap();
    let first = new.iter().map(|(sent, ..)| sent).min().unwrap();
    assert!(last < first, "the west acknowledged a write after the east had begun");

    // It reads the fence every two seconds, so it may still have seen only the beginning of the move.
    until_elsewhere(&west, EAST).await;
    for page in old.iter().chain(&new).map(|(.., page)| page).chain([&missed]) {
        let Lookup::Active(found) = east.lookup(&page.head.slug).await.unwrap() else { panic!("a page is lost") };
        assert!(found.head.version >= page.head.version, "an edit is lost");
    }
    let (pause, copying) = (first.duration_since(*last), last.duration_since(began));
    println!("{} writes in the west, {} in the east, none lost", old.len(), new.len());
    println!("the west wrote for {copying:?} of the move, and nobody for {pause:?}");
}

/// The answers of `store` to a create, to a change of a title, which leaves the text as it is, to a create that is sent again, and to
/// a deletion.
async fn write_each_way(store: &CqlStore, page: &Page) -> [Result<bool, StoreError>; 4] {
    let is_inserted = |result| result == InsertResult::Inserted;
    let is_swapped = |result| result == CasResult::Swapped;
    let inserted = insert(store, &Arc::new(self::page("created meanwhile"))).await.map(is_inserted);
    let retitled = with_head(page, |head| head.updated(HeadChanges { title: Some(None) }, page.head.updated_at));
    let changed = store.compare_and_set(page.head.version, Record::Active(Arc::clone(&retitled)), None).await;
    let again = insert(store, &retitled).await.map(is_inserted);
    let tombstone = retitled.head.tombstone(retitled.head.updated_at);
    let deleted = store.compare_and_set(retitled.head.version, Record::Deleted(tombstone), None).await;
    [inserted, changed.map(is_swapped), again, deleted.map(is_swapped)]
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_move_copies_nothing_is_acknowledged_that_one_side_alone_has_and_it_can_be_given_up() {
    let ring = Ring::migrated().await;
    let west = Arc::new(ring.store(WEST).await);
    let [before, imported] = ["before the move", "imported before"].map(|content| Arc::new(page(content)));
    for page in [&before, &imported] {
        insert(&west, page).await.unwrap();
    }
    let moved = ring.failover_and(EAST, "west goes on writing", ring.kill(EAST)).await;
    let says = ["west goes on writing", "--to west"].iter().all(|words| moved.errors.contains(words));
    assert!(moved.code == Some(2) && says, "{moved:?}");

    assert_eq!(*west.fenced().borrow(), None, "the west may write");
    for outcome in write_each_way(&west, &before).await {
        let is_refused = matches!(outcome, Err(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_)));
        assert!(is_refused, "the east has nothing of it: {outcome:?}");
    }
    let (store, renderer, clock) = (Arc::clone(&west), Deps::system().renderer, Arc::new(SystemClock::new()));
    let importing = Importer { store, renderer, clock };
    let again = importing.import(Entry::of(&imported)).await;
    let is_refused = matches!(again, Err(ImportError::Store(StoreError::OutcomeUnknown(_))));
    assert!(is_refused, "an earlier attempt may have stored it in the west alone: {again:?}");
    assert!(matches!(west.lookup(&before.head.slug).await, Ok(Lookup::Active(_))), "reads go on");

    let given_up = ring.failover(WEST, &["--force", "--yes"]).await;
    assert!(given_up.code == Some(0) && given_up.output.contains("the move to east is given up"), "{given_up:?}");
    let writing = async {
        while insert(&west, &Arc::new(page("in the west alone again"))).await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    };
    in_time("the west writes alone", writing).await;
    ring.heal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_move_asks_first_and_loses_only_what_the_lost_side_alone_has() {
    let ring = Ring::migrated().await;
    let west = ring.store(WEST).await;
    let (everywhere, alone) = (Arc::new(page("on both sides")), Arc::new(page("in the west alone")));
    insert(&west, &everywhere).await.unwrap();
    ring.repair().await;
    ring.kill(EAST).await;
    insert(&west, &alone).await.unwrap();
    drop(west);
    ring.heal().await;
    let cautious = ring.store_with(EAST, &["--scylla-fence-consistency", "quorum"]).await;
    until_elsewhere(&cautious, WEST).await;
    ring.kill(WEST).await;

    let planned = ring.failover(EAST, &["--schema-wait", "0s"]).await;
    assert!(planned.code == Some(2) && planned.errors.contains("--force"), "{planned:?}");
    let unasked = ring.failover(EAST, &["--force"]).await;
    assert!(unasked.code == Some(2) && unasked.errors.contains("--yes"), "{unasked:?}");
    assert!(unasked.errors.contains("are lost"), "{unasked:?}");
    let forced = ring.failover(EAST, &["--force", "--yes"]).await;
    assert!(forced.code == Some(0), "{forced:?}");

    let east = ring.store(EAST).await;
    until(&east, true).await;
    assert_eq!(insert(&east, &Arc::new(page("in the east"))).await.unwrap(), InsertResult::Inserted);
    assert_eq!(east.lookup(&everywhere.head.slug).await.unwrap(), Lookup::Active(everywhere));
    assert_eq!(east.lookup(&alone.head.slug).await.unwrap(), Lookup::Absent);
    // It reads the fence at a majority of all copies, and one of two is gone. So it has not seen the move.
    let refused = insert(&cautious, &Arc::new(page("in the east by a majority"))).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");

    // The lost side is back, and its own copy of the fence is old. A second command brings it up to date.
    ring.heal().await;
    let again = ring.failover(EAST, &[]).await;
    assert!(again.code == Some(0) && again.output.contains("writes already"), "{again:?}");
    let west = ring.store(WEST).await;
    assert_eq!(until(&west, false).await, Some(Fenced::Elsewhere(EAST.to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_not_forced_while_the_other_side_answers_unless_that_is_asked_for() {
    let ring = Ring::migrated().await;
    let force = ["--force", "--yes"];
    for cut in [false, true] {
        if cut {
            ring.cut();
        }
        let refused = ring.failover(EAST, &force).await;
        let names = ["nodes of west answer", "--force-answers"].iter().all(|words| refused.errors.contains(words));
        assert!(refused.code == Some(2) && names, "{refused:?}");
        assert_eq!(until(&ring.store(WEST).await, true).await, None, "the fence is where it was");
        assert_eq!(until(&ring.store(EAST).await, false).await, Some(Fenced::Elsewhere(WEST.to_owned())));
    }
    let forced = ring.failover(EAST, &[&force[..], &["--force-answers"]].concat()).await;
    assert!(forced.code == Some(0), "{forced:?}");
    until(&ring.store(EAST).await, true).await;
    ring.heal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cut_the_writing_side_goes_on_unless_it_reads_the_fence_at_a_majority() {
    let ring = Ring::migrated().await;
    let west = ring.store(WEST).await;
    let cautious = ring.store_with(WEST, &["--scylla-fence-consistency", "quorum"]).await;
    assert_eq!(until(&cautious, true).await, None);
    insert(&cautious, &Arc::new(page("before the cut"))).await.unwrap();

    ring.cut();
    // Its lease ends without an answer from the other side. No read of the fence in the cut may prolong it.
    assert_eq!(until(&cautious, false).await, Some(Fenced::Unread));
    let refused = insert(&cautious, &Arc::new(page("in the cut by a majority"))).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    let meanwhile = Arc::new(page("in the cut"));
    assert_eq!(insert(&west, &meanwhile).await.unwrap(), InsertResult::Inserted);
    assert_eq!(*west.fenced().borrow(), None, "the other lease was prolonged");

    ring.heal().await;
    assert_eq!(until(&cautious, true).await, None);
    let next = edited(&meanwhile, "after the cut");
    let swapped = cautious.compare_and_set(meanwhile.head.version, Record::Active(next), None).await;
    assert_eq!(swapped.unwrap(), CasResult::Swapped);
}

/// Forgets what the nodes of the west said, as in a keyspace that was migrated before there was a west.
async fn forget_the_west(ring: &Ring) {
    let session = builder(&ring.settings(EAST)).unwrap().build().await.unwrap();
    let cql = format!("DELETE paxos_variants['{WEST}'] FROM {}.fence WHERE component = 'handbill'", ring.keyspace);
    let mut statement = Statement::new(cql);
    statement.set_consistency(Consistency::LocalQuorum);
    session.query_unpaged(statement, ()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_move_begins_while_a_side_has_the_old_paxos_and_a_lost_side_has_what_was_recorded_last() {
    let ring = Ring::migrated().await;
    ring.restart_with_v1(WEST).await;
    let planned = ring.failover(EAST, &[]).await;
    let names = [WEST, "paxos_variant: v1"].iter().all(|name| planned.errors.contains(name));
    assert!(planned.code == Some(2) && names, "{planned:?}");
    assert_eq!(until(&ring.store(WEST).await, true).await, None, "the fence is where it was");

    // It records what the nodes say now.
    let migrated = ring.command("migrate", &["--scylla-datacenter", EAST]).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    ring.kill(WEST).await;
    let force = ["--force", "--yes"];
    let refused = ring.failover(EAST, &force).await;
    let names = [WEST, "is v1", "--force-paxos-unknown"].iter().all(|name| refused.errors.contains(name));
    assert!(refused.code == Some(2) && names, "{refused:?}");
    forget_the_west(&ring).await;
    let refused = ring.failover(EAST, &force).await;
    let names = [WEST, "is none", "--force-paxos-unknown"].iter().all(|name| refused.errors.contains(name));
    assert!(refused.code == Some(2) && names, "{refused:?}");
    let forced = ring.failover(EAST, &[&force[..], &["--force-paxos-unknown"]].concat()).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
    ring.heal().await;
}
