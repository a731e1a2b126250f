//! The pool of connections to Redis: to one server, to a Redis Cluster, or to the master that sentinels name.
//!
//! # How a connection is lent
//!
//! A connection carries many calls at once, so a call takes a clone and returns the original to the pool immediately.
//! So a call that waits for a hung node of a cluster delays no other call, and four connections are enough for any
//! load.
//!
//! # No check before use
//!
//! The check of `deadpool-redis` costs a round trip for each call and needs the right to `UNWATCH`; in a cluster the
//! check would ask every master, so that with one lost master every connection would fail the check. A dead connection
//! is found by the call that uses it instead, and the second try gets a new one (`docs/internals/decisions/0006-redis-pool.md`).

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, RecycleResult, Timeouts};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, Cmd, ConnectionInfo, Pipeline, RedisError, RedisFuture, TlsMode, Value};
use thiserror::Error;

use super::settings::{
    OpenError, RedisMode, RedisSettings, TimeLimits, is_tls, parse_addresses, read_certificates, read_password,
    tcp_settings,
};

/// Maximum number of connections. One connection carries any load; there are more only if several are made at the same
/// time.
const POOL_SIZE: usize = 4;

pub(super) type Pool = managed::Pool<Manager>;

/// Makes connections. The password and the certificates are read for each connection.
pub(super) struct Manager {
    settings: RedisSettings,
    addresses: Vec<ConnectionInfo>,
    mode: RedisMode,
    limits: TimeLimits,
}

/// A client of the library, with the content that the files had when it was made.
enum Client {
    Single(Box<deadpool_redis::Manager>),
    Cluster(Box<ClusterClient>),
    Sentinel(Box<SentinelClient>),
}

#[derive(Debug, Error)]
pub(super) enum ConnectError {
    /// A file can no longer be used.
    #[error(transparent)]
    Settings(#[from] OpenError),
    /// No server was reached, or it refused the login.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// A connection that many calls share. A call is sent without waiting for the answers to earlier calls. All clones use
/// the same connection.
#[derive(Clone)]
pub(super) enum Connection {
    Direct(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Manager {
    /// Checks `settings`, including the files that they name. Connects to nothing.
    pub(super) fn new(settings: &RedisSettings, limits: TimeLimits) -> Result<Self, OpenError> {
        let addresses = parse_addresses(settings)?;
        let several = addresses.len() > 1;
        let mode = settings.mode.unwrap_or(if several { RedisMode::Cluster } else { RedisMode::Single });
        if several && mode == RedisMode::Single {
            return Err(OpenError::SeveralForSingle);
        }
        let manager = Self { settings: settings.clone(), addresses, mode, limits };
        manager.client()?;
        Ok(manager)
    }

    pub(super) fn into_pool(self) -> Pool {
        let TimeLimits { first_try, connect, .. } = self.limits;
        let timeouts = Timeouts { wait: Some(first_try), create: Some(connect), recycle: None };
        let builder = Pool::builder(self).max_size(POOL_SIZE).timeouts(timeouts).runtime(Runtime::Tokio1);
        builder.build().expect("a pool with timeouts has a runtime")
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.mode == RedisMode::Cluster
    }

    fn client(&self) -> Result<Client, OpenError> {
        Ok(match self.mode {
            RedisMode::Single => Client::Single(Box::new(self.single()?)),
            RedisMode::Cluster => Client::Cluster(Box::new(self.cluster()?)),
            RedisMode::Sentinel => Client::Sentinel(Box::new(self.sentinel()?)),
        })
    }

    fn single(&self) -> Result<deadpool_redis::Manager, OpenError> {
        let mut address = self.addresses_with_login()?.swap_remove(0);
        if let Some(certificates) = read_certificates(&self.settings, is_tls(&address))? {
            // Only the library's client can put certificates into an address.
            address = redis::Client::build_with_tls(address, certificates)?.get_connection_info().clone();
        }
        Ok(deadpool_redis::Manager::new_with_config(address, self.config())?)
    }

    fn cluster(&self) -> Result<ClusterClient, OpenError> {
        let mut builder = ClusterClientBuilder::new(self.addresses_with_login()?)
            .tcp_settings(tcp_settings())
            .connection_timeout(self.limits.call())
            // This also limits a call, including all retries and redirections that the library makes.
            .response_timeout(self.limits.call());
        if let Some(certificates) = read_certificates(&self.settings, is_tls(&self.addresses[0]))? {
            builder = builder.certs(certificates);
        }
        Ok(builder.build()?)
    }

    fn sentinel(&self) -> Result<SentinelClient, OpenError> {
        let master = self.settings.sentinel_master.as_ref().ok_or(OpenError::NoMasterName)?;
        let to_sentinels = self.addresses[0].redis_settings();
        let sentinels = self.addresses.iter().map(|address| address.addr().clone());
        let mut builder = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
            .set_client_to_redis_db(to_sentinels.db())
            .set_client_to_redis_tcp_settings(tcp_settings())
            .set_client_to_sentinel_tcp_settings(tcp_settings());
        if is_tls(&self.addresses[0]) {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(username) = to_sentinels.username() {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = to_sentinels.password() {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(username) = &self.settings.username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = read_password(&self.settings)? {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(certificates) = read_certificates(&self.settings, is_tls(&self.addresses[0]))? {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
        Ok(builder.build()?)
    }

    /// The addresses, with the user name and the password of the settings in place of their own.
    fn addresses_with_login(&self) -> Result<Vec<ConnectionInfo>, OpenError> {
        let password = read_password(&self.settings)?;
        let with_login = |address: &ConnectionInfo| {
            let mut login = address.redis_settings().clone();
            if let Some(username) = &self.settings.username {
                login = login.set_username(username);
            }
            if let Some(password) = &password {
                login = login.set_password(password);
            }
            address.clone().set_redis_settings(login)
        };
        Ok(self.addresses.iter().map(with_login).collect())
    }

    /// The limits that the library itself enforces on a connection to one server.
    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.limits.connect))
            .set_response_timeout(Some(self.limits.call()))
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = ConnectError;

    async fn create(&self) -> Result<Connection, ConnectError> {
        // This reads small files on a thread of the runtime. It happens rarely, because a connection lasts long.
        Ok(match self.client()? {
            Client::Single(manager) => Connection::Direct(manager.create().await?),
            Client::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
            Client::Sentinel(mut client) => {
                Connection::Direct(client.get_async_connection_with_config(&self.config()).await?)
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
