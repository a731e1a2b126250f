//! How Redis is reached: its servers, logins and certificates.

use std::{fmt, fs, path::PathBuf, time::Duration};

use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, TlsCertificates,
    io::tcp::TcpSettings,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{pki_types::pem::PemObject, sign::CertifiedKey};
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisMode {
    Single,
    /// The addresses are some of its nodes.
    Cluster,
    /// The addresses are the sentinels, which name the master.
    Sentinel,
}

/// May contain a password, so its `Debug` is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(pub String);

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl(…)")
    }
}

impl From<String> for RedisUrl {
    // Checked later, because clap would print it with its password.
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// Several are nodes of a Redis Cluster, or sentinels.
    pub urls: Vec<RedisUrl>,
    /// Default: one server for one address, a cluster for several.
    pub mode: Option<RedisMode>,
    pub sentinel_master: Option<String>,
    /// For a whole request.
    pub timeout: Duration,
    /// Sentinels use the login in their own addresses.
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    /// PEM; replaces the system's authorities.
    pub ca_file: Option<PathBuf>,
    /// PEM: certificate, its chain and its private key.
    pub client_cert_files: Vec<PathBuf>,
}

/// No message contains an address, which may contain a password.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("--redis-url names no address")]
    NoAddress,
    /// Counts from 1.
    #[error("address {0} of --redis-url is not of the form redis://host:port or rediss://host:port")]
    Address(usize),
    #[error("--redis-url mixes redis:// and rediss://: give all servers the same")]
    MixedTls,
    #[error("--redis-mode single takes one address in --redis-url")]
    SeveralForSingle,
    /// Sentinels may know several masters.
    #[error("--redis-mode sentinel needs --redis-sentinel-master")]
    NoMasterName,
    #[error("--redis-sentinel-master has no effect without --redis-mode sentinel: give that too, or leave it out")]
    NoSentinel,
    #[error("--redis-username needs --redis-password-file")]
    NoPassword,
    #[error("--redis-ca-file and --redis-client-cert-file need addresses that begin with rediss://")]
    CertificatesWithoutTls,
    #[error("cannot read {path} ({reason}): {option} names {content}")]
    File { path: PathBuf, reason: String, option: &'static str, content: &'static str },
    #[error("the settings of Redis do not fit together: {0}")]
    Refused(#[from] RedisError),
}

pub(super) fn parse_addresses(settings: &RedisSettings) -> Result<Vec<ConnectionInfo>, OpenError> {
    let mut addresses = Vec::new();
    for (index, url) in settings.urls.iter().enumerate() {
        let url = url.0.trim();
        // The library also accepts Unix sockets, and a way to turn off the verification of TLS.
        let is_ours = url.starts_with("redis://") || url.starts_with("rediss://");
        let address = url.into_connection_info().ok().filter(|address| is_ours && !is_insecure(address));
        addresses.push(address.ok_or(OpenError::Address(index + 1))?.set_tcp_settings(tcp_settings()));
    }
    match addresses.iter().filter(|address| is_tls(address)).count() {
        _ if addresses.is_empty() => Err(OpenError::NoAddress),
        with_tls if with_tls == 0 || with_tls == addresses.len() => Ok(addresses),
        _ => Err(OpenError::MixedTls),
    }
}

pub(super) fn read_password(settings: &RedisSettings) -> Result<Option<String>, OpenError> {
    let file = settings.password_file.as_slice();
    if file.is_empty() && settings.username.is_some() {
        return Err(OpenError::NoPassword);
    }
    let text = read_files(file, "--redis-password-file", "a file that holds the password", |_| Ok(()))?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).trim_end_matches(['\r', '\n']).to_owned()))
}

/// Also makes sure that the process can use TLS.
pub(super) fn read_certificates(settings: &RedisSettings, is_tls: bool) -> Result<Option<TlsCertificates>, OpenError> {
    let ca_file = settings.ca_file.as_slice();
    let identity = settings.client_cert_files.as_slice();
    let is_given = !ca_file.is_empty() || !identity.is_empty();
    if !is_tls {
        return if is_given { Err(OpenError::CertificatesWithoutTls) } else { Ok(None) };
    }
    // Fails if the process already has a provider, and then uses that one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let root_cert =
        read_files(ca_file, "--redis-ca-file", "a file of PEM certificates", |pem| parse_certificates(pem).map(drop))?;
    let identity = read_files(
        identity,
        "--redis-client-cert-file",
        "PEM files with a certificate and its private key",
        // Otherwise only a connection would show a wrong key.
        |pem| {
            let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("no private key: {error}"))?;
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            CertifiedKey::from_der(parse_certificates(pem)?, key, &provider)
                .map(drop)
                .map_err(|error| error.to_string())
        },
    )?;
    let client_tls = identity.map(|pem| ClientTlsConfig { client_cert: pem.clone(), client_key: pem });
    Ok(is_given.then_some(TlsCertificates { client_tls, root_cert }))
}

fn read_files(
    files: &[PathBuf],
    option: &'static str,
    content: &'static str,
    check: impl Fn(&[u8]) -> Result<(), String>,
) -> Result<Option<Vec<u8>>, OpenError> {
    let Some(path) = files.last() else { return Ok(None) };
    let mut read = Vec::new();
    for path in files {
        let part = fs::read(path).map_err(|error| error.to_string());
        read.extend(part.map_err(|reason| OpenError::File { path: path.clone(), reason, option, content })?);
        read.push(b'\n');
    }
    check(&read).map_err(|reason| OpenError::File { path: path.clone(), reason, option, content })?;
    Ok(Some(read))
}

/// The library accepts a file without certificates, and trusts nothing.
fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| error.to_string())?;
    if certificates.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(certificates) }
}

pub(super) fn is_tls(address: &ConnectionInfo) -> bool {
    matches!(address.addr(), ConnectionAddr::TcpTls { .. })
}

fn is_insecure(address: &ConnectionInfo) -> bool {
    matches!(address.addr(), ConnectionAddr::TcpTls { insecure: true, .. })
}

pub(super) fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::RedisLimiter;
    use handbill_pages::ports::clock::SystemClock;
    use handbill_pages::ports::random::Random;

    fn to(address: &str) -> RedisSettings {
        RedisSettings {
            urls: vec![RedisUrl(address.to_owned())],
            mode: None,
            sentinel_master: None,
            username: None,
            password_file: None,
            ca_file: None,
            client_cert_files: Vec::new(),
            timeout: Duration::from_secs(1),
        }
    }

    fn refusal(settings: &RedisSettings) -> OpenError {
        let clock = Arc::new(SystemClock::new());
        let opened = RedisLimiter::open(settings, 1 << 20, clock, Random::System, Gauge::default());
        opened.err().expect("the settings are refused")
    }

    #[tokio::test]
    async fn settings_that_make_no_sense_are_refused_without_a_password() {
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("empty"), "").unwrap();
        let file = |name: &str| Some(files.path().join(name));
        let url = "redis://:sesame@127.0.0.1:1";
        let urls = |urls: &[&str]| urls.iter().map(|url| RedisUrl((*url).to_owned())).collect::<Vec<_>>();
        for (settings, told) in [
            (RedisSettings { urls: Vec::new(), ..to(url) }, "names no address"),
            (to("http://:sesame@127.0.0.1"), "address 1"),
            (to("127.0.0.1:6379:sesame"), "address 1"),
            (to("unix:///sesame"), "address 1"),
            (RedisSettings { urls: urls(&[url, "sesame"]), ..to(url) }, "address 2"),
            (to("rediss://:sesame@127.0.0.1:1/#insecure"), "address 1"),
            (RedisSettings { urls: urls(&[url, "rediss://:sesame@127.0.0.1:2"]), ..to(url) }, "mixes"),
            (RedisSettings { urls: urls(&[url, url]), mode: Some(RedisMode::Single), ..to(url) }, "takes one address"),
            (RedisSettings { mode: Some(RedisMode::Sentinel), ..to(url) }, "--redis-sentinel-master"),
            (RedisSettings { username: Some("somebody".to_owned()), ..to(url) }, "needs --redis-password-file"),
            (RedisSettings { password_file: file("missing"), ..to(url) }, "--redis-password-file"),
            (RedisSettings { ca_file: file("missing"), ..to("rediss://127.0.0.1:1") }, "--redis-ca-file"),
            (RedisSettings { ca_file: file("empty"), ..to("rediss://127.0.0.1:1") }, "holds no certificate"),
            (RedisSettings { ca_file: file("empty"), ..to(url) }, "rediss://"),
        ] {
            let line = refusal(&settings).to_string();
            assert!(line.contains(told), "{line}");
            assert!(!line.contains("sesame") && !line.contains('\n'), "{line}");
            assert!(!format!("{settings:?}").contains("sesame"));
        }
    }
}
