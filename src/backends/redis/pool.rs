//! The pool of connections to Redis.
//!
//! # How a connection is lent
//!
//! A connection carries many calls at once, so a call uses a clone and the pool has the original back at once. A call
//! that waits for a hung node of a cluster thus holds no other call up, and four connections are enough for any load.
//!
//! # No check before use
//!
//! The check of `deadpool-redis` costs a round trip for each call and needs the right to `UNWATCH`; in a cluster it asks
//! every master, so that one lost master would condemn every connection. A dead connection is found by the call that
//! uses it instead, and the second try gets a new one (`docs/decisions/0010-redis-pool.md`).

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, RecycleResult, Timeouts};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, Value};
use thiserror::Error;

use super::time_limits::TimeLimits;
use super::topology::{Client, OpenError, Topology, connection_config};

/// Most connections at once. One carries any load; there are more only where several are made at the same time.
const POOL_SIZE: usize = 4;

pub(super) type Pool = managed::Pool<Manager>;

/// Makes connections to the servers of a [`Topology`].
pub(super) struct Manager {
    topology: Topology,
    limits: TimeLimits,
}

/// Why no connection was made.
#[derive(Debug, Error)]
pub(super) enum ConnectError {
    /// A file is unreadable that was readable when the process started.
    #[error(transparent)]
    Settings(#[from] OpenError),
    /// No server was reached, or it refused the login.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// A connection that many calls share, each sent without waiting for the answers before it. Clones are the same one.
#[derive(Clone)]
pub(super) enum Connection {
    /// To one server.
    Direct(MultiplexedConnection),
    /// To all servers of a cluster.
    Cluster(ClusterConnection),
}

/// A pool that connects to the servers of `topology` on demand.
pub(super) fn build(topology: Topology, limits: TimeLimits) -> Pool {
    let timeouts = Timeouts { wait: Some(limits.first_try), create: Some(limits.connect), recycle: None };
    let builder = Pool::builder(Manager { topology, limits }).max_size(POOL_SIZE).timeouts(timeouts);
    builder.runtime(Runtime::Tokio1).build().expect("a pool with timeouts has a runtime")
}

impl Manager {
    pub(super) fn is_cluster(&self) -> bool {
        self.topology.is_cluster()
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = ConnectError;

    async fn create(&self) -> Result<Connection, ConnectError> {
        Ok(match self.topology.client(self.limits)? {
            Client::Single(manager) => Connection::Direct(manager.create().await?),
            Client::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
            Client::Sentinel(mut client) => {
                let config = connection_config(self.limits);
                Connection::Direct(client.get_async_connection_with_config(&config).await?)
            }
        })
    }

    async fn recycle(&self, _: &mut Connection, _: &Metrics) -> RecycleResult<ConnectError> {
        Ok(())
    }
}

impl Connection {
    fn inner(&mut self) -> &mut dyn ConnectionLike {
        match self {
            Self::Direct(connection) => connection,
            Self::Cluster(connection) => connection,
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.inner().req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.inner().req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Direct(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}
