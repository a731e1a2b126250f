//! Settings of Redis, which replicas share for limits and reservations.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How the Redis servers work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedisMode {
    /// One server.
    Single,
    /// A Redis Cluster. The addresses are those of some of its nodes.
    Cluster,
    /// Sentinels that name the master. The addresses are theirs.
    Sentinel,
}

/// An address as given. It may hold a password, so its `Debug` is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(pub String);

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl(…)")
    }
}

impl From<String> for RedisUrl {
    // An invalid address is refused where it is used. Clap would print it, and with it the password.
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Settings of Redis.
#[derive(Args, Clone, Debug)]
pub struct RedisSettings {
    /// Redis, as redis:// or rediss://, for limits that replicas share; without it limits are counted in this process.
    /// Several addresses, comma-separated, are those of nodes of a Redis Cluster or of sentinels
    #[arg(long, env = "HANDBILL_REDIS_URL", hide_env_values = true, value_name = "URL", value_delimiter = ',')]
    pub redis_url: Vec<RedisUrl>,
    /// How the Redis servers work together [default: single for one address, cluster for several]
    #[arg(long, env = "HANDBILL_REDIS_MODE", value_name = "MODE", value_enum)]
    pub redis_mode: Option<RedisMode>,
    /// Name that the sentinels have for the master; required with --redis-mode sentinel
    #[arg(long, env = "HANDBILL_REDIS_SENTINEL_MASTER", value_name = "NAME")]
    pub redis_sentinel_master: Option<String>,
    /// User to log in to the Redis servers as. Sentinels take the login in their own addresses
    #[arg(long, env = "HANDBILL_REDIS_USERNAME", value_name = "NAME")]
    pub redis_username: Option<String>,
    /// File with the password for the Redis servers
    #[arg(long, env = "HANDBILL_REDIS_PASSWORD_FILE", value_name = "FILE")]
    pub redis_password_file: Option<PathBuf>,
    /// Certificates (PEM) that sign those of rediss:// servers, in place of the system's
    #[arg(long, env = "HANDBILL_REDIS_CA_FILE", value_name = "FILE")]
    pub redis_ca_file: Option<PathBuf>,
}
