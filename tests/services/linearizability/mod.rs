//! Linearizability: whatever many clients do to many pages at once, each page's history must be one that a single page,
//! asked one call at a time, could have had.
//!
//! The checker is that of `todc-utils`, after Wing and Gong, Lowe, and Horn and Kroening, which is itself tested
//! against the recorded histories of etcd by Jepsen, and here by planted faults. `LIN_OPS` is how many
//! calls are answered (10000 unless it says so, four times as many as show each planted fault), `LIN_SEED` decides what
//! they ask for. `tests/services/cluster/` lets the same clients loose on three replicas.

pub(crate) mod faulty;
pub(crate) mod histories;
pub(crate) mod in_process;

use std::ffi::OsStr;
use std::sync::Arc;

use handbill::app::Deps;
use handbill::http::Front;
use handbill_pages::ports::page_store::PageStore;
use handbill_store_sqlite::SqliteStore;

use self::faulty::{Fault, FaultyStore};
use self::histories::transport::Network;
use self::histories::workload::{Outcome, Plan, Progress, run};
use self::in_process::InProcess;
use crate::environment::setting;
use crate::replica::Replica;
use crate::unlimited;

/// Eight pages at a time with four clients each, as many calls as `LIN_OPS` says.
fn plan() -> Plan {
    Plan {
        seed: setting("LIN_SEED", 4),
        calls: setting("LIN_OPS", 10_000),
        groups: 8,
        clients: 4,
        burst: 10,
        has_operators: false,
    }
}

/// A replica in this process, over `store`, without limits.
pub(crate) fn replica(store: Arc<dyn PageStore>) -> Front {
    unlimited::front(store, &Deps::system())
}

async fn run_over(store: Arc<dyn PageStore>, plan: Plan) -> Outcome {
    let replicas = vec![replica(Arc::clone(&store)), replica(Arc::clone(&store)), replica(store)];
    run(&InProcess(replicas), plan, async |_| {}).await
}

fn sqlite() -> Arc<dyn PageStore> {
    Arc::new(SqliteStore::temporary().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_over_one_store_behave_as_one_page_each() {
    let outcome = run_over(sqlite(), plan()).await;
    println!("{outcome}");
    outcome.assert_linearizable();
    assert!(outcome.answered >= plan().calls);
    outcome.assert_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_behaves_as_one_page_each_and_ends_when_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let unlimited = ["--create-limit", "0", "--edit-limit", "0", "--log", "warn", "--data-dir"].map(OsStr::new);
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let data = directory.path().as_os_str();
    let process = Replica::start(anywhere, anywhere, unlimited.into_iter().chain([data])).await;
    process.ready().await;
    let plan = Plan { calls: plan().calls / 4, has_operators: true, ..plan() };
    let once_told = async |mut progress: Progress| progress.more(plan.calls).await;
    let outcome = run(
        &Network { public: vec![process.public], operators: vec![directory.path().join("admin.sock")] },
        plan,
        once_told,
    )
    .await;
    println!("{outcome}");
    outcome.assert_linearizable();
    outcome.assert_no_failures();
    assert!(process.stop().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_leaves_its_callers_in_the_dark_is_not_broken() {
    let outcome = run_over(Arc::new(FaultyStore::new(sqlite(), Fault::Silence)), plan()).await;
    outcome.assert_linearizable();
    assert!(!outcome.failures.is_empty(), "nobody was left in the dark");
}

/// Runs the same clients over a store with `fault`. Fails unless the fault shows.
async fn assert_caught(fault: Fault) {
    let plan = Plan { calls: 2500, ..plan() };
    let outcome = run_over(Arc::new(FaultyStore::new(sqlite(), fault)), plan).await;
    let violations = outcome.violations();
    assert!(!violations.is_empty(), "{fault:?} went unnoticed in {} histories", outcome.histories.len());
    println!("{fault:?}: caught in {} of {} histories", violations.len(), outcome.histories.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stale_read_is_caught() {
    assert_caught(Fault::StaleRead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stale_page_from_memory_is_caught() {
    assert_caught(Fault::UntoldChange).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_ask_for_heads_behave_as_one_page_each() {
    let outcome = run_over(Arc::new(FaultyStore::new(sqlite(), Fault::TextsApart)), plan()).await;
    println!("{outcome}");
    outcome.assert_linearizable();
    outcome.assert_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_page_from_memory_by_a_stale_head_is_caught() {
    assert_caught(Fault::StaleHead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_compare_and_set_is_caught() {
    assert_caught(Fault::LostSwap).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_compare_and_set_that_does_not_compare_is_caught() {
    assert_caught(Fault::UncheckedSwap).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deleted_page_that_comes_back_is_caught() {
    assert_caught(Fault::Revival).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_insert_is_caught() {
    assert_caught(Fault::LostInsert).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repeated_create_that_makes_a_second_page_is_caught() {
    assert_caught(Fault::SecondPage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_that_was_made_and_denied_is_caught() {
    assert_caught(Fault::FalseDenial).await;
}
