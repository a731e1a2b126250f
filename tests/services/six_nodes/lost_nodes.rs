//! Moves of the fence while nodes of a side are lost, or miss what the others have.

use std::sync::Arc;

use handbill_core::domain::page::Page;
use handbill_core::ports::page_store::{InsertResult, Lookup, PageStore};
use handbill_store_cql::{CqlStore, Fenced, builder};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};

use super::ring;
use crate::datacenters::moves::{insert, until};
use crate::datacenters::ring::{EAST, Ring, WEST};
use crate::support::pages::page;

/// Pages that are written at a time.
const PAGES: usize = 20;

async fn written(store: &CqlStore, content: &str) -> Vec<Arc<Page>> {
    let mut pages = Vec::new();
    for _ in 0..PAGES {
        let page = Arc::new(page(content));
        assert_eq!(insert(store, &page).await.unwrap(), InsertResult::Inserted);
        pages.push(page);
    }
    pages
}

async fn check(store: &CqlStore, pages: &[Arc<Page>]) {
    for page in pages {
        assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(Arc::clone(page)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_node_of_a_side_lost_a_planned_move_says_what_it_waits_for_and_ends_once_it_is_back_or_without_copying()
{
    let ring = ring().await;
    let [west, east] = [ring.patient_store(WEST).await, ring.patient_store(EAST).await];
    let before = written(&west, "before").await;
    ring.repair().await;

    // A quorum of the side that writes has what the lost node lacks.
    ring.kill_nodes(&ring.nodes_of(WEST)[..1]).await;
    let without = written(&west, "without a node").await;
    let waiting = ring.failover(EAST, &[]).await;
    println!("without a node of the west: {}", waiting.errors);
    let says = ["not copied", "west goes on writing", "All", "required: 6", "alive: 5", "--to west", "--skip-copy"];
    let says = says.iter().all(|words| waiting.errors.contains(words));
    assert!(waiting.code == Some(2) && says, "{waiting:?}");
    let confirmed = written(&west, "confirmed by both").await;
    ring.heal().await;
    let moved = ring.failover(EAST, &[]).await;
    assert!(moved.code == Some(0) && moved.output.contains("east writes from now on"), "{moved:?}");
    until(&east, true).await;
    for pages in [&before, &without, &confirmed] {
        check(&east, pages).await;
    }

    // Back, with a node of the other side lost. While both confirm, a quorum of each has every write, so nothing needs to be copied.
    ring.kill_nodes(&ring.nodes_of(WEST)[..1]).await;
    let waiting = ring.failover(WEST, &[]).await;
    assert!(waiting.code == Some(2) && waiting.errors.contains("east goes on writing"), "{waiting:?}");
    let confirmed = written(&east, "confirmed by both, in the east").await;
    let moved = ring.failover(WEST, &["--skip-copy"]).await;
    assert!(moved.code == Some(0) && moved.output.contains("west writes from now on"), "{moved:?}");
    until(&west, true).await;
    check(&west, &confirmed).await;
    assert!(matches!(until(&east, false).await, Some(Fenced::Elsewhere(_) | Fenced::Moving(_))));
    ring.heal().await;
}

/// The datacentre and the epoch in the first row of the fence, by what `node` reads at `consistency`. One that asks other nodes may bring
/// the newest to them.
async fn shown_by(ring: &Ring, node: usize, consistency: Consistency) -> (Option<String>, i64) {
    let session = builder(&ring.settings(EAST)).unwrap().build().await.unwrap();
    let cql = format!("SELECT datacenter, epoch FROM {}.fence WHERE component = 'handbill'", ring.keyspace);
    let mut statement = Statement::new(cql);
    let only = NodeIdentifier::NodeAddress(ring.address_of(node));
    statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(only, None)));
    statement.set_consistency(consistency);
    session.query_unpaged(statement, ()).await.unwrap().into_rows_result().unwrap().single_row().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_move_after_a_forced_one_that_serial_misses_takes_no_lost_side_for_the_one_that_writes() {
    let ring = ring().await;
    let west = ring.patient_store(WEST).await;
    let before = written(&west, "before").await;
    ring.repair().await;
    drop(west);
    // The west is lost, and one node of the east misses the forced move.
    let (of_west, of_east) = (ring.nodes_of(WEST), ring.nodes_of(EAST));
    let (missing, having) = of_east.split_first().unwrap();
    ring.kill(WEST).await;
    ring.kill_nodes(&[*missing]).await;
    let forced = ring.failover(EAST, &["--force", "--yes"]).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
    let east = ring.patient_store(EAST).await;
    until(&east, true).await;
    let after = written(&east, "after the forced move").await;
    // Its reads of the fence would bring the change to the third node.
    drop(east);
    ring.heal().await;
    ring.hold(&of_west, having);
    let (stale, new) = ((Some(WEST.to_owned()), 1), Some(EAST.to_owned()));
    assert_eq!(shown_by(&ring, *missing, Consistency::One).await, stale, "otherwise it misses nothing");
    assert_eq!(shown_by(&ring, of_west[0], Consistency::Serial).await, stale, "otherwise nothing is hidden from it");
    for node in having {
        assert_eq!(shown_by(&ring, *node, Consistency::One).await.0, new);
    }

    let planned = ring.failover(WEST, &[]).await;
    println!("while the west does not reach two nodes of the east: {planned:?}");
    assert!(!planned.output.contains("writes already"), "two sides would write: {planned:?}");
    ring.heal().await;
    let moved = ring.failover(WEST, &[]).await;
    assert!(moved.code == Some(0) && moved.output.contains("west writes from now on"), "{moved:?}");
    // By the manual the lost side's replicas start only now.
    let [west, east] = [ring.patient_store(WEST).await, ring.patient_store(EAST).await];
    until(&west, true).await;
    until(&east, false).await;
    for pages in [&before, &after] {
        check(&west, pages).await;
    }
}
