//! Settings of Redis, in which replicas share limits.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use handbill_limiter::{RedisMode, RedisUrl};

/// Settings of Redis.
#[derive(Args, Clone, Debug)]
pub struct RedisSettings {
    /// Redis, as redis:// or rediss://, in which replicas share limits; without it limits are counted in this process.
    /// Several addresses, comma-separated, are nodes of a Redis Cluster, or the sentinels
    #[arg(long, env = "HANDBILL_REDIS_URL", hide_env_values = true, value_name = "URL", value_delimiter = ',')]
    pub redis_url: Vec<RedisUrl>,
    /// How the Redis servers work together [default: single for one address, cluster for several]
    #[arg(long, env = "HANDBILL_REDIS_MODE", value_name = "MODE", value_parser = mode())]
    pub redis_mode: Option<RedisMode>,
    /// Name that the sentinels have for the master; required with --redis-mode sentinel
    #[arg(long, env = "HANDBILL_REDIS_SENTINEL_MASTER", value_name = "NAME")]
    pub redis_sentinel_master: Option<String>,
    /// How long a request may wait for Redis in all; after that this replica decides alone
    #[arg(long, env = "HANDBILL_REDIS_TIMEOUT", value_name = "DURATION", default_value = "100ms", value_parser = timeout)]
    pub redis_timeout: Duration,
    /// User name for the Redis servers. Sentinels use the login in their own addresses
    #[arg(long, env = "HANDBILL_REDIS_USERNAME", value_name = "NAME")]
    pub redis_username: Option<String>,
    /// File with the password for the Redis servers, read again for each new connection
    #[arg(long, env = "HANDBILL_REDIS_PASSWORD_FILE", value_name = "FILE")]
    pub redis_password_file: Option<PathBuf>,
    /// Certificates (PEM) of the authorities for rediss:// servers, in place of the system's; read like the password file
    #[arg(long, env = "HANDBILL_REDIS_CA_FILE", value_name = "FILE")]
    pub redis_ca_file: Option<PathBuf>,
    /// Certificate (PEM) by which this process shows rediss:// servers who it is, with those that signed it; read like the password file
    #[arg(long, env = "HANDBILL_REDIS_CLIENT_CERT_FILE", value_name = "FILE")]
    pub redis_client_cert_file: Option<PathBuf>,
    /// Private key (PEM) of the certificate in --redis-client-cert-file
    #[arg(long, env = "HANDBILL_REDIS_CLIENT_KEY_FILE", value_name = "FILE")]
    pub redis_client_key_file: Option<PathBuf>,
}

impl RedisSettings {
    /// The settings as the limiter takes them.
    pub fn limiter(&self) -> handbill_limiter::RedisSettings {
        handbill_limiter::RedisSettings {
            urls: self.redis_url.clone(),
            mode: self.redis_mode,
            sentinel_master: self.redis_sentinel_master.clone(),
            timeout: self.redis_timeout,
            username: self.redis_username.clone(),
            password_file: self.redis_password_file.clone(),
            ca_file: self.redis_ca_file.clone(),
            client_cert_file: self.redis_client_cert_file.clone(),
            client_key_file: self.redis_client_key_file.clone(),
        }
    }
}

fn mode() -> impl TypedValueParser<Value = RedisMode> {
    let modes = [
        PossibleValue::new("single").help("One server"),
        PossibleValue::new("cluster").help("A Redis Cluster; the addresses are those of some of its nodes"),
        PossibleValue::new("sentinel").help("Sentinels that name the master; the addresses are theirs"),
    ];
    PossibleValuesParser::new(modes).map(|name| match name.as_str() {
        "single" => RedisMode::Single,
        "cluster" => RedisMode::Cluster,
        _ => RedisMode::Sentinel,
    })
}

/// Shortest and longest time for a call. The longest leaves a request time for its store.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(2);

fn timeout(text: &str) -> Result<Duration, &'static str> {
    let timeout = humantime::parse_duration(text).ok();
    timeout.filter(|timeout| TIMEOUTS.contains(timeout)).ok_or("give 10ms to 2s, for example 100ms")
}
