//! Handbill as it is run for real: three replicas behind a load balancer, over three database nodes and Redis.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use handbill_pages::values::timestamp::UnixMillis;
use handbill_store_scylla::{ScyllaSettings, builder};
use handbill_test_support::environment;
use handbill_test_support::histories::transport::Network;
use handbill_test_support::server::{Server, handbill};
use scylla::client::session::Session;
use tempfile::TempDir;
use tokio::process::Child;

use super::calls::{publish, read};
use super::clocks::Clocks;
use super::nodes::Nodes;
use crate::deployment::{Addresses, balance, consistency, datacenters, keyspace};
use crate::redis::servers::OwnServer;

/// How a service differs from one with the limits of the specification.
pub(crate) struct Settings {
    pub(crate) create_limit: u32,
    pub(crate) edit_limit: u32,
    pub(crate) drain_delay: Duration,
    pub(crate) has_movable_clocks: bool,
}

impl Settings {
    pub(crate) fn unlimited() -> Self {
        // The delay is several times as long as the load balancer needs to notice.
        Self { create_limit: 0, edit_limit: 0, drain_delay: Duration::from_secs(4), has_movable_clocks: false }
    }

    fn of_replicas(&self, nodes: &Nodes, keyspace: &str, redis: &OwnServer, balancer: SocketAddr) -> Vec<String> {
        let Self { create_limit, edit_limit, drain_delay, .. } = self;
        let settings = [
            ("--store", "scylla".to_owned()),
            ("--scylla-nodes", nodes.shared().addresses()),
            ("--scylla-keyspace", keyspace.to_owned()),
            ("--redis-url", redis.address()),
            // Test machines are slow, and a replica that waits no longer would decide alone.
            ("--redis-timeout", "2s".to_owned()),
            ("--base-url", format!("http://{balancer}")),
            // This is the load balancer, which connects from the machine's own address.
            ("--trusted-proxies", "127.0.0.1".to_owned()),
            ("--create-limit", create_limit.to_string()),
            ("--edit-limit", edit_limit.to_string()),
            ("--drain-delay", format!("{}ms", drain_delay.as_millis())),
            // In an outage, every request would log an error.
            ("--log", "off".to_owned()),
        ];
        settings.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).chain(consistency()).collect()
    }
}

/// The whole service. Everything but the database nodes ends with it.
pub(crate) struct Service {
    pub(crate) nodes: Nodes,
    pub(crate) replicas: Vec<Server>,
    pub(crate) redis: OwnServer,
    pub(crate) balancer: SocketAddr,
    replica_settings: Vec<String>,
    keyspace: String,
    addresses: Addresses,
    clocks: Option<Clocks>,
    _balancer: Child,
    /// With the operators' sockets.
    files: TempDir,
}

impl Service {
    pub(crate) async fn start(settings: Settings) -> Self {
        let nodes = Nodes::all().await;
        let keyspace = keyspace(nodes.shared()).await;
        let addresses = Addresses::draw();
        let redis = OwnServer::start();
        let balancer = addresses.balancer();
        let files = tempfile::tempdir().expect("there is room");
        let replica_settings = settings.of_replicas(&nodes, &keyspace, &redis, balancer);
        let clocks = settings.has_movable_clocks.then(Clocks::new);
        let mut replicas = Vec::new();
        for number in 1..=3 {
            replicas.push(start_replica(addresses, number, &replica_settings, &files, clocks.as_ref()));
        }
        for replica in &replicas {
            replica.ready();
        }
        // The load balancer takes every replica for ready until its first check, and by now all are ready.
        let process = balance(addresses).await;
        Self {
            nodes,
            replicas,
            redis,
            balancer,
            replica_settings,
            keyspace,
            addresses,
            clocks,
            _balancer: process,
            files,
        }
    }

    /// Starts replica `number` at its place behind the load balancer.
    pub(crate) fn replica(&self, number: u8) -> Server {
        start_replica(self.addresses, number, &self.replica_settings, &self.files, self.clocks.as_ref())
    }

    /// Starts one more replica, of which the load balancer knows nothing.
    pub(crate) fn another_replica(&self) -> Server {
        let mut command = handbill(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--admin-socket"]);
        command.arg(socket(&self.files, 0)).args(&self.replica_settings);
        Server::spawn(command)
    }

    /// Kills replica `number`, and starts another in its place after this time.
    pub(crate) async fn restart(&mut self, number: usize, after: Duration) {
        drop(self.replicas.remove(number - 1));
        tokio::time::sleep(after).await;
        let replica = self.replica(u8::try_from(number).expect("there are three"));
        self.replicas.insert(number - 1, replica);
    }

    /// Sets the clock of replica `number` to this many seconds after the true time.
    pub(crate) fn set_clock(&self, number: u8, seconds: i64) {
        self.clocks.as_ref().expect("the settings ask for movable clocks").set(number, seconds);
    }

    /// Fails unless the time of a new page follows the clock of each replica.
    pub(crate) async fn check_clocks(&self) {
        for (number, replica) in (1..).zip(&self.replicas) {
            let now = async || {
                let page = read(replica.address, &publish(replica.address).await).await.expect_status(200);
                UnixMillis::parse(page.text("created_at")).expect("it is a time").get() / 1000
            };
            let true_time = now().await;
            self.set_clock(number, 3600);
            let moved_by = now().await - true_time;
            self.set_clock(number, 0);
            assert!(moved_by >= 3600, "the clock of replica {number} moved by {moved_by} s");
        }
    }

    pub(crate) async fn session(&self) -> Session {
        let builder = builder(&self.store_settings()).expect("they are valid");
        let session = builder.build().await.expect("a node is there");
        session.use_keyspace(&self.keyspace, false).await.expect("it exists");
        session
    }

    /// Settings that let a test reach the service's own pages without a replica.
    pub(crate) fn store_settings(&self) -> ScyllaSettings {
        let (nodes, [option, level]) = (self.nodes.shared().addresses(), consistency());
        let options = ["--scylla-nodes", &nodes, "--scylla-keyspace", &self.keyspace, &option, &level];
        environment::settings::<handbill::settings::ScyllaSettings>(&options).store()
    }

    pub(crate) fn socket(&self, number: u8) -> PathBuf {
        socket(&self.files, number)
    }

    /// The way that clients take, through the load balancer, and that of operators.
    pub(crate) fn transport(&self) -> Network {
        let operators = (1..=3).map(|number| socket(&self.files, number)).collect();
        Network { public: vec![self.balancer], operators }
    }

    /// A metric without labels, of each replica.
    pub(crate) fn metric(&self, name: &str) -> Vec<u64> {
        self.replicas.iter().map(|replica| replica.metric(name)).collect()
    }
}

fn socket(files: &TempDir, number: u8) -> PathBuf {
    files.path().join(format!("{number}.sock"))
}

fn start_replica(
    addresses: Addresses,
    number: u8,
    settings: &[String],
    files: &TempDir,
    clocks: Option<&Clocks>,
) -> Server {
    let (public, admin) = addresses.replica(number);
    let mut command = handbill(["--listen", &public.to_string(), "--admin-listen", &admin.to_string()]);
    command.envs(clocks.map(|clocks| clocks.environment(number)).unwrap_or_default());
    command.args(settings).arg("--admin-socket").arg(socket(files, number));
    // Each replica is beside a node of its own.
    if let Some(center) = datacenters().get(usize::from(number) - 1) {
        command.args(["--scylla-datacenter", center]);
    }
    Server::spawn(command)
}
