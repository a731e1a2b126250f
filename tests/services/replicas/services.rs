//! The services that the tests of this process share. Each has three replicas behind a load balancer; all use the same
//! keyspace and the same Redis.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, PoisonError, mpsc};
use std::thread;

use tempfile::TempDir;
use tokio::process::Child;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Mutex, OnceCell};

use crate::deployment::{Addresses, Nodes, balance, keyspace, redis};
use crate::replica::Replica;
use crate::support::app::{BASE_URL, Limits};
use crate::turns::ended_alone;

/// Three replicas behind a load balancer.
pub(crate) struct Service {
    /// The load balancer's listener.
    pub(crate) balancer: SocketAddr,
    pub(crate) replicas: [Replica; 3],
    /// How many tests had finished with the nodes to themselves when these replicas were last seen ready.
    ready_at: Mutex<u64>,
    _balancer: Child,
    /// With the operators' sockets.
    _files: TempDir,
}

impl Service {
    /// Waits until the replicas are ready again, if a test of `cluster` has harmed the nodes.
    async fn recover(&self) {
        let mut ready_at = self.ready_at.lock().await;
        if *ready_at != ended_alone() {
            for replica in &self.replicas {
                replica.ready().await;
            }
            *ready_at = ended_alone();
        }
    }
}

/// Brings the nodes back, if a test of `cluster` has harmed them.
async fn heal_nodes() {
    static HEALED_AT: Mutex<u64> = Mutex::const_new(0);
    let mut healed_at = HEALED_AT.lock().await;
    if *healed_at != ended_alone() {
        Nodes::of_this_run().heal().await;
        *healed_at = ended_alone();
    }
}

/// The servers that all services use.
struct Ground {
    nodes: Nodes,
    keyspace: String,
    redis: SocketAddr,
    _redis: Child,
}

/// The runtime that starts services. Its thread lasts as long as this process, since the services end with the thread.
pub(crate) static STARTER: LazyLock<Handle> = LazyLock::new(|| {
    let (give, take) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("it can be made");
        give.send(runtime.handle().clone()).expect("it is waited for");
        runtime.block_on(pending::<()>());
    });
    take.recv().expect("the thread gives it")
});

/// The service with these limits, started when it is first asked for. A service that did not start is not tried again.
pub(crate) async fn service(limits: Limits) -> Arc<Service> {
    type Started = Arc<OnceCell<Option<Arc<Service>>>>;
    static STARTED: LazyLock<std::sync::Mutex<HashMap<Limits, Started>>> = LazyLock::new(std::sync::Mutex::default);
    heal_nodes().await;
    let started = Arc::clone(STARTED.lock().unwrap_or_else(PoisonError::into_inner).entry(limits).or_default());
    let service = started.get_or_init(|| async { STARTER.spawn(start(limits)).await.ok().map(Arc::new) }).await;
    let service =
        Arc::clone(service.as_ref().unwrap_or_else(|| panic!("{limits:?} did not start, standard error says why")));
    service.recover().await;
    service
}

async fn start(limits: Limits) -> Service {
    static GROUND: OnceCell<Ground> = OnceCell::const_new();
    let ground = GROUND.get_or_init(ground).await;
    let addresses = Addresses::draw();
    let settings = [
        ("--base-url", BASE_URL.to_owned()),
        ("--store", "scylla".to_owned()),
        ("--scylla-nodes", ground.nodes.addresses()),
        ("--scylla-keyspace", ground.keyspace.clone()),
        ("--redis-url", format!("redis://{}", ground.redis)),
        // Test machines are slow, and a replica that waits no longer would decide alone.
        ("--redis-timeout", "2s".to_owned()),
        // This is the load balancer, which connects from the machine's own address.
        ("--trusted-proxies", "127.0.0.1".to_owned()),
        ("--create-limit", limits.create.to_string()),
        ("--edit-limit", limits.edit.to_string()),
        ("--token-limit", limits.token.to_string()),
        ("--log", "off".to_owned()),
    ];
    let settings: Vec<String> = settings.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
    let files = tempfile::tempdir().expect("there is room");
    let replica = async |number| {
        let (public, admin) = addresses.replica(number);
        let socket = files.path().join(format!("{number}.sock")).display().to_string();
        let replica =
            Replica::start(public, admin, settings.iter().chain(&["--admin-socket".to_owned(), socket])).await;
        replica.ready().await;
        replica
    };
    let (one, two, three) = tokio::join!(replica(1), replica(2), replica(3));
    // The load balancer takes every replica for ready until its first check, and by now all are ready.
    let process = balance(addresses).await;
    Service {
        balancer: addresses.balancer(),
        replicas: [one, two, three],
        ready_at: Mutex::new(ended_alone()),
        _balancer: process,
        _files: files,
    }
}

/// Waits until all database nodes are up and see each other, and prepares what the services share.
async fn ground() -> Ground {
    let nodes = Nodes::of_this_run();
    nodes.heal().await;
    let keyspace = keyspace(&nodes).await;
    let address = Addresses::draw().redis();
    let process = redis(address).await;
    Ground { nodes, keyspace, redis: address, _redis: process }
}
