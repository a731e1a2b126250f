//! Settings of rate limits, and of Redis, in which replicas share them.

use std::{ops::RangeInclusive, path::PathBuf, str::FromStr, time::Duration};

use clap::Args;
use handbill_rate_limit::{RedisMode, RedisUrl};

use super::number;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::values::{client::SharedNetwork, quota::Quota};

/// A window remembers each attempt in 8 bytes, and a larger one would push all others out.
const MAX_LIMIT: u32 = 100_000;

const MAX_WINDOW: Duration = Duration::from_hours(31 * 24);

#[derive(Args, Debug)]
pub struct RateLimitSettings {
    /// Pages a client may create per window; 0 is no limit
    #[arg(long, env = "HANDBILL_CREATE_LIMIT", value_name = "REQUESTS", default_value_t = 10, value_parser = number(0..=MAX_LIMIT, 10))]
    pub create_limit: u32,
    /// Updates and deletes a client may try per window; 0 is no limit
    #[arg(long, env = "HANDBILL_EDIT_LIMIT", value_name = "REQUESTS", default_value_t = 60, value_parser = number(0..=MAX_LIMIT, 60))]
    pub edit_limit: u32,
    /// Tokens a client may ask for per window; 0 is no limit
    #[arg(long, env = "HANDBILL_TOKEN_LIMIT", value_name = "REQUESTS", default_value_t = 60, value_parser = number(0..=MAX_LIMIT, 60))]
    pub token_limit: u32,
    /// Networks that share one window FACTOR times as large, comma-separated [default: none]
    #[arg(long, env = "HANDBILL_LIMIT_NETWORKS", value_name = "CIDR=FACTOR,…", value_delimiter = ',', value_parser = SharedNetwork::from_str)]
    pub limit_networks: Vec<SharedNetwork>,
    /// Window of these limits, in whole seconds
    #[arg(long, env = "HANDBILL_RATE_WINDOW", value_name = "DURATION", default_value = "1h", value_parser = window)]
    pub rate_window: Duration,
}

impl RateLimitSettings {
    pub fn quotas(&self) -> Quotas {
        Quotas {
            create: self.quota(self.create_limit),
            edit: self.quota(self.edit_limit),
            token: self.quota(self.token_limit),
        }
    }

    fn quota(&self, limit: u32) -> Option<Quota> {
        (limit > 0).then_some(Quota { limit, window: self.rate_window })
    }
}

/// `RateLimit-Policy` counts whole seconds.
fn window(text: &str) -> Result<Duration, &'static str> {
    match humantime::parse_duration(text) {
        Ok(window) if window.subsec_nanos() == 0 && (Duration::from_secs(1)..=MAX_WINDOW).contains(&window) => {
            Ok(window)
        }
        _ => Err("give whole seconds from 1s to 31days, for example 1h"),
    }
}

#[derive(Args, Clone, Debug)]
pub struct RedisSettings {
    /// redis:// or rediss:// address for shared limits; several are nodes or sentinels [default: none]
    #[arg(long, env = "HANDBILL_REDIS_URL", hide_env_values = true, value_name = "URL", value_delimiter = ',')]
    pub redis_url: Vec<RedisUrl>,
    /// How the Redis servers work together: single, cluster or sentinel [default: single for one address, cluster for several]
    #[arg(long, env = "HANDBILL_REDIS_MODE", value_name = "MODE", value_parser = mode)]
    pub redis_mode: Option<RedisMode>,
    /// Name that the sentinels have for the master [default: none]
    #[arg(long, env = "HANDBILL_REDIS_SENTINEL_MASTER", value_name = "NAME")]
    pub redis_sentinel_master: Option<String>,
    /// Longest wait for Redis; after that this replica decides alone
    #[arg(long, env = "HANDBILL_REDIS_TIMEOUT", value_name = "DURATION", default_value = "100ms", value_parser = timeout)]
    pub redis_timeout: Duration,
    /// User for the Redis servers; sentinels use the login in their addresses [default: none]
    #[arg(long, env = "HANDBILL_REDIS_USERNAME", value_name = "NAME")]
    pub redis_username: Option<String>,
    /// File with the password for Redis, read for each new connection [default: none]
    #[arg(long, env = "HANDBILL_REDIS_PASSWORD_FILE", value_name = "FILE")]
    pub redis_password_file: Option<PathBuf>,
    /// PEM file of authorities for rediss:// [default: the system's]
    #[arg(long, env = "HANDBILL_REDIS_CA_FILE", value_name = "FILE")]
    pub redis_ca_file: Option<PathBuf>,
    /// PEM files of this process: certificate, its chain and key, comma-separated [default: none]
    #[arg(long, env = "HANDBILL_REDIS_CLIENT_CERT_FILE", value_name = "FILE,…", value_delimiter = ',')]
    pub redis_client_cert_file: Vec<PathBuf>,
}

impl RedisSettings {
    /// An option that means nothing, because no Redis is named.
    pub(super) fn idle_option(&self) -> Option<&'static str> {
        let Self {
            redis_url,
            redis_mode,
            redis_sentinel_master,
            redis_timeout,
            redis_username,
            redis_password_file,
            redis_ca_file,
            redis_client_cert_file,
        } = self;
        let given = [
            ("--redis-mode", redis_mode.is_some()),
            ("--redis-sentinel-master", redis_sentinel_master.is_some()),
            ("--redis-timeout", *redis_timeout != DEFAULT_TIMEOUT),
            ("--redis-username", redis_username.is_some()),
            ("--redis-password-file", redis_password_file.is_some()),
            ("--redis-ca-file", redis_ca_file.is_some()),
            ("--redis-client-cert-file", !redis_client_cert_file.is_empty()),
        ];
        given.into_iter().find(|(_, is_given)| redis_url.is_empty() && *is_given).map(|(option, _)| option)
    }

    pub fn limiter(&self) -> handbill_rate_limit::RedisSettings {
        handbill_rate_limit::RedisSettings {
            urls: self.redis_url.clone(),
            mode: self.redis_mode,
            sentinel_master: self.redis_sentinel_master.clone(),
            timeout: self.redis_timeout,
            username: self.redis_username.clone(),
            password_file: self.redis_password_file.clone(),
            ca_file: self.redis_ca_file.clone(),
            client_cert_files: self.redis_client_cert_file.clone(),
        }
    }
}

fn mode(text: &str) -> Result<RedisMode, &'static str> {
    match text {
        "single" => Ok(RedisMode::Single),
        "cluster" => Ok(RedisMode::Cluster),
        "sentinel" => Ok(RedisMode::Sentinel),
        _ => Err("give single, cluster or sentinel"),
    }
}

/// As the default of the option says.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest leaves a request time for its store.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(2);

fn timeout(text: &str) -> Result<Duration, &'static str> {
    let timeout = humantime::parse_duration(text).ok();
    timeout.filter(|timeout| TIMEOUTS.contains(timeout)).ok_or("give 10ms to 2s, for example 100ms")
}
