//! The settings of Redis, checked, the files that they name, and how long anything waits for Redis.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;

/// How the Redis servers work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisMode {
    Single,
    /// A Redis Cluster; the addresses are those of some of its nodes.
    Cluster,
    /// Sentinels that name the master; the addresses are theirs.
    Sentinel,
}

/// An address as it was given. It may contain a password, so its `Debug` is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(pub String);

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl(…)")
    }
}

impl From<String> for RedisUrl {
    // An invalid address is rejected where it is used, because clap would print it with its password.
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Settings of Redis. The errors name the options of the program that set them.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// As redis:// or rediss://. Several addresses are nodes of a Redis Cluster, or the sentinels.
    pub urls: Vec<RedisUrl>,
    /// How the servers work together; else one server for one address, and a cluster for several.
    pub mode: Option<RedisMode>,
    /// Name that the sentinels have for the master.
    pub sentinel_master: Option<String>,
    /// How long a request may wait for Redis in all.
    pub timeout: Duration,
    /// User name for the Redis servers. Sentinels use the login in their own addresses.
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) of the authorities for rediss:// servers, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Certificate (PEM) by which this process shows rediss:// servers who it is, with those that signed it, and its private key.
    pub client_cert_files: Vec<PathBuf>,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// Limit for the first of two tries, including the time to get a connection. On a healthy network an answer takes
    /// less than 1 ms.
    pub first_try: Duration,
    /// Limit for the second try, including the time to get a connection.
    pub second_try: Duration,
    /// Limit for making a connection, including DNS, TLS, the sentinels' answers and a cluster's slots. The attempt
    /// continues after its caller has stopped waiting.
    pub connect: Duration,
    /// Time between two probes while Redis is unreachable. No caller waits for a probe.
    pub probe_interval: Duration,
}

impl TimeLimits {
    /// Longest time that a caller waits, in total.
    pub fn call(&self) -> Duration {
        self.first_try + self.second_try
    }

    /// Limits by which a caller waits for at most `call` in total.
    ///
    /// A healthy Redis needs far less than the default of 100 ms. Each call that is given up may let a client have one
    /// attempt too many, so a longer time counts more exactly while Redis is slow.
    pub fn of_calls(call: Duration) -> Self {
        let (connect, probe_interval) = (CONNECT_TIMEOUT, PROBE_INTERVAL);
        Self { first_try: call / 2, second_try: call / 2, connect, probe_interval }
    }
}

/// Why the settings of Redis cannot be used. No message contains an address, which may contain a password.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("--redis-url names no address")]
    NoAddress,
    /// An address cannot be parsed; the number counts from 1.
    #[error("address {0} of --redis-url is not of the form redis://host:port or rediss://host:port")]
    Address(usize),
    /// Some addresses are with TLS and some without.
    #[error("--redis-url mixes redis:// and rediss://: give all servers the same")]
    MixedTls,
    #[error("--redis-mode single takes one address in --redis-url")]
    SeveralForSingle,
    /// The name of the master is missing. Sentinels may know several masters.
    #[error("--redis-mode sentinel needs --redis-sentinel-master")]
    NoMasterName,
    #[error("cannot read {path} ({source}): --redis-password-file names a file that holds the password")]
    PasswordFile { path: PathBuf, source: io::Error },
    /// A user name without a password cannot log in.
    #[error("--redis-username needs --redis-password-file")]
    NoPassword,
    #[error("cannot read {path} ({reason}): --redis-ca-file names a file of PEM certificates")]
    CaFile { path: PathBuf, reason: String },
    /// Certificates were given without TLS, so they would not be used.
    #[error("--redis-ca-file needs addresses that begin with rediss://")]
    CaWithoutTls,
    /// A certificate of this process without TLS, so it would not be shown.
    #[error("--redis-client-cert-file needs addresses that begin with rediss://")]
    IdentityWithoutTls,
    /// The certificate of this process or its key cannot be used.
    #[error(
        "cannot read {path} ({reason}): --redis-client-cert-file names PEM files with a certificate and its private key"
    )]
    IdentityFile { path: PathBuf, reason: String },
    /// The client library rejects the combination of settings.
    #[error("the settings of Redis do not fit together: {0}")]
    Refused(#[from] RedisError),
}

/// The addresses of the servers, or of the sentinels: at least one, all with TLS or all without.
pub(super) fn parse_addresses(settings: &RedisSettings) -> Result<Vec<ConnectionInfo>, OpenError> {
    let mut addresses = Vec::new();
    for (index, url) in settings.urls.iter().enumerate() {
        let url = url.0.trim();
        // The library also accepts other schemes, such as Unix sockets, and a way to turn the verification of TLS off.
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

pub(super) fn read_password(settings: &RedisSettings) -> Result<Option<String>, OpenError> {
    let Some(path) = &settings.password_file else {
        return if settings.username.is_some() { Err(OpenError::NoPassword) } else { Ok(None) };
    };
    let text = fs::read_to_string(path);
    let text = text.map_err(|source| OpenError::PasswordFile { path: path.clone(), source })?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// The authorities to trust in place of the system's, and the certificate of this process. Also makes sure that the
/// process can use TLS at all.
pub(super) fn read_certificates(settings: &RedisSettings, is_tls: bool) -> Result<Option<TlsCertificates>, OpenError> {
    if is_tls {
        // This fails if another part of the process has already chosen a provider. The process then uses that one.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
    let client_tls = read_identity(settings, is_tls)?;
    let root_cert = read_authorities(settings, is_tls)?;
    Ok((client_tls.is_some() || root_cert.is_some()).then_some(TlsCertificates { client_tls, root_cert }))
}

fn read_authorities(settings: &RedisSettings, is_tls: bool) -> Result<Option<Vec<u8>>, OpenError> {
    let Some(path) = &settings.ca_file else { return Ok(None) };
    if !is_tls {
        return Err(OpenError::CaWithoutTls);
    }
    let ca_file_error = |reason: String| OpenError::CaFile { path: path.clone(), reason };
    let pem = fs::read(path).map_err(|error| ca_file_error(error.to_string()))?;
    parse_certificates(&pem).map_err(ca_file_error)?;
    Ok(Some(pem))
}

fn read_identity(settings: &RedisSettings, is_tls: bool) -> Result<Option<ClientTlsConfig>, OpenError> {
    let files = &settings.client_cert_files;
    if files.is_empty() {
        return Ok(None);
    }
    if !is_tls {
        return Err(OpenError::IdentityWithoutTls);
    }
    let mut pem = Vec::new();
    for path in files {
        let read = fs::read(path);
        pem.extend(read.map_err(|error| OpenError::IdentityFile { path: path.clone(), reason: error.to_string() })?);
        pem.push(b'\n');
    }
    // The library would only find out when it connects that the key does not belong to the certificate.
    let check = || {
        let chain = parse_certificates(&pem)?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| format!("no private key: {error}"))?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        CertifiedKey::from_der(chain, key, &provider).map_err(|error| error.to_string())
    };
    check().map_err(|reason: String| {
        let paths: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        OpenError::IdentityFile { path: paths.join(",").into(), reason }
    })?;
    // It takes from each what it looks for.
    Ok(Some(ClientTlsConfig { client_cert: pem.clone(), client_key: pem }))
}

/// The library accepts a file without any certificate, and then trusts nobody.
fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("it holds no certificate".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn is_tls(address: &ConnectionInfo) -> bool {
    matches!(address.addr(), ConnectionAddr::TcpTls { .. })
}

/// Calls are small and wait for their answers, so each packet is sent without delay.
pub(super) fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}
