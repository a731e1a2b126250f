//! The three database nodes: how a test takes them away and gives them back.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use handbill_test_support::environment::TEST_TIMEOUT;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{Mutex, MutexGuard};

use crate::deployment::{self, command_line};

const AGAIN: Duration = Duration::from_millis(20);

/// What becomes of data that relays hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Late,
    Lost,
}

/// Held by the test that has the nodes, because it may harm them.
static TURN: Mutex<()> = Mutex::const_new(());

/// The nodes, for one test at a time. Each is numbered from 1.
pub(crate) struct Nodes {
    nodes: deployment::Nodes,
    _turn: MutexGuard<'static, ()>,
}

impl Nodes {
    /// Waits for its turn, and then until all nodes are up and see each other.
    pub(crate) async fn all() -> Self {
        let turn = TURN.lock().await;
        let nodes = deployment::Nodes::of_this_run();
        nodes.heal().await;
        Self { nodes, _turn: turn }
    }

    /// Operations that harm no node.
    pub(crate) fn shared(&self) -> &deployment::Nodes {
        &self.nodes
    }

    /// Ends the process of `node` as a crash of its machine would. Changes that it had acknowledged are on its disk.
    pub(crate) async fn kill(&self, node: usize) {
        let (folder, process) = self.process(&format!("node{node}"));
        kill_process(process, Signal::KILL).expect("it is ours");
        // Until the process is gone, it would count as running.
        while command_line(process).is_some_and(|line| line.contains(&folder)) {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Stops `node` in the middle of its work, with its connections open.
    pub(crate) fn hang(&self, node: usize) {
        self.signal(&format!("node{node}"), Signal::STOP);
    }

    /// Lets nothing more through to `node`, neither from replicas nor from other nodes.
    pub(crate) fn cut_off(&self, node: usize) {
        self.signal(&format!("relay{node}"), Signal::STOP);
    }

    /// Holds what other nodes send to `node`, which still reaches them.
    pub(crate) fn deafen(&self, node: usize) {
        self.tell(node, "hold storage to");
    }

    /// Holds what `node` sends to other nodes, which still reach it.
    pub(crate) fn mute(&self, node: usize) {
        let sender = self.nodes.host(node);
        for other in (1..=3).filter(|other| *other != node) {
            self.tell(other, &format!("hold storage to {sender}"));
        }
    }

    /// Cuts `node` off from everybody, in both directions.
    pub(crate) fn isolate(&self, node: usize) {
        for direction in ["storage to", "cql to", "cql from"] {
            self.tell(node, &format!("hold {direction}"));
        }
        self.mute(node);
    }

    /// Holds what `node` answers to replicas. Their requests reach it and are carried out.
    pub(crate) fn delay_answers(&self, node: usize) {
        self.tell(node, "hold cql from");
    }

    /// Loses what `node` answers to conditional writes. Returns how many answers its relay has lost or replaced so far.
    pub(crate) fn lose_verdicts(&self, node: usize) -> usize {
        self.tell(node, "lose-verdicts")
    }

    /// Replaces what `node` answers to conditional writes by a timeout, and counts as [`Nodes::lose_verdicts`] does.
    pub(crate) fn deny_verdicts(&self, node: usize) -> usize {
        self.tell(node, "deny-verdicts")
    }

    /// Ends all that relays hold, lose or replace. Held data arrives late, or never, and its connections break.
    pub(crate) fn end(&self, held: Held) {
        for node in 1..=3 {
            self.tell(node, if held == Held::Late { "pass" } else { "lose" });
        }
    }

    /// Starts a node without data in the place of `node`, which was killed. It takes its data from the others.
    pub(crate) async fn replace(&self, node: usize) {
        self.nodes.script("replace", &[&node.to_string()]).await;
    }

    /// Gives the relay in front of `node` a command and waits until it is in effect (`tests/tools/servers/relay.py`). Returns how
    /// many answers it has lost or replaced so far.
    fn tell(&self, node: usize, command: &str) -> usize {
        let (folder, _) = self.process(&format!("relay{node}"));
        let mut control = UnixStream::connect(Path::new(&folder).join("control")).expect("the relay listens");
        control.set_read_timeout(Some(TEST_TIMEOUT)).expect("it is not zero");
        control.write_all(format!("{command}\n").as_bytes()).expect("the relay reads");
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer).expect("the relay answers");
        let falsified = answer.trim().strip_prefix("done ").and_then(|count| count.parse().ok());
        falsified.unwrap_or_else(|| panic!("{command}: {answer}"))
    }

    pub(crate) fn resume(&self, node: usize) {
        for process in ["node", "relay"] {
            self.signal(&format!("{process}{node}"), Signal::CONT);
        }
    }

    pub(crate) async fn heal(&self) {
        self.nodes.heal().await;
    }

    fn signal(&self, name: &str, signal: Signal) {
        let (_, process) = self.process(name);
        kill_process(process, signal).expect("it is ours");
        // A running thread continues for a moment, which is long on a busy machine, and could still answer somebody.
        while signal == Signal::STOP && !has_stopped(process) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn process(&self, name: &str) -> (String, Pid) {
        self.nodes.running(name).unwrap_or_else(|| panic!("{name} does not run"))
    }
}

/// Whether every thread of `process` stands still.
fn has_stopped(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).expect("it runs");
    threads.flatten().all(|thread| {
        let state = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The program's name, in parentheses, comes before the state. A thread that has ended has no state.
        state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}
