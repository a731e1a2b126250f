//! From the settings to a connection: one server, a Redis Cluster, or sentinels that name the master; TLS and login.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError,
    RedisFuture, RedisResult, TlsCertificates, TlsMode, Value,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;
use tokio::sync::Mutex;

use super::link::TimeLimits;
use crate::config::{RedisMode, RedisSettings};

/// Why the settings of Redis make no sense. No message holds an address, which may hold a password.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No address was given.
    #[error("--redis-url names no address")]
    NoAddress,
    /// An address cannot be read; the number counts from 1.
    #[error("address {0} of --redis-url is not of the form redis://host:port or rediss://host:port")]
    Address(usize),
    /// Some addresses are with TLS and some without.
    #[error("--redis-url mixes redis:// and rediss://: give all servers the same")]
    MixedTls,
    /// One server has one address.
    #[error("--redis-mode single takes one address in --redis-url")]
    SeveralForSingle,
    /// The sentinels know several masters.
    #[error("--redis-mode sentinel needs --redis-sentinel-master")]
    NoMasterName,
    /// The password's file cannot be read.
    #[error("cannot read {path} ({source}): --redis-password-file names a file that holds the password")]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// What reading it met.
        source: io::Error,
    },
    /// A name without a password logs nobody in.
    #[error("--redis-username needs --redis-password-file")]
    NoPassword,
    /// The certificates' file cannot be read.
    #[error("cannot read {path} ({reason}): --redis-ca-file names a file of PEM certificates")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificates would not be used.
    #[error("--redis-ca-file needs addresses that begin with rediss://")]
    CaWithoutTls,
    /// The client library refuses what the settings add up to.
    #[error("the settings of Redis do not fit together: {0}")]
    Refused(#[from] RedisError),
}

/// Where the server that holds our keys is found.
pub(super) enum Topology {
    Single(Box<Client>),
    Cluster(Box<ClusterClient>),
    // The library keeps its connections to the sentinels in the client, and so wants it for itself.
    Sentinel(Box<Mutex<SentinelClient>>),
}

/// A connection that many calls share, each sent without waiting for the answers before it. Clones are the same one.
#[derive(Clone)]
pub(super) enum Connection {
    Direct(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// What logs in to the servers that hold our keys.
struct Login {
    username: Option<String>,
    password: Option<String>,
}

impl Topology {
    /// What `settings` describe. Reads files, connects to nothing.
    pub(super) fn of(settings: &RedisSettings, limits: TimeLimits) -> Result<Self, OpenError> {
        let addresses = addresses(settings)?;
        let certificates = certificates(settings, &addresses)?;
        let login = login(settings)?;
        let several = addresses.len() > 1;
        match settings.redis_mode.unwrap_or(if several { RedisMode::Cluster } else { RedisMode::Single }) {
            RedisMode::Single if several => Err(OpenError::SeveralForSingle),
            RedisMode::Single => {
                let address = addresses.into_iter().next().ok_or(OpenError::NoAddress)?;
                single(address, login, certificates)
            }
            RedisMode::Cluster => cluster(addresses, login, certificates, limits),
            RedisMode::Sentinel => {
                let master = settings.redis_sentinel_master.as_ref().ok_or(OpenError::NoMasterName)?;
                sentinel(&addresses, master, login, certificates)
            }
        }
    }

    /// Connects. Takes as long as the library takes: the caller limits it.
    pub(super) async fn connect(&self, limits: TimeLimits) -> RedisResult<Connection> {
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limits.connect))
            .set_response_timeout(Some(limits.call()));
        match self {
            Self::Single(client) => {
                client.get_multiplexed_async_connection_with_config(&limits).await.map(Connection::Direct)
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
            Self::Sentinel(client) => {
                client.lock().await.get_async_connection_with_config(&limits).await.map(Connection::Direct)
            }
        }
    }
}

fn single(address: ConnectionInfo, login: Login, certificates: Option<TlsCertificates>) -> Result<Topology, OpenError> {
    let mut settings = address.redis_settings().clone();
    if let Some(username) = login.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = login.password {
        settings = settings.set_password(password);
    }
    let address = address.set_redis_settings(settings);
    let client = match certificates {
        Some(certificates) => Client::build_with_tls(address, certificates)?,
        None => Client::open(address)?,
    };
    Ok(Topology::Single(Box::new(client)))
}

fn cluster(
    addresses: Vec<ConnectionInfo>,
    login: Login,
    certificates: Option<TlsCertificates>,
    limits: TimeLimits,
) -> Result<Topology, OpenError> {
    let mut builder = ClusterClientBuilder::new(addresses)
        .tcp_settings(tcp_settings())
        .connection_timeout(limits.call())
        // Also bounds a call with all of the library's own retries and redirections.
        .response_timeout(limits.call());
    if let Some(username) = login.username {
        builder = builder.username(username);
    }
    if let Some(password) = login.password {
        builder = builder.password(password);
    }
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    Ok(Topology::Cluster(Box::new(builder.build()?)))
}

fn sentinel(
    addresses: &[ConnectionInfo],
    master: &str,
    login: Login,
    certificates: Option<TlsCertificates>,
) -> Result<Topology, OpenError> {
    let first = addresses.first().ok_or(OpenError::NoAddress)?;
    let (to_sentinels, is_tls) = (first.redis_settings().clone(), is_tls(first));
    let sentinels = addresses.iter().map(|address| address.addr().clone());
    let mut builder = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
        .set_client_to_redis_db(to_sentinels.db())
        .set_client_to_redis_tcp_settings(tcp_settings())
        .set_client_to_sentinel_tcp_settings(tcp_settings());
    if is_tls {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(username) = to_sentinels.username() {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = to_sentinels.password() {
        builder = builder.set_client_to_sentinel_password(password);
    }
    if let Some(username) = login.username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = login.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    Ok(Topology::Sentinel(Box::new(Mutex::new(builder.build()?))))
}

fn addresses(settings: &RedisSettings) -> Result<Vec<ConnectionInfo>, OpenError> {
    let mut addresses = Vec::new();
    for (index, url) in settings.redis_url.iter().enumerate() {
        let url = url.0.trim();
        // The library knows more schemes, sockets among them, and a way to switch the verification of TLS off.
        let is_ours = url.starts_with("redis://") || url.starts_with("rediss://");
        let address = url.into_connection_info().ok().filter(|_| is_ours);
        let address =
            address.filter(|address| !matches!(address.addr(), ConnectionAddr::TcpTls { insecure: true, .. }));
        addresses.push(address.ok_or(OpenError::Address(index + 1))?.set_tcp_settings(tcp_settings()));
    }
    let with_tls = addresses.iter().filter(|address| is_tls(address)).count();
    if addresses.is_empty() {
        return Err(OpenError::NoAddress);
    }
    if with_tls != 0 && with_tls != addresses.len() {
        return Err(OpenError::MixedTls);
    }
    Ok(addresses)
}

fn is_tls(address: &ConnectionInfo) -> bool {
    matches!(address.addr(), ConnectionAddr::TcpTls { .. })
}

/// Calls are small and wait for their answers, so none is to be held back for company.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn login(settings: &RedisSettings) -> Result<Login, OpenError> {
    let password = match &settings.redis_password_file {
        Some(path) => {
            let text = fs::read_to_string(path);
            let text = text.map_err(|source| OpenError::PasswordFile { path: path.clone(), source })?;
            Some(text.trim_end_matches(['\r', '\n']).to_owned())
        }
        None => None,
    };
    if settings.redis_username.is_some() && password.is_none() {
        return Err(OpenError::NoPassword);
    }
    Ok(Login { username: settings.redis_username.clone(), password })
}

/// The authorities to trust in place of the system's. Makes sure that TLS can be spoken at all.
fn certificates(settings: &RedisSettings, addresses: &[ConnectionInfo]) -> Result<Option<TlsCertificates>, OpenError> {
    let is_tls = addresses.iter().any(is_tls);
    if is_tls {
        // Fails where another part of the process has chosen already, and then that choice stands.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
    let Some(path) = &settings.redis_ca_file else { return Ok(None) };
    if !is_tls {
        return Err(OpenError::CaWithoutTls);
    }
    let fault = |reason: String| OpenError::CaFile { path: path.clone(), reason };
    let pem = fs::read(path).map_err(|error| fault(error.to_string()))?;
    // The library takes a file without any certificate for an authority that signed nothing.
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(fault("it holds no certificate".to_owned())),
        Ok(_) => Ok(Some(TlsCertificates { client_tls: None, root_cert: Some(pem) })),
        Err(error) => Err(fault(error.to_string())),
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Direct(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Direct(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Direct(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

/// A topology that tasks share.
pub(super) type SharedTopology = Arc<Topology>;
