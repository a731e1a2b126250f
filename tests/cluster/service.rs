//! Handbill as it is run for real: three replicas behind a load balancer, over three database nodes and Redis.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, process};

use clap::Parser;
use handbill::config::{RedisSettings, ScyllaSettings};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use crate::histories::transport::Network;
use crate::nodes::Nodes;
use crate::replica::Replica;

/// When a server counts as not starting. Nothing depends on it being short.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often something that is about to happen is looked for.
const AGAIN: Duration = Duration::from_millis(20);

/// The keyspace of this run, made once.
static KEYSPACE: OnceCell<String> = OnceCell::const_new();

/// How a service differs from one with the limits of the specification.
pub(crate) struct Settings {
    pub(crate) create_limit: u32,
    pub(crate) edit_limit: u32,
    pub(crate) drain_delay: Duration,
}

impl Settings {
    /// For tests of something else than limits.
    pub(crate) fn unlimited() -> Self {
        // Several times as long as the load balancer takes to notice.
        Self { create_limit: 0, edit_limit: 0, drain_delay: Duration::from_secs(4) }
    }
}

/// The whole service. Everything but the database nodes ends with it.
pub(crate) struct Service {
    pub(crate) nodes: Nodes,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) redis: Redis,
    /// The load balancer's listener.
    pub(crate) balancer: SocketAddr,
    settings: Settings,
    keyspace: String,
    addresses: Addresses,
    _balancer: Child,
    _files: TempDir,
}

impl Service {
    /// Starts everything, and waits until the load balancer listens.
    pub(crate) async fn start(settings: Settings) -> Self {
        let nodes = Nodes::all().await;
        let keyspace = KEYSPACE.get_or_init(|| migrated(&nodes, "")).await.clone();
        Self::start_over(nodes, keyspace, settings).await
    }

    /// The same over a keyspace of its own, which `name` is part of.
    pub(crate) async fn start_apart(name: &str, settings: Settings) -> Self {
        let nodes = Nodes::all().await;
        let keyspace = migrated(&nodes, name).await;
        Self::start_over(nodes, keyspace, settings).await
    }

    async fn start_over(nodes: Nodes, keyspace: String, settings: Settings) -> Self {
        let addresses = Addresses::draw();
        let redis = Redis::start(addresses.at(20, 6379)).await;
        let files = tempfile::tempdir().expect("a folder");
        let balancer = addresses.at(30, 8080);
        let process = balance(balancer, addresses, files.path());
        let mut service = Self {
            nodes,
            replicas: Vec::new(),
            redis,
            balancer,
            settings,
            keyspace,
            addresses,
            _balancer: process,
            _files: files,
        };
        for number in 1..=3 {
            service.replicas.push(service.replica(number).await);
        }
        for replica in &service.replicas {
            replica.ready().await;
        }
        until_it_listens(balancer).await;
        service
    }

    /// Starts replica `number` at its place behind the load balancer.
    pub(crate) async fn replica(&self, number: u8) -> Replica {
        let (public, admin) = (self.addresses.at(number, 8080), self.addresses.at(number, 9090));
        Replica::start(public, admin, self.replica_settings()).await
    }

    /// What every replica is started with.
    pub(crate) fn replica_settings(&self) -> Vec<String> {
        let Settings { create_limit, edit_limit, drain_delay } = &self.settings;
        let settings = [
            ("--store", "scylla".to_owned()),
            ("--scylla-nodes", self.nodes.addresses()),
            ("--scylla-keyspace", self.keyspace.clone()),
            ("--redis-url", self.redis.url()),
            ("--base-url", format!("http://{}", self.balancer)),
            // The load balancer, whose connections come from the machine's own address.
            ("--trusted-proxies", "127.0.0.1".to_owned()),
            ("--create-limit", create_limit.to_string()),
            ("--edit-limit", edit_limit.to_string()),
            ("--drain-delay", format!("{}ms", drain_delay.as_millis())),
            // Every request of an outage is an error there.
            ("--log", "off".to_owned()),
        ];
        settings.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// The settings by which a test reaches the service's own pages past every replica.
    pub(crate) fn store_settings(&self) -> ScyllaSettings {
        let nodes = self.nodes.addresses();
        let line = ["handbill", "--scylla-nodes", &nodes, "--scylla-keyspace", &self.keyspace];
        Line::try_parse_from(line).expect("they are valid").store
    }

    /// The same for Redis.
    pub(crate) fn redis_settings(&self) -> RedisSettings {
        Line::try_parse_from(["handbill", "--redis-url", &self.redis.url()]).expect("they are valid").redis
    }

    /// The way of clients, through the load balancer.
    pub(crate) fn transport(&self) -> Network {
        Network(vec![self.balancer])
    }

    /// A metric without labels, of each replica.
    pub(crate) async fn metric(&self, name: &str) -> Vec<f64> {
        let mut values = Vec::new();
        for replica in &self.replicas {
            let (_, metrics) = replica.ask("/metrics").await;
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.push(
                line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{name} in {metrics}")),
            );
        }
        values
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    store: ScyllaSettings,
    #[command(flatten)]
    redis: RedisSettings,
}

/// A keyspace, made by `handbill migrate`.
async fn migrated(nodes: &Nodes, name: &str) -> String {
    let name = format!("handbill_{name}_{}", process::id());
    let mut migrate = Command::new(env!("CARGO_BIN_EXE_handbill"));
    migrate.env_clear().args([
        "migrate",
        "--store",
        "scylla",
        "--scylla-nodes",
        &nodes.addresses(),
        "--scylla-keyspace",
        &name,
    ]);
    let output = migrate.output().await.expect("it can be run");
    assert!(output.status.success(), "migrate: {output:?}");
    name
}

/// Loopback addresses that no other run on this machine has, with ports that are always the same.
#[derive(Clone, Copy)]
struct Addresses(u32);

impl Addresses {
    fn draw() -> Self {
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        // From 127.100 on; tests/servers/cluster stays below.
        Self(process::id().wrapping_mul(31).wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed)) % (150 * 256))
    }

    fn at(self, last: u8, port: u16) -> SocketAddr {
        let [.., high, low] = self.0.to_be_bytes();
        SocketAddr::new(Ipv4Addr::new(127, 100 + high, low, last).into(), port)
    }
}

/// Starts the load balancer as `deploy/haproxy.cfg` has it, but for the addresses.
fn balance(listen: SocketAddr, replicas: Addresses, folder: &Path) -> Child {
    let deployed =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/haproxy.cfg")).expect("it is there");
    let mut configuration = String::new();
    let mut in_resolvers = false;
    for line in deployed.lines() {
        if !line.starts_with([' ', '#']) && !line.is_empty() {
            in_resolvers = line.starts_with("resolvers");
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let line = match words.as_slice() {
            _ if in_resolvers => continue,
            ["bind", _] => format!("    bind {listen}"),
            ["server", name, _] => {
                let number = name.strip_prefix("handbill-").and_then(|number| number.parse().ok()).expect("handbill-N");
                format!("    server {name} {}", replicas.at(number, 8080))
            }
            // Fewer file descriptors than that are enough for a test, and may be all that there are.
            ["maxconn", _] => "    maxconn 2000".to_owned(),
            // Names are not looked up here.
            _ => line.split(" resolvers ").next().unwrap_or_default().to_owned(),
        };
        configuration.push_str(&line);
        configuration.push('\n');
    }
    assert_eq!(configuration.matches("    server handbill-").count(), 3, "{configuration}");
    let file = folder.join("haproxy.cfg");
    fs::write(&file, configuration).expect("it can be written");
    let log = || fs::File::create(folder.join("haproxy.log")).expect("it can be written");
    let mut haproxy = Command::new("haproxy");
    haproxy.arg("-db").arg("-f").arg(file).stdin(Stdio::null()).stdout(log()).stderr(log()).kill_on_drop(true);
    haproxy.spawn().expect("HAProxy is installed by ./tests/run")
}

/// A Redis of this service alone, which keeps nothing.
pub(crate) struct Redis {
    address: SocketAddr,
    process: Child,
}

impl Redis {
    async fn start(address: SocketAddr) -> Self {
        let mut server = Command::new("redis-server");
        server.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
        server.args(["--save", "", "--appendonly", "no"]).stdout(Stdio::null()).kill_on_drop(true);
        let process = server.spawn().expect("Redis is installed by ./tests/run");
        until_it_listens(address).await;
        Self { address, process }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Ends it at once, with all that it knew.
    pub(crate) async fn lose(&mut self) {
        self.process.kill().await.expect("it is ours");
    }

    /// Starts another in its place.
    pub(crate) async fn replace(&mut self) {
        *self = Self::start(self.address).await;
    }
}

async fn until_it_listens(address: SocketAddr) {
    let listening = async {
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.unwrap_or_else(|_| panic!("nobody listens at {address}"));
}
