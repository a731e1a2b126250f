//! The faults of a history: which comes next, how it begins, how long it lasts and how it ends.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use handbill_test_support::environment::{TEST_TIMEOUT, until};
use handbill_test_support::histories::workload::Chance;
use scylla::response::PagingState;
use scylla::statement::{Consistency, Statement};
use tokio::time::{Instant, sleep};

use super::nodes::Held;
use super::service::Service;

/// A fault of a database node, of its network, or of a replica. What a network holds during a fault arrives late, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A node's process is killed, and another starts with what is on its disk.
    NodeKilled,
    /// A node's process stands still, with its connections open.
    NodeHung,
    /// A node is cut off from everybody, in both directions.
    NodeIsolated,
    /// A node hears nothing from other nodes, which still hear it.
    NodeDeaf,
    /// Other nodes hear nothing from a node, which still hears them.
    NodeMute,
    /// One node hangs while another is isolated.
    QuorumLost,
    AnswersLate,
    /// Replicas never get a node's answers to conditional writes.
    VerdictsLost,
    /// Conditional writes that a node has carried out are answered by a timeout.
    VerdictsDenied,
    /// A replica's clock jumps, and later back.
    ReplicaClock,
    /// A replica's process is killed, and another starts in its place.
    ReplicaKilled,
    /// A node is killed and its disk is lost. Another takes its place, after a repair of what is left.
    NodeReplaced,
}

/// A round of a long history has each of these faults, this often.
const ROUND: [(Fault, usize); 11] = [
    (Fault::NodeKilled, 1),
    (Fault::NodeHung, 2),
    (Fault::NodeIsolated, 2),
    (Fault::NodeDeaf, 2),
    (Fault::NodeMute, 2),
    (Fault::QuorumLost, 1),
    (Fault::AnswersLate, 2),
    (Fault::VerdictsLost, 2),
    (Fault::VerdictsDenied, 2),
    (Fault::ReplicaClock, 3),
    (Fault::ReplicaKilled, 1),
];

/// How many kinds of fault there are, but for the last. A history begins with one of each.
pub(crate) const KINDS: usize = ROUND.len();

/// How long a fault lasts. The longest is longer than it takes everybody to notice it, and to go on without the node.
const LASTING: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(6)];

const WITHOUT_QUORUM: Duration = Duration::from_secs(4);

const JUMPS: [i64; 4] = [3600, -3600, 5, -5];

const AGAIN: Duration = Duration::from_millis(50);

/// A fault that has struck, for people to read.
pub(crate) struct Struck {
    pub(crate) fault: Fault,
    target: String,
    lasted: Duration,
    held: Held,
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, target, lasted, held } = self;
        write!(f, "{fault:?}, {target}, for {:.1} s, and what was held is {held:?}", lasted.as_secs_f64())
    }
}

/// Faults in an order that follows from a seed.
pub(crate) struct Nemesis {
    chance: Chance,
    round: Vec<Fault>,
    /// The faults of the present round that are still to come.
    coming: Vec<Fault>,
    /// Answers to conditional writes that were lost or replaced so far.
    pub(crate) falsified: usize,
}

impl Nemesis {
    /// Each fault once, and then all in rounds; in each round this many nodes are replaced, which takes long.
    pub(crate) fn new(seed: u64, replaced: usize) -> Self {
        let faults = ROUND.into_iter().chain([(Fault::NodeReplaced, replaced)]);
        let round = faults.flat_map(|(fault, times)| vec![fault; times]).collect();
        let coming = ROUND.map(|(fault, _)| fault).into();
        Self { chance: Chance::new(seed), round, coming, falsified: 0 }
    }

    pub(crate) async fn strike(&mut self, service: &mut Service) -> Struck {
        if self.coming.is_empty() {
            self.coming.clone_from(&self.round);
        }
        let next = self.below(self.coming.len());
        let fault = self.coming.swap_remove(next);
        let (number, lasting) = (1 + self.below(3), LASTING[self.below(LASTING.len())]);
        let jump = JUMPS[self.below(JUMPS.len())];
        let held = if self.below(2) == 0 { Held::Late } else { Held::Lost };
        let began = Instant::now();
        let target = match fault {
            Fault::ReplicaClock => {
                let replica = u8::try_from(number).expect("there are three");
                service.set_clock(replica, jump);
                sleep(lasting).await;
                service.set_clock(replica, 0);
                format!("replica {number} by {jump:+} s")
            }
            Fault::ReplicaKilled => {
                service.restart(number, lasting).await;
                format!("replica {number}")
            }
            _ => {
                self.falsified += harm(service, fault, number, lasting, held).await;
                format!("node {number}")
            }
        };
        Struck { fault, target, lasted: began.elapsed(), held }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.chance.below(bound as u64)).expect("it is below a usize")
    }
}

/// Lets `fault` strike `node`, and ends it; `held` is what becomes of messages that it held. How many answers to conditional writes were lost or replaced.
async fn harm(service: &Service, fault: Fault, node: usize, lasting: Duration, held: Held) -> usize {
    let nodes = &service.nodes;
    let next = 1 + node % 3;
    let mut falsified = 0;
    match fault {
        Fault::NodeKilled => {
            nodes.kill(node).await;
            sleep(lasting).await;
            nodes.heal().await;
        }
        Fault::NodeHung => {
            nodes.hang(node);
            sleep(lasting).await;
            nodes.resume(node);
        }
        Fault::QuorumLost => {
            nodes.hang(node);
            nodes.isolate(next);
            sleep(lasting.min(WITHOUT_QUORUM)).await;
            nodes.resume(node);
        }
        Fault::VerdictsLost => falsified = strike_verdicts(|| nodes.lose_verdicts(node), lasting).await,
        Fault::VerdictsDenied => falsified = strike_verdicts(|| nodes.deny_verdicts(node), lasting).await,
        Fault::NodeReplaced => {
            nodes.kill(node).await;
            let repaired = tokio::time::timeout(TEST_TIMEOUT, repair(service)).await;
            repaired.expect("two nodes are a quorum");
            nodes.replace(node).await;
        }
        Fault::NodeIsolated | Fault::NodeDeaf | Fault::NodeMute | Fault::AnswersLate => {
            match fault {
                Fault::NodeDeaf => nodes.deafen(node),
                Fault::NodeMute => nodes.mute(node),
                Fault::AnswersLate => nodes.delay_answers(node),
                _ => nodes.isolate(node),
            }
            sleep(lasting).await;
        }
        Fault::ReplicaClock | Fault::ReplicaKilled => unreachable!("they are no faults of a node"),
    }
    nodes.end(held);
    falsified
}

/// Strikes the answers of a node for this long, and until one was struck. `strike` counts them.
async fn strike_verdicts(strike: impl Fn() -> usize, lasting: Duration) -> usize {
    let before = strike();
    sleep(lasting).await;
    // A node that a fault before this one has left alone may coordinate no write for a while. The clients go on meanwhile.
    until("every node comes to coordinate a conditional write", async || strike() != before).await;
    strike() - before
}

/// Makes the two living nodes equal: reads all that there is from both of them, and read repair writes what one lacks.
/// A node that is replaced takes its data from one of them, and that one may lack a write that the other and the lost
/// disk had.
async fn repair(service: &Service) {
    let session = service.session().await;
    let keyspace = session.get_keyspace().expect("it uses the service's").to_string();
    for table in session.get_cluster_state().get_keyspace(&keyspace).expect("it exists").tables.keys() {
        let mut all = Statement::new(format!("SELECT * FROM {table}")).with_page_size(100);
        all.set_consistency(Consistency::Quorum);
        all.set_request_timeout(Some(TEST_TIMEOUT));
        all.set_is_idempotent(true);
        let mut state = PagingState::start();
        loop {
            // Until everybody has noticed that the node is gone, a coordinator may wait for it in vain.
            let Ok((_, next)) = session.query_single_page(all.clone(), (), state.clone()).await else {
                sleep(AGAIN).await;
                continue;
            };
            match next.into_paging_control_flow() {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(next) => state = next,
            }
        }
    }
}
