//! From the settings to a client of the Redis library: one server, a Redis Cluster, or sentinels that name the master.
//!
//! Addresses are parsed once. The password and the certificates are read each time a client is made, so that files that
//! were replaced are in use from the next connection on.

use std::fs;
use std::io;
use std::path::PathBuf;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, TlsCertificates, TlsMode,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use super::time_limits::TimeLimits;
use crate::config::{RedisMode, RedisSettings};

/// Why the settings of Redis cannot be used. No message contains an address, which may contain a password.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No address was given.
    #[error("--redis-url names no address")]
    NoAddress,
    /// An address cannot be parsed; the number counts from 1.
    #[error("address {0} of --redis-url is not of the form redis://host:port or rediss://host:port")]
    Address(usize),
    /// Some addresses are with TLS and some without.
    #[error("--redis-url mixes redis:// and rediss://: give all servers the same")]
    MixedTls,
    /// One server has one address.
    #[error("--redis-mode single takes one address in --redis-url")]
    SeveralForSingle,
    /// Sentinels may know several masters.
    #[error("--redis-mode sentinel needs --redis-sentinel-master")]
    NoMasterName,
    /// The password file cannot be read.
    #[error("cannot read {path} ({source}): --redis-password-file names a file that holds the password")]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: io::Error,
    },
    /// A user name without a password cannot log in.
    #[error("--redis-username needs --redis-password-file")]
    NoPassword,
    /// The file of certificates cannot be used.
    #[error("cannot read {path} ({reason}): --redis-ca-file names a file of PEM certificates")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The error of reading or parsing it.
        reason: String,
    },
    /// The certificates would not be used.
    #[error("--redis-ca-file needs addresses that begin with rediss://")]
    CaWithoutTls,
    /// The client library rejects the combination of settings.
    #[error("the settings of Redis do not fit together: {0}")]
    Refused(#[from] RedisError),
}

/// The servers that the settings name.
pub(super) struct Topology {
    settings: RedisSettings,
    addresses: Vec<ConnectionInfo>,
    mode: RedisMode,
}

/// A client of the library, which makes connections with one state of the files.
pub(super) enum Client {
    Single(Box<deadpool_redis::Manager>),
    Cluster(Box<ClusterClient>),
    Sentinel(Box<SentinelClient>),
}

impl Topology {
    /// Checks `settings`, including the files that they name. Connects to nothing.
    pub(super) fn parse(settings: &RedisSettings, limits: TimeLimits) -> Result<Self, OpenError> {
        let addresses = parse_addresses(settings)?;
        let several = addresses.len() > 1;
        let mode = settings.redis_mode.unwrap_or(if several { RedisMode::Cluster } else { RedisMode::Single });
        if several && mode == RedisMode::Single {
            return Err(OpenError::SeveralForSingle);
        }
        let topology = Self { settings: settings.clone(), addresses, mode };
        topology.client(limits)?;
        Ok(topology)
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.mode == RedisMode::Cluster
    }

    /// A client with the password and the certificates that are in the files now.
    pub(super) fn client(&self, limits: TimeLimits) -> Result<Client, OpenError> {
        let certificates = self.read_certificates()?;
        let password = self.read_password()?;
        match self.mode {
            RedisMode::Single => self.single(password, certificates, limits),
            RedisMode::Cluster => self.cluster(password, certificates, limits),
            RedisMode::Sentinel => self.sentinel(password, certificates),
        }
    }

    fn single(
        &self,
        password: Option<String>,
        certificates: Option<TlsCertificates>,
        limits: TimeLimits,
    ) -> Result<Client, OpenError> {
        let mut address = self.first_address()?.clone();
        let mut login = address.redis_settings().clone();
        if let Some(username) = &self.settings.redis_username {
            login = login.set_username(username);
        }
        if let Some(password) = password {
            login = login.set_password(password);
        }
        address = address.set_redis_settings(login);
        if let Some(certificates) = certificates {
            // Only the library's client can put certificates into an address.
            address = redis::Client::build_with_tls(address, certificates)?.get_connection_info().clone();
        }
        let manager = deadpool_redis::Manager::new_with_config(address, connection_config(limits))?;
        Ok(Client::Single(Box::new(manager)))
    }

    fn cluster(
        &self,
        password: Option<String>,
        certificates: Option<TlsCertificates>,
        limits: TimeLimits,
    ) -> Result<Client, OpenError> {
        let mut builder = ClusterClientBuilder::new(self.addresses.clone())
            .tcp_settings(tcp_settings())
            .connection_timeout(limits.call())
            // Also limits a call with all retries and redirections that the library makes.
            .response_timeout(limits.call());
        if let Some(username) = &self.settings.redis_username {
            builder = builder.username(username);
        }
        if let Some(password) = password {
            builder = builder.password(password);
        }
        if let Some(certificates) = certificates {
            builder = builder.certs(certificates);
        }
        Ok(Client::Cluster(Box::new(builder.build()?)))
    }

    fn sentinel(&self, password: Option<String>, certificates: Option<TlsCertificates>) -> Result<Client, OpenError> {
        let master = self.settings.redis_sentinel_master.as_ref().ok_or(OpenError::NoMasterName)?;
        let first = self.first_address()?;
        let sentinels = self.addresses.iter().map(|address| address.addr().clone());
        let mut builder = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
            .set_client_to_redis_db(first.redis_settings().db())
            .set_client_to_redis_tcp_settings(tcp_settings())
            .set_client_to_sentinel_tcp_settings(tcp_settings());
        if is_tls(first) {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(username) = first.redis_settings().username() {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = first.redis_settings().password() {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(username) = &self.settings.redis_username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = password {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(certificates) = certificates {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
        Ok(Client::Sentinel(Box::new(builder.build()?)))
    }

    fn first_address(&self) -> Result<&ConnectionInfo, OpenError> {
        self.addresses.first().ok_or(OpenError::NoAddress)
    }

    fn read_password(&self) -> Result<Option<String>, OpenError> {
        let Some(path) = &self.settings.redis_password_file else {
            return if self.settings.redis_username.is_some() { Err(OpenError::NoPassword) } else { Ok(None) };
        };
        let text = fs::read_to_string(path);
        let text = text.map_err(|source| OpenError::PasswordFile { path: path.clone(), source })?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The authorities to trust in place of the system's. Also makes sure that the process can use TLS at all.
    fn read_certificates(&self) -> Result<Option<TlsCertificates>, OpenError> {
        let is_tls = self.addresses.iter().any(is_tls);
        if is_tls {
            // It fails if another part of the process has chosen a provider already, which then is used.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        let Some(path) = &self.settings.redis_ca_file else { return Ok(None) };
        if !is_tls {
            return Err(OpenError::CaWithoutTls);
        }
        let ca_file_error = |reason: String| OpenError::CaFile { path: path.clone(), reason };
        let pem = fs::read(path).map_err(|error| ca_file_error(error.to_string()))?;
        // The library accepts a file without any certificate, and then trusts nobody.
        let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(ca_file_error("it holds no certificate".to_owned())),
            Ok(_) => Ok(Some(TlsCertificates { client_tls: None, root_cert: Some(pem) })),
            Err(error) => Err(ca_file_error(error.to_string())),
        }
    }
}

/// The limits that the library itself enforces on a connection to one server.
pub(super) fn connection_config(limits: TimeLimits) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(limits.connect)).set_response_timeout(Some(limits.call()))
}

fn parse_addresses(settings: &RedisSettings) -> Result<Vec<ConnectionInfo>, OpenError> {
    let mut addresses = Vec::new();
    for (index, url) in settings.redis_url.iter().enumerate() {
        let url = url.0.trim();
        // The library knows more schemes, Unix sockets among them, and a way to turn the verification of TLS off.
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

/// Calls are small and wait for their answers, so each packet is sent at once.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}
