//! The ring: its nodes, keyspaces on it, stores in each datacentre, and `handbill` as operators call it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Parser;
use handbill::config;
use handbill_core::ports::random::{Random, index_below};
use handbill_store_cql::{CqlSettings, CqlStore, CqlTimeouts, Progress, builder};
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

use crate::environment::{self, in_time};
use crate::relay;

/// Tests kill nodes, so each has the ring alone.
static TURN: Mutex<()> = Mutex::const_new(());

/// The datacentres.
pub(crate) const WEST: &str = "west";
pub(crate) const EAST: &str = "east";

/// The ring for one test, with a keyspace of its own that has a copy in each datacentre.
pub(crate) struct Ring {
    pub(crate) keyspace: String,
    folder: PathBuf,
    /// The nodes' relays, as `--scylla-nodes` takes them: the first is of `west`, the second of `east`.
    nodes: String,
    _turn: MutexGuard<'static, ()>,
}

/// The output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Ring {
    /// Waits for its turn, and until both nodes are up.
    pub(crate) async fn start() -> Self {
        let turn = TURN.lock().await;
        let folder = environment::folder("HANDBILL_TEST_DATACENTERS");
        let prefix = fs::read_to_string(folder.join("prefix")).expect("tests/servers/datacenters writes it");
        let nodes = format!("{prefix}11:19044,{prefix}12:19044");
        let letters = (0..12).map(|_| char::from(b'a' + u8::try_from(index_below(&Random::System, 26)).unwrap()));
        let keyspace = format!("handbill_test_{}", letters.collect::<String>());
        let ring = Self { keyspace, folder, nodes, _turn: turn };
        ring.heal().await;
        ring.place("CREATE", &[WEST, EAST]).await;
        ring
    }

    /// Makes the keyspace, or changes it, so that it has one copy in each of `datacenters`.
    pub(crate) async fn place(&self, verb: &str, datacenters: &[&str]) {
        let copies: Vec<_> = datacenters.iter().map(|name| format!("'{name}': 1")).collect();
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

    /// Starts the node of `datacenter` again with the old Paxos. It has that until it is killed.
    pub(crate) async fn restart_with_v1(&self, datacenter: &str) {
        self.kill(datacenter).await;
        self.run("start", &[], &[("PAXOS_VARIANT", "v1")]).await;
    }

    /// Brings both nodes back, and lets them reach each other.
    pub(crate) async fn heal(&self) {
        self.script("start", &[]).await;
    }

    /// Ends the node of `datacenter` as a crash of its machine would.
    pub(crate) async fn kill(&self, datacenter: &str) {
        self.script("kill", &[if datacenter == WEST { "1" } else { "2" }]).await;
    }

    /// Cuts the two nodes off from each other, until they are healed. Replicas reach both.
    pub(crate) fn cut(&self) {
        for relay in ["relay1", "relay2"] {
            relay::tell(&self.folder.join(relay), "hold storage to");
        }
    }

    /// Makes one row of the fence name `datacenter` in `epoch`.
    pub(crate) async fn name_in_one_row(&self, key: &str, datacenter: &str, epoch: i64) {
        let set = format!("SET datacenter = '{datacenter}', epoch = {epoch}");
        let cql = format!("UPDATE {}.fence {set} WHERE component = '{key}'", self.keyspace);
        self.session().await.query_unpaged(cql, ()).await.unwrap();
    }

    /// Makes both copies of every table equal, as a repair does: each row is read from both. A row that the writing side acknowledged
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
            in_time("a read of both copies", reading).await;
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
        let settings = self.settings_with(datacenter, more);
        let report = |progress: &Progress| println!("{datacenter}: {progress:?}");
        let connecting = CqlStore::connect(&settings, CqlTimeouts::default(), Random::System, report);
        in_time("a store", connecting).await.unwrap()
    }

    /// A command that hangs is ended after five minutes, so that the test shows what it has said; it ends with the test too.
    fn handbill(&self, subcommand: &str, more: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.env_clear().args(["5m", "setpriv", "--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_handbill")]);
        command.args([subcommand, "--store", "scylla"]);
        command.args(["--scylla-nodes", &self.nodes]);
        command.args(["--scylla-keyspace", &self.keyspace]).args(more).stdin(Stdio::null()).kill_on_drop(true);
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
        let mut child = self.handbill("failover", &["--to", to]).stderr(Stdio::piped()).spawn().expect("it can be run");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut errors, mut then) = (String::new(), Some(then));
        while let Some(line) = lines.next_line().await.unwrap() {
            errors.push_str(&line);
            if let Some(then) = then.take_if(|_| line.contains(words)) {
                then.await;
            }
        }
        Said { code: child.wait().await.unwrap().code(), output: String::new(), errors }
    }

    /// Runs `handbill failover --to DATACENTER`.
    pub(crate) async fn failover(&self, to: &str, more: &[&str]) -> Said {
        self.command("failover", &[&["--to", to], more].concat()).await
    }
}
