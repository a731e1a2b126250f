//! Linearizability: whatever many clients do to many pages at once, each page's history must be one that a single page,
//! asked one call at a time, could have had.
//!
//! The checker is that of `todc-utils`, after Wing and Gong, Lowe, and Horn and Kroening, which is itself tested
//! against the recorded histories of etcd by Jepsen, and here by planted faults. `LIN_OPS` is how many
//! calls are answered (10000 unless it says so, four times as many as show each planted fault), `LIN_SEED` decides what
//! they ask for. `tests/cluster/replicas/` lets the same clients loose on three replicas.

mod checker;
mod faulty;

use std::sync::Arc;

use axum::Router;
use handbill::app::{Deps, PublicSettings, public};
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::values::origin::Origin;
use handbill_store_sqlite::SqliteStore;
use handbill_test_support::environment::setting;
use handbill_test_support::histories::in_process::InProcess;
use handbill_test_support::histories::transport::Network;
use handbill_test_support::histories::workload::{Outcome, Plan, Progress, run};
use handbill_test_support::server::Server;

use self::faulty::{Fault, FaultyStore};

/// Eight pages at a time with four clients each, as many calls as `LIN_OPS` says.
fn plan() -> Plan {
    let (seed, calls) = (setting("LIN_SEED", 4), setting("LIN_OPS", 10_000));
    Plan { seed, calls, groups: 8, clients: 4, burst: 10, has_operators: false }
}

fn replica(store: Arc<dyn PageStore>) -> Router {
    let base_url = Origin::parse("https://pages.example").unwrap();
    public(store, PublicSettings::open(base_url), &Deps::system())
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
    outcome.assert_linearizable();
    assert!(outcome.answered >= plan().calls);
    outcome.assert_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_behaves_as_one_page_each_and_ends_when_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let process = Server::start(directory.path(), &["--log", "warn"]);
    let plan = Plan { calls: plan().calls / 4, has_operators: true, ..plan() };
    let once_told = async |mut progress: Progress| progress.more(plan.calls).await;
    let network = Network { public: vec![process.address], operators: vec![directory.path().join("admin.sock")] };
    let outcome = run(&network, plan, once_told).await;
    outcome.assert_linearizable();
    outcome.assert_no_failures();
    assert!(process.stop().0.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_leaves_its_callers_in_the_dark_is_not_broken() {
    let outcome = run_over(Arc::new(FaultyStore::new(sqlite(), Fault::Silence)), plan()).await;
    outcome.assert_linearizable();
    assert!(!outcome.failures.is_empty(), "nobody was left in the dark");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_ask_for_heads_behave_as_one_page_each() {
    let outcome = run_over(Arc::new(FaultyStore::new(sqlite(), Fault::TextsApart)), plan()).await;
    outcome.assert_linearizable();
    outcome.assert_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_planted_fault_of_a_store_is_caught() {
    for fault in [
        Fault::StaleRead,
        Fault::UntoldChange,
        Fault::StaleHead,
        Fault::LostSwap,
        Fault::UncheckedSwap,
        Fault::Revival,
        Fault::SecondPage,
        Fault::LostInsert,
        Fault::FalseDenial,
    ] {
        let plan = Plan { calls: 2500, ..plan() };
        let outcome = run_over(Arc::new(FaultyStore::new(sqlite(), fault)), plan).await;
        let (caught, all) = (outcome.violations().len(), outcome.histories.len());
        assert!(caught > 0, "{fault:?} went unnoticed in {all} histories");
        println!("{fault:?}: caught in {caught} of {all} histories");
    }
}
