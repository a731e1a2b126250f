//! The parts of Handbill as it is run for real, for tests to put together: database nodes, a load balancer.
//!
//! All of them end with the thread that started them, except the database nodes, which `./tests/run` starts and stops.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, process};

use handbill_test_support::environment::{self, until};
use handbill_test_support::server::program;
use rustix::process::{Pid, Signal, kill_process};
use scylla::client::session_builder::SessionBuilder;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

pub(crate) struct Nodes {
    folder: PathBuf,
    prefix: String,
}

impl Nodes {
    pub(crate) fn of_this_run() -> Self {
        let folder = environment::folder("HANDBILL_TEST_CLUSTER");
        let prefix = fs::read_to_string(folder.join("prefix")).expect("tests/tools/servers/cluster writes it");
        Self { folder, prefix }
    }

    pub(crate) fn addresses(&self) -> String {
        [1, 2, 3].map(|node| self.address(node)).join(",")
    }

    fn address(&self, node: usize) -> String {
        format!("{}:9042", self.host(node))
    }

    pub(crate) fn host(&self, node: usize) -> String {
        format!("{}1{node}", self.prefix)
    }

    pub(crate) async fn heal(&self) {
        for entry in fs::read_dir(&self.folder).expect("it is a folder") {
            let name = entry.expect("it can be read").file_name().into_string().expect("we named it");
            if let Some((_, process)) = self.running(&name) {
                kill_process(process, Signal::CONT).expect("it is ours");
            }
        }
        self.script("start", &[]).await;
    }

    /// Runs `tests/tools/servers/cluster ACTION`, which returns when all nodes are up and see each other.
    pub(crate) async fn script(&self, action: &str, more: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/servers/cluster");
        let done = Command::new(script).arg(action).arg(&self.folder).args(more).status().await.expect("it can be run");
        assert!(done.success(), "the nodes did not come back");
    }

    /// The folder and the process of a node or relay, if it runs.
    pub(crate) fn running(&self, name: &str) -> Option<(String, Pid)> {
        let folder = self.folder.join(name);
        let process = fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok().and_then(Pid::from_raw)?;
        let folder = folder.to_str().expect("we named it").to_owned();
        // The process id may belong to another process by now.
        command_line(process)?.contains(&folder).then_some((folder, process))
    }
}

/// Prepares `program` so that it ends when the calling thread ends, in whatever way: a test process that is killed drops nothing.
pub(crate) fn ending_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

pub(crate) fn command_line(process: Pid) -> Option<String> {
    let line = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).ok()?;
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// The keyspace of all tests, made by `handbill migrate` once in each run. Each test has its own slugs.
pub(crate) async fn keyspace(nodes: &Nodes) -> String {
    static MIGRATED: OnceCell<String> = OnceCell::const_new();
    MIGRATED.get_or_init(|| migrated(nodes)).await.clone()
}

/// The datacentres of the three nodes, if each has its own (`DATACENTERS`, as `tests/tools/servers/cassandra` takes it).
pub(crate) fn datacenters() -> Vec<String> {
    let names = environment::variable("DATACENTERS").unwrap_or_default();
    names.split_whitespace().map(str::to_owned).collect()
}

/// The consistency of this run: with several datacentres all of them agree on each write.
pub(crate) fn consistency() -> [String; 2] {
    let level = if datacenters().is_empty() { "local" } else { "global" };
    ["--scylla-consistency".to_owned(), level.to_owned()]
}

async fn migrated(nodes: &Nodes) -> String {
    let name = format!("handbill_{}", process::id());
    if !datacenters().is_empty() {
        let copies: Vec<_> = datacenters().iter().map(|center| format!(", '{center}': 1")).collect();
        let replication = format!("{{'class': 'NetworkTopologyStrategy'{}}}", copies.concat());
        let session = SessionBuilder::new().known_node(nodes.address(1)).build().await.expect("the node is there");
        let made = format!("CREATE KEYSPACE {name} WITH replication = {replication}");
        session.query_unpaged(made, ()).await.expect("it can be made");
    }
    let mut migrate = Command::new(program());
    migrate.env_clear().args([
        "migrate",
        "--store",
        "scylla",
        "--scylla-nodes",
        &nodes.addresses(),
        "--scylla-keyspace",
        &name,
    ]);
    migrate.args(consistency());
    let output = migrate.output().await.expect("it can be run");
    assert!(output.status.success(), "migrate: {output:?}");
    name
}

/// Loopback addresses that no other process on this machine has, with ports that are always the same.
#[derive(Clone, Copy)]
pub(crate) struct Addresses(u32);

impl Addresses {
    pub(crate) fn draw() -> Self {
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        // As long as this process lives, it listens at one of the addresses that it has drawn, which keeps others away.
        static KEPT: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
        loop {
            // The range begins at 127.100; tests/tools/servers/network stays below it.
            let number = process::id().wrapping_mul(31).wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
            let drawn = Self(number % (150 * 256));
            if let Ok(kept) = TcpListener::bind(drawn.at(254, 9090)) {
                KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
                return drawn;
            }
        }
    }

    /// The addresses of replica `number`: one for everybody, and one for operators.
    pub(crate) fn replica(self, number: u8) -> (SocketAddr, SocketAddr) {
        (self.at(number, 8080), self.at(number, 9090))
    }

    pub(crate) fn balancer(self) -> SocketAddr {
        self.at(30, 8080)
    }

    pub(crate) fn proxy(self, port: u16) -> SocketAddr {
        self.at(50, port)
    }

    fn at(self, last: u8, port: u16) -> SocketAddr {
        let [.., high, low] = self.0.to_be_bytes();
        SocketAddr::new(Ipv4Addr::new(127, 100 + high, low, last).into(), port)
    }
}

/// Starts the load balancer with `tests/tools/servers/haproxy.cfg` at these addresses, and waits until it listens.
pub(crate) async fn balance(addresses: Addresses) -> Child {
    let listen = addresses.balancer();
    let mut configuration = include_str!("../tools/servers/haproxy.cfg").replace(" LISTEN", &format!(" {listen}"));
    for number in 1..=3 {
        let replica = addresses.replica(number).0.to_string();
        configuration = configuration.replace(&format!(" REPLICA-{number}"), &format!(" {replica}"));
    }
    // HAProxy reads its configuration once, before it listens.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("haproxy.cfg");
    fs::write(&file, configuration).expect("it can be written");
    let checked = Command::new("haproxy").arg("-c").arg("-f").arg(&file).output().await;
    let checked = checked.expect("HAProxy is installed by ./tests/run");
    assert!(checked.status.success(), "{checked:?}");
    let mut haproxy = ending_with_us("haproxy");
    haproxy.arg("-db").arg("-f").arg(file).stdin(Stdio::null()).kill_on_drop(true);
    // From here on HAProxy reports replicas that come and go, which no test reads.
    haproxy.stdout(Stdio::null()).stderr(Stdio::null());
    let process = haproxy.spawn().expect("it can be run");
    until(&format!("a listener at {listen}"), async || TcpStream::connect(listen).await.is_ok()).await;
    process
}
