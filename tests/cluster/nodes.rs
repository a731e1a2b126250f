//! The three database nodes: how a test takes them away and gives them back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

/// How often a process is looked at that must end.
const AGAIN: Duration = Duration::from_millis(20);

/// Tests do harm to the nodes, so they take turns.
static TURN: Mutex<()> = Mutex::const_new(());

/// The nodes, for one test at a time. Each is numbered from 1.
pub(crate) struct Nodes {
    folder: PathBuf,
    prefix: String,
    _turn: MutexGuard<'static, ()>,
}

impl Nodes {
    /// Waits for its turn, and then until all nodes are up and see each other.
    pub(crate) async fn all() -> Self {
        let turn = TURN.lock().await;
        #[expect(clippy::disallowed_methods, reason = "whoever starts the nodes sets it, not the service's settings")]
        let folder = std::env::var_os("HANDBILL_TEST_CLUSTER");
        let folder =
            PathBuf::from(folder.expect("HANDBILL_TEST_CLUSTER is not set: use ./tests/run, which starts the servers"));
        let prefix = fs::read_to_string(folder.join("prefix")).expect("tests/servers/cluster writes it");
        let nodes = Self { folder, prefix, _turn: turn };
        nodes.heal().await;
        nodes
    }

    /// The nodes as `--scylla-nodes` takes them.
    pub(crate) fn addresses(&self) -> String {
        [1, 2, 3].map(|node| self.address(node)).join(",")
    }

    /// Where everybody reaches `node`.
    pub(crate) fn address(&self, node: usize) -> String {
        format!("{}1{node}:9042", self.prefix)
    }

    /// Ends the process of `node` as a crash of its machine would; what it had acknowledged is on its disk.
    pub(crate) async fn kill(&self, node: usize) {
        let (folder, process) = self.process(&format!("node{node}"));
        kill_process(process, Signal::KILL).expect("it is ours");
        // Until then it would be taken for running.
        while command_line(process).is_some_and(|line| line.contains(&folder)) {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Stops `node` in the middle of what it does, its connections open.
    pub(crate) fn hang(&self, node: usize) {
        self.signal(&format!("node{node}"), Signal::STOP);
    }

    /// Lets nothing more through to `node`, neither from replicas nor from other nodes.
    pub(crate) fn cut_off(&self, node: usize) {
        self.signal(&format!("relay{node}"), Signal::STOP);
    }

    /// Undoes [`Nodes::hang`] and [`Nodes::cut_off`].
    pub(crate) fn resume(&self, node: usize) {
        for process in ["node", "relay"] {
            self.signal(&format!("{process}{node}"), Signal::CONT);
        }
    }

    /// Brings every node back, and waits until all are up and see each other.
    pub(crate) async fn heal(&self) {
        for entry in fs::read_dir(&self.folder).expect("it is a folder") {
            let name = entry.expect("it can be read").file_name().into_string().expect("we named it");
            if let Some((_, process)) = self.running(&name) {
                kill_process(process, Signal::CONT).expect("it is ours");
            }
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/cluster");
        let started = Command::new(script).arg("start").arg(&self.folder).status().await.expect("it can be run");
        assert!(started.success(), "the nodes did not come back");
    }

    fn signal(&self, name: &str, signal: Signal) {
        kill_process(self.process(name).1, signal).expect("it is ours");
    }

    fn process(&self, name: &str) -> (String, Pid) {
        self.running(name).unwrap_or_else(|| panic!("{name} does not run"))
    }

    /// The folder and the process of a node or relay, if it runs.
    fn running(&self, name: &str) -> Option<(String, Pid)> {
        let folder = self.folder.join(name);
        let process = fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok().and_then(Pid::from_raw)?;
        let folder = folder.to_str().expect("we named it").to_owned();
        // The number may be another's by now.
        command_line(process)?.contains(&folder).then_some((folder, process))
    }
}

fn command_line(process: Pid) -> Option<String> {
    let line = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).ok()?;
    Some(String::from_utf8_lossy(&line).into_owned())
}
