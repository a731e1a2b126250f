//! Connections to Redis (one server, a Redis Cluster, or the master that sentinels name), and calls within a time limit,
//! which pause after a failure.
//!
//! Calls share a connection, and return it at once. The first call on a dead one finds out (`docs/decisions.md`).

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use deadpool::managed::{self, Metrics, PoolError, RecycleResult};
use prometheus_client::metrics::gauge::Gauge;
use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, Cmd, ConnectionInfo, FromRedisValue, RedisResult, ScriptInvocation, TlsMode};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::settings::{
    OpenError, RedisMode, RedisSettings, is_tls, parse_addresses, read_certificates, read_password, tcp_settings,
};

/// One connection carries any load.
const POOL_SIZE: usize = 4;

/// With DNS, TLS and the sentinels' answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) type ConnectError = Box<dyn Error + Send + Sync>;

pub(super) type Pool = managed::Pool<Manager>;

/// Reads password and certificates for each connection.
pub(super) struct Manager {
    settings: RedisSettings,
    addresses: Vec<ConnectionInfo>,
    pub(super) mode: RedisMode,
}

/// Clones share one connection.
#[derive(Clone)]
pub(super) enum Connection {
    Direct(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Manager {
    /// Checks `settings` and the files that they name. Connects to nothing yet.
    pub(super) fn pool(settings: &RedisSettings) -> Result<Pool, OpenError> {
        let addresses = parse_addresses(settings)?;
        let several = addresses.len() > 1;
        let mode = settings.mode.unwrap_or(if several { RedisMode::Cluster } else { RedisMode::Single });
        if several && mode == RedisMode::Single {
            return Err(OpenError::SeveralForSingle);
        }
        if settings.sentinel_master.is_some() && mode != RedisMode::Sentinel {
            return Err(OpenError::NoSentinel);
        }
        let manager = Self { settings: settings.clone(), addresses, mode };
        match mode {
            RedisMode::Single => drop(manager.single()?),
            RedisMode::Cluster => drop(manager.cluster()?),
            RedisMode::Sentinel => drop(manager.sentinel()?),
        }
        Ok(Pool::builder(manager).max_size(POOL_SIZE).build().expect("a pool without timeouts needs no runtime"))
    }

    fn single(&self) -> Result<deadpool_redis::Manager, OpenError> {
        let mut address = self.addresses_with_login()?.swap_remove(0);
        if let Some(certificates) = read_certificates(&self.settings, is_tls(&address))? {
            address = redis::Client::build_with_tls(address, certificates)?.get_connection_info().clone();
        }
        Ok(deadpool_redis::Manager::new_with_config(address, self.config())?)
    }

    fn cluster(&self) -> Result<ClusterClient, OpenError> {
        let mut builder = ClusterClientBuilder::new(self.addresses_with_login()?)
            .tcp_settings(tcp_settings())
            .connection_timeout(self.settings.timeout)
            // Also limits the library's retries and redirections.
            .response_timeout(self.settings.timeout);
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

    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(self.settings.timeout))
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = ConnectError;

    async fn create(&self) -> Result<Connection, ConnectError> {
        let made = async {
            Ok(match self.mode {
                RedisMode::Single => Connection::Direct(self.single()?.create().await?),
                RedisMode::Cluster => Connection::Cluster(self.cluster()?.get_async_connection().await?),
                RedisMode::Sentinel => {
                    Connection::Direct(self.sentinel()?.get_async_connection_with_config(&self.config()).await?)
                }
            })
        };
        timeout(CONNECT_TIMEOUT, made).await?
    }

    async fn recycle(&self, _: &mut Connection, _: &Metrics) -> RecycleResult<ConnectError> {
        Ok(())
    }
}

impl Connection {
    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::Direct(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }

    pub(super) async fn invoke<T: FromRedisValue>(&mut self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        match self {
            Self::Direct(connection) => script.invoke_async(connection).await,
            Self::Cluster(connection) => script.invoke_async(connection).await,
        }
    }
}

/// Redis is not asked this long after a failure.
const PAUSE: Duration = Duration::from_secs(1);

const PROBE_KEY_SECONDS: u32 = 3;

pub(super) struct Link {
    pub(super) pool: Pool,
    limit: Duration,
    pub(super) is_down: watch::Sender<bool>,
    fallback: Gauge,
    probe_key: String,
}

impl Link {
    /// The caller must be within a Tokio runtime.
    pub(super) fn open(settings: &RedisSettings, fallback: Gauge, probe_key: String) -> Result<Arc<Self>, OpenError> {
        let pool = Manager::pool(settings)?;
        let link =
            Arc::new(Self { pool, limit: settings.timeout, is_down: watch::Sender::new(false), fallback, probe_key });
        let first = Arc::clone(&link);
        tokio::spawn(async move {
            if let Err(error) = first.pool.get().await {
                first.lost(error);
            }
        });
        Ok(link)
    }

    /// `None` without an answer in time: the command may have run. `ask` may run twice, which must change no more than
    /// once.
    pub(super) async fn call<T, F>(self: &Arc<Self>, ask: impl Fn(Connection) -> F) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        if *self.is_down.borrow() {
            return None;
        }
        match timeout(self.limit, self.ask_again_if_cut(ask)).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => self.lost(error),
            Err(_) => self.lost("no answer in time"),
        }
        None
    }

    async fn ask_again_if_cut<T, F>(&self, ask: impl Fn(Connection) -> F) -> Result<T, PoolError<ConnectError>>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let began = Instant::now();
        let mut answer = ask(self.pool.get().await?.clone()).await;
        // Only a server's refusal has a code.
        if answer.as_ref().is_err_and(|error| error.code().is_none()) {
            self.pool.retain(|_, connection| connection.created > began);
            answer = ask(self.pool.get().await?.clone()).await;
        }
        answer.map_err(|error| PoolError::Backend(error.into()))
    }

    /// A replica answers, but takes no writes.
    async fn probe(&self) -> Result<(), PoolError<ConnectError>> {
        self.pool.retain(|_, _| false);
        let mut connection = self.pool.get().await?.clone();
        let mut write = redis::cmd("SET");
        write.arg(&self.probe_key).arg(1).arg("EX").arg(PROBE_KEY_SECONDS);
        connection.query(&write).await.map_err(|error| PoolError::Backend(error.into()))
    }

    fn lost(self: &Arc<Self>, error: impl Display) {
        if self.is_down.send_if_modified(|is_down| !mem::replace(is_down, true)) {
            tracing::warn!(%error, "Redis is unreachable: this replica limits by what it has counted itself");
            self.fallback.set(1);
            tokio::spawn(find(Arc::downgrade(self)));
        }
    }
}

async fn find(link: Weak<Link>) {
    loop {
        sleep(PAUSE).await;
        let Some(link) = link.upgrade() else { return };
        match link.probe().await {
            Ok(()) => {
                tracing::info!("Redis is back: limits are shared again");
                link.fallback.set(0);
                link.is_down.send_replace(false);
                return;
            }
            Err(error) => tracing::debug!(%error, "Redis is still unreachable"),
        }
    }
}
