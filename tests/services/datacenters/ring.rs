//! The ring: its nodes, keyspaces on it, stores in each datacentre, and `handbill` as operators call it.
//!
//! A datacentre has one node, or as many as the ring was started with.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Parser;
use handbill::config;
use handbill_core::ports::random::{Random, index_below};
use handbill_store_cql::{CqlSettings, CqlStore, CqlTimeouts, Progress, builder};
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

use crate::environment::{self, in_time};
use crate::relay;

/// Tests kill nodes, so each has the ring alone.
static TURN: Mutex<()> = Mutex::const_new(());

/// The port of each node for clients.
const CQL_PORT: u16 = 19044;

/// The datacentres.
pub(crate) const WEST: &str = "west";
pub(crate) const EAST: &str = "east";

/// The ring for one test, with a keyspace of its own that has a copy on each node.
pub(crate) struct Ring {
    pub(crate) keyspace: String,
    /// Nodes in each datacentre.
    pub(crate) a_side: usize,
    folder: PathBuf,
    prefix: String,
    /// The nodes' relays, as `--scylla-nodes` takes them.
    nodes: String,
    _turn: MutexGuard<'static, ()>,
}

/// The address at which everybody reaches `node`.
fn host(prefix: &str, node: usize) -> String {
    format!("{prefix}1{node}")
}

/// The output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Ring {
    /// Waits for its turn, and until all nodes are up.
    pub(crate) async fn start() -> Self {
        let turn = TURN.lock().await;
        let folder = environment::folder("HANDBILL_TEST_DATACENTERS");
        let written = |name| {
            fs::read_to_string(folder.join(name)).expect("tests/servers/datacenters writes it").trim().to_owned()
        };
        let (prefix, a_side): (_, usize) = (written("prefix"), written("nodes").parse().unwrap());
        let nodes: Vec<_> = (1..=2 * a_side).map(|node| format!("{}:{CQL_PORT}", host(&prefix, node))).collect();
        let letters = (0..12).map(|_| char::from(b'a' + u8::try_from(index_below(&Random::System, 26)).unwrap()));
        let keyspace = format!("handbill_test_{}", letters.collect::<String>());
        let ring = Self { keyspace, a_side, nodes: nodes.join(","), folder, prefix, _turn: turn };
        ring.heal().await;
        ring.place("CREATE", &[WEST, EAST]).await;
        ring
    }

    /// The numbers of the nodes of `datacenter`.
    pub(crate) fn nodes_of(&self, datacenter: &str) -> Vec<usize> {
        (1..=2 * self.a_side).filter(|node| (node % 2 == 1) == (datacenter == WEST)).collect()
    }

    /// The address of `node`, at which clients reach it.
    pub(crate) fn address_of(&self, node: usize) -> SocketAddr {
        format!("{}:{CQL_PORT}", host(&self.prefix, node)).parse().unwrap()
    }

    /// Makes the keyspace, or changes it, so that it has a copy on each node of `datacenters`.
    pub(crate) async fn place(&self, verb: &str, datacenters: &[&str]) {
        let copies: Vec<_> = datacenters.iter().map(|name| format!("'{name}': {}", self.a_side)).collect();
        let keyspace = &self.keyspace;
        let cql = format!(
            "{verb} KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', {}}}",
            copies.join(", ")
        );
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(Duration::from_mins(2)));
        self.session().await.query_unpaged(statement, ()).await.unwrap();
    }

    pub(crate) async fn session(&self) -> Session {
        builder(&self.settings(WEST)).unwrap().build().await.unwrap()
    }

    /// The same, migrated: `west` writes.
    pub(crate) async fn migrated() -> Self {
        let ring = Self::start().await;
        let migrated = ring.command("migrate", &["--scylla-datacenter", WEST]).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        ring
    }

    /// Starts the nodes of `datacenter` again with the old Paxos. They have that until they are killed.
    pub(crate) async fn restart_with_v1(&self, datacenter: &str) {
        self.kill(datacenter).await;
        self.run("start", &[], &[("PAXOS_VARIANT", "v1")]).await;
    }

    /// Brings all nodes back, and lets them reach each other.
    pub(crate) async fn heal(&self) {
        self.script("start", &[]).await;
    }

    /// Ends the nodes of `datacenter` as a crash of their machines would.
    pub(crate) async fn kill(&self, datacenter: &str) {
        self.kill_nodes(&self.nodes_of(datacenter)).await;
    }

    /// The same for these nodes.
    pub(crate) async fn kill_nodes(&self, nodes: &[usize]) {
        let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
        self.script("kill", &nodes.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }

    /// Cuts the two datacentres off from each other, until they are healed. Replicas reach both.
    pub(crate) fn cut(&self) {
        let (west, east) = (self.nodes_of(WEST), self.nodes_of(EAST));
        self.hold(&west, &east);
        self.hold(&east, &west);
    }

    /// Holds what `senders` send to `receivers`, which still reach them, until they are healed.
    pub(crate) fn hold(&self, senders: &[usize], receivers: &[usize]) {
        for receiver in receivers {
            for &sender in senders {
                let command = format!("hold storage to {}", host(&self.prefix, sender));
                relay::tell(&self.folder.join(format!("relay{receiver}")), &command);
            }
        }
    }

    /// Makes one row of the fence name `datacenter` in `epoch`.
    pub(crate) async fn name_in_one_row(&self, key: &str, datacenter: &str, epoch: i64) {
        let set = format!("SET datacenter = '{datacenter}', epoch = {epoch}");
        let cql = format!("UPDATE {}.fence {set} WHERE component = '{key}'", self.keyspace);
        self.session().await.query_unpaged(cql, ()).await.unwrap();
    }

    /// Makes all copies of every table equal, as a repair does: each row is read from all. A row that the writing side acknowledged
    /// may be missing at the other one for ever, if that was slow for a moment.
    pub(crate) async fn repair(&self) {
        let session = self.session().await;
        for table in ["pages", "texts", "deletions", "deletions_by_time", "audit", "takedowns_begun", "creates"] {
            let mut statement = Statement::new(format!("SELECT * FROM {}.{table}", self.keyspace));
            statement.set_consistency(Consistency::All);
            let reading = async {
                while let Err(error) = session.query_unpaged(statement.clone(), ()).await {
                    println!("{table} again: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            in_time("a read of all copies", reading).await;
        }
    }

    async fn script(&self, action: &str, more: &[&str]) {
        self.run(action, more, &[]).await;
    }

    async fn run(&self, action: &str, more: &[&str], variables: &[(&str, &str)]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/datacenters");
        let mut command = Command::new(script);
        command.arg(action).arg(&self.folder).args(more).envs(variables.iter().copied()).stdout(Stdio::null());
        assert!(command.status().await.expect("it can be run").success(), "{action} {more:?}");
    }

    /// The settings of a replica in `datacenter`.
    pub(crate) fn settings(&self, datacenter: &str) -> CqlSettings {
        self.settings_with(datacenter, &[])
    }

    fn settings_with(&self, datacenter: &str, more: &[&str]) -> CqlSettings {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            settings: config::CqlSettings,
        }
        let line = ["handbill", "--scylla-nodes", &self.nodes, "--scylla-keyspace", &self.keyspace];
        let datacenter = ["--scylla-datacenter", datacenter];
        Line::try_parse_from([&line[..], &datacenter, more].concat()).unwrap().settings.store()
    }

    /// The store of a replica in `datacenter`.
    pub(crate) async fn store(&self, datacenter: &str) -> CqlStore {
        self.store_with(datacenter, &[]).await
    }

    /// The store of a replica in `datacenter` with `more` options.
    pub(crate) async fn store_with(&self, datacenter: &str, more: &[&str]) -> CqlStore {
        self.connected(datacenter, more, CqlTimeouts::default()).await
    }

    /// The store of a replica in `datacenter` that waits as long as a command does, so that a busy machine decides nothing.
    pub(crate) async fn patient_store(&self, datacenter: &str) -> CqlStore {
        self.connected(datacenter, &[], CqlTimeouts::OF_COMMANDS).await
    }

    async fn connected(&self, datacenter: &str, more: &[&str], timeouts: CqlTimeouts) -> CqlStore {
        let settings = self.settings_with(datacenter, more);
        let report = |progress: &Progress| println!("{datacenter}: {progress:?}");
        in_time("a store", CqlStore::connect(&settings, timeouts, Random::System, report)).await.unwrap()
    }

    /// The options by which `handbill` uses this keyspace.
    pub(crate) fn options(&self) -> [&str; 6] {
        ["--store", "scylla", "--scylla-nodes", &self.nodes, "--scylla-keyspace", &self.keyspace]
    }

    /// A command that hangs is ended after five minutes, so that the test shows what it has said; it ends with the test too.
    fn handbill(&self, subcommand: &str, more: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.env_clear().args(["5m", "setpriv", "--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_handbill")]);
        command.arg(subcommand).args(self.options()).args(more).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs `handbill SUBCOMMAND` on this keyspace, without a terminal.
    pub(crate) async fn command(&self, subcommand: &str, more: &[&str]) -> Said {
        let done = self.handbill(subcommand, more).output().await.expect("it can be run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: done.status.code(), output: text(done.stdout), errors: text(done.stderr) }
    }

    /// Runs `handbill failover --to DATACENTER`, and `then` once it has said `words`.
    pub(crate) async fn failover_and(&self, to: &str, words: &str, then: impl Future<Output = ()>) -> Said {
        let mut command = self.handbill("failover", &["--to", to]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be run");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut errors, mut output, mut then) = (String::new(), String::new(), Some(then));
        while let Some(line) = lines.next_line().await.unwrap() {
            errors.push_str(&line);
            if let Some(then) = then.take_if(|_| line.contains(words)) {
                then.await;
            }
        }
        child.stdout.take().unwrap().read_to_string(&mut output).await.unwrap();
        Said { code: child.wait().await.unwrap().code(), output, errors }
    }

    /// Runs `handbill failover --to DATACENTER`.
    pub(crate) async fn failover(&self, to: &str, more: &[&str]) -> Said {
        self.command("failover", &[&["--to", to], more].concat()).await
    }
}
