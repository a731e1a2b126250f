//! Servers for the tests, and replicas that use them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use handbill_pages::ports::clock::Clock;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_pages::values::client::Client;
use handbill_pages::values::quota::{Decision, Quota};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_rate_limit::{Alone, RedisLimiter, RedisMode, RedisSettings, RedisUrl};
use handbill_test_support::environment::from_the_runner;
use handbill_test_support::port::Port;
use prometheus_client::metrics::gauge::Gauge;
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) const TEN: Quota = Quota { limit: 10, window: Duration::from_hours(1) };

/// Far longer than any call on the slowest machine, so no call is given up.
pub(crate) const PATIENT: Duration = Duration::from_mins(1);

/// Of a service with more time for Redis than by default, because test machines are slow.
pub(crate) const USUAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    Single,
    Cluster,
    Sentinel,
}

pub(crate) const ALL: [Shared; 3] = [Shared::Single, Shared::Cluster, Shared::Sentinel];

impl Shared {
    pub(crate) fn settings(self) -> RedisSettings {
        let (variable, mode) = match self {
            Self::Single => ("HANDBILL_TEST_REDIS", RedisMode::Single),
            Self::Cluster => ("HANDBILL_TEST_REDIS_CLUSTER", RedisMode::Cluster),
            Self::Sentinel => ("HANDBILL_TEST_REDIS_SENTINEL", RedisMode::Sentinel),
        };
        of_several(&from_the_runner(variable), mode)
    }
}

/// Settings that lead to the servers at `addresses`, which commas separate.
fn of_several(addresses: &str, mode: RedisMode) -> RedisSettings {
    RedisSettings {
        urls: addresses.split(',').map(|address| RedisUrl(address.to_owned())).collect(),
        sentinel_master: (mode == RedisMode::Sentinel).then(|| "handbill".to_owned()),
        mode: Some(mode),
        ..to("")
    }
}

pub(crate) fn to(address: &str) -> RedisSettings {
    RedisSettings {
        urls: vec![RedisUrl(address.to_owned())],
        mode: None,
        sentinel_master: None,
        username: None,
        password_file: None,
        ca_file: None,
        client_cert_files: Vec::new(),
        timeout: USUAL,
    }
}

/// A clock that stands still, so that no window passes on a slow machine.
#[derive(Debug)]
pub(crate) struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) struct Replica {
    pub(crate) limiter: RedisLimiter,
    pub(crate) fallback: Gauge,
    pub(crate) alone: watch::Receiver<Alone>,
}

impl Replica {
    /// A replica whose calls of Redis take at most `timeout`.
    pub(crate) fn start(settings: &RedisSettings, timeout: Duration) -> Self {
        let (settings, fallback) = (RedisSettings { timeout, ..settings.clone() }, Gauge::default());
        let limiter =
            RedisLimiter::open(&settings, 1 << 20, Arc::new(StillClock), Random::System, fallback.clone()).unwrap();
        let alone = limiter.alone();
        Self { limiter, fallback, alone }
    }

    pub(crate) async fn check(&self, client: Client) -> Decision {
        self.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await
    }

    /// Whether the replica has decided attempts without Redis, since it began or was last seen to have come back.
    pub(crate) fn decided_alone(&self) -> bool {
        self.has_lost_redis() || self.alone.has_changed().unwrap()
    }

    pub(crate) fn has_lost_redis(&self) -> bool {
        self.alone.borrow().servers > 0
    }
}

/// A client that neither another test nor an earlier run has used.
pub(crate) fn client() -> Client {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let drawn = |_| u8::try_from(Random::System.indices().below(256)).unwrap();
    let network: Vec<u8> = (0..4).map(drawn).collect();
    let bits = u128::from(u32::from_be_bytes(network.try_into().unwrap())) << 96
        | u128::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 64;
    Client::from(std::net::IpAddr::V6(bits.into()))
}

/// A connection of the test itself, to see what a replica left in a server.
pub(crate) async fn connect(address: &str) -> MultiplexedConnection {
    redis::Client::open(address).unwrap().get_multiplexed_async_connection().await.unwrap()
}

pub(crate) struct OwnServer {
    pub(crate) port: u16,
    options: Vec<String>,
    directory: TempDir,
    process: Child,
    /// Keeps the port for this server while it is down.
    _held: Port,
}

impl OwnServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&["--port", "{port}"])
    }

    /// Starts one with options, in which `{port}` is replaced by its port and `{dir}` by its directory.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start_in(directory, options)
    }

    pub(crate) fn start_in(directory: TempDir, options: &[&str]) -> Self {
        let held = Port::hold();
        let port = held.number();
        let dir = directory.path().to_str().unwrap().to_owned();
        let fill = |option: &&str| option.replace("{port}", &port.to_string()).replace("{dir}", &dir);
        let options: Vec<String> = options.iter().map(fill).collect();
        let process = run(&options, directory.path());
        Self { port, options, directory, process, _held: held }
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = run(&self.options, self.directory.path());
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(options: &[String], directory: &Path) -> Child {
    let mut process = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(directory)
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server is installed; ./tests/run installs it");
    let mut log = BufReader::new(process.stdout.take().unwrap()).lines();
    let ready = log.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
    assert!(ready, "redis-server {options:?} started");
    // Redis would block if nobody read its log.
    std::thread::spawn(move || log.for_each(drop));
    process
}

/// Several servers of one test, started like the shared ones of `./tests/run`, and killed when the test is over.
pub(crate) struct OwnServers {
    directory: TempDir,
    pub(crate) settings: RedisSettings,
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/servers/redis");

impl OwnServers {
    pub(crate) fn start(mode: RedisMode) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = if mode == RedisMode::Sentinel { "sentinel" } else { "cluster" };
        let output = Command::new(SCRIPT).args(["start", name]).arg(directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let settings = of_several(String::from_utf8(output.stdout).unwrap().trim(), mode);
        Self { directory, settings }
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        let number = std::fs::read_to_string(self.directory.path().join(name).join("pid")).unwrap();
        kill_process(Pid::from_raw(number.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }
}

impl Drop for OwnServers {
    fn drop(&mut self) {
        let _ = Command::new(SCRIPT).arg("stop").arg(self.directory.path()).status();
    }
}
