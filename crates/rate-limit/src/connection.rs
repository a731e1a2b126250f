//! Connections to one Redis server, made by `deadpool-redis` and shared by a pool of `deadpool`.
//!
//! Calls share a connection, and return it at once. The first call on a dead one finds out (`docs/decisions.md`).

use std::{error::Error, sync::Arc, time::Duration};

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, ConnectionInfo, TlsMode, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::settings::{OpenError, RedisMode, RedisSettings, is_tls, read_certificates, read_password, tcp_settings};

/// One connection carries any load.
const POOL_SIZE: usize = 4;

/// With DNS, TLS and the sentinels' answers: also over a round trip that is longer than a call may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) type ConnectError = Box<dyn Error + Send + Sync>;

pub(super) type Pool = managed::Pool<Manager>;

/// Reads password and certificates for each connection, which the managers of `deadpool-redis` 0.23.1 cannot: theirs keep
/// the login with which they were made.
pub(super) struct Manager {
    settings: Arc<RedisSettings>,
    /// Of one server, or of some that are as good: nodes of a Redis Cluster, or the sentinels.
    addresses: Vec<ConnectionInfo>,
}

impl Manager {
    /// Checks `settings` and the files that they name. Connects to nothing yet.
    pub(super) fn pool(settings: &Arc<RedisSettings>, addresses: Vec<ConnectionInfo>) -> Result<Pool, OpenError> {
        let manager = Self { settings: Arc::clone(settings), addresses };
        match settings.mode {
            Some(RedisMode::Sentinel) => drop(manager.sentinel()?),
            _ => drop(manager.addresses_with_login()?),
        }
        Ok(Pool::builder(manager).max_size(POOL_SIZE).build().expect("a pool without timeouts needs no runtime"))
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
        let certificates = read_certificates(&self.settings, is_tls(&self.addresses[0]))?;
        let mut addresses = Vec::with_capacity(self.addresses.len());
        for address in &self.addresses {
            let mut login = address.redis_settings().clone();
            if let Some(username) = &self.settings.username {
                login = login.set_username(username);
            }
            if let Some(password) = &password {
                login = login.set_password(password);
            }
            let mut address = address.clone().set_redis_settings(login);
            if let Some(certificates) = &certificates {
                let client = redis::Client::build_with_tls(address, certificates.clone())?;
                address = client.get_connection_info().clone();
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    /// The address to use now.
    async fn find(&self) -> Result<Vec<ConnectionInfo>, ConnectError> {
        if self.settings.mode != Some(RedisMode::Sentinel) {
            return Ok(self.addresses_with_login()?);
        }
        Ok(vec![self.sentinel()?.async_get_client().await?.get_connection_info().clone()])
    }
}

impl managed::Manager for Manager {
    type Type = MultiplexedConnection;
    type Error = ConnectError;

    async fn create(&self) -> Result<MultiplexedConnection, ConnectError> {
        let addresses = timeout(CONNECT_TIMEOUT, self.find()).await??;
        let limit = CONNECT_TIMEOUT / u32::try_from(addresses.len())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            // A call has its own, shorter limit.
            .set_response_timeout(Some(CONNECT_TIMEOUT));
        let mut failed = "no address".into();
        for address in addresses {
            let manager = deadpool_redis::Manager::new_with_config(address, config.clone())?;
            match timeout(limit, managed::Manager::create(&manager)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => failed = error.into(),
                Err(error) => failed = error.into(),
            }
        }
        Err(failed)
    }

    /// Nothing is asked: the check of `deadpool-redis` is a round trip before each call.
    async fn recycle(&self, _: &mut MultiplexedConnection, _: &Metrics) -> RecycleResult<ConnectError> {
        Ok(())
    }
}
