//! Many clients over three replicas while the database loses one node after the other, and for a while its quorum.

use std::time::Duration;

use tokio::time::sleep;

use super::service::{Service, Settings};
use crate::environment::{FAR_TOO_LONG, setting};
use crate::linearizability::histories::workload::{Plan, run};

/// How long a node is away: longer than it takes everybody to notice that it hangs, and to go on without it.
const AWAY: Duration = Duration::from_secs(6);

/// How long the quorum is lost.
const WITHOUT_QUORUM: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_linearizable_while_nodes_are_killed_paused_and_cut_off() {
    let service = Service::start(Settings::unlimited()).await;
    let nodes = &service.nodes;
    let plan =
        Plan { seed: setting("LIN_SEED", 4), calls: setting("LIN_OPS", 20_000), groups: 6, clients: 4, burst: 10 };
    let outcome = run(&service.transport(), plan, async |mut progress| {
        progress.more(plan.calls / 20).await;
        nodes.hang(1);
        sleep(AWAY).await;
        nodes.resume(1);
        progress.more(plan.calls / 20).await;

        nodes.cut_off(2);
        sleep(AWAY).await;
        nodes.resume(2);
        progress.more(plan.calls / 20).await;

        nodes.kill(3).await;
        sleep(AWAY).await;
        nodes.heal().await;
        progress.more(plan.calls / 20).await;

        nodes.hang(1);
        nodes.cut_off(3);
        sleep(WITHOUT_QUORUM).await;
        nodes.resume(1);
        nodes.resume(3);
        progress.more(plan.calls / 20).await;
    })
    .await;
    println!("{outcome}");
    outcome.assert_linearizable();
    assert!(outcome.slowest < FAR_TOO_LONG, "{outcome}");
}
