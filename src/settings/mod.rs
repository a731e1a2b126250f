//! The settings: each is a flag and an environment variable, read once. Each subcommand has only those that it uses.
//!
//! A doc comment on a flattened field would become the help of its first flag, so those fields have none.

mod cache;
mod contact;
mod http;
mod limits;
mod operators;
mod store;
mod telemetry;

use std::{ffi::OsString, net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{Args, Command};
use ipnet::IpNet;
use thiserror::Error;

pub use self::cache::CacheSettings;
pub use self::contact::{Contact, SiteLink};
pub use self::http::{AddressSettings, EdgeSettings, HttpSettings};
pub use self::limits::{RateLimitSettings, RedisSettings};
pub use self::operators::{
    AdminSettings, ContactSettings, DocumentSettings, ModerationSettings, SocketAccess, SocketSettings,
};
pub use self::store::{MigrateSettings, ScyllaSettings, SqliteSettings, StoreKind, StoreSettings};
pub use self::telemetry::{LogFormat, LogSettings, TraceSettings};
use handbill_pages::values::client::SharedNetwork;

const OF_SCYLLA: &str = "ScyllaDB or Cassandra (with --store scylla)";

const VARIABLE_PREFIX: &str = "HANDBILL_";

#[derive(Args, Debug)]
pub struct Settings {
    #[command(flatten, next_help_heading = "Public listener")]
    pub http: HttpSettings,
    #[command(flatten, next_help_heading = "Memory")]
    pub cache: CacheSettings,
    #[command(flatten, next_help_heading = "Shared caches")]
    pub edge: EdgeSettings,
    #[command(flatten, next_help_heading = "Store")]
    pub store: StoreSettings,
    #[command(flatten, next_help_heading = "SQLite (with --store sqlite)")]
    pub sqlite: SqliteSettings,
    #[command(flatten, next_help_heading = OF_SCYLLA)]
    pub scylla: ScyllaSettings,
    #[command(flatten, next_help_heading = "Limits")]
    pub rate_limits: RateLimitSettings,
    #[command(flatten, next_help_heading = "Moderation")]
    pub moderation: ModerationSettings,
    #[command(flatten, next_help_heading = "Redis")]
    pub redis: RedisSettings,
    #[command(flatten, next_help_heading = "Traces")]
    pub traces: TraceSettings,
    #[command(flatten, next_help_heading = "Operators")]
    pub admin: AdminSettings,
    #[command(flatten, next_help_heading = "Operators")]
    pub socket: SocketSettings,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: LogSettings,
}

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error(
        "--mcp-base-url has the host of --base-url, by default that of --listen: give the tools a host of their own, for example https://mcp.pages.example, or leave it out"
    )]
    SharedHost,
    /// Each replica would have limits of its own.
    #[error("name Redis with --redis-url: with --store scylla, replicas share their limits there")]
    NoRedis,
    #[error(
        "{0} has no effect without --redis-url: give that too, for example redis://localhost:6379, or leave {0} out"
    )]
    NoEffectWithoutRedis(&'static str),
    #[error("{option} has the same {what} twice: leave one out")]
    Twice { option: &'static str, what: &'static str },
    #[error("--scylla-nodes are given, and --store is not scylla: give --store scylla, or leave them out")]
    NodesWithoutStore,
}

impl Settings {
    /// The path of the operators' socket.
    pub fn admin_socket(&self) -> PathBuf {
        self.socket.path(&self.store, &self.sqlite)
    }

    /// Without the files that the settings name.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.http.has_shared_host() {
            return Err(SettingsError::SharedHost);
        }
        let (http, networks) = (&self.http, &self.rate_limits.limit_networks);
        let lists = [
            ("--trusted-proxies", "network", has_twice(http.trusted_proxies.iter().map(IpNet::trunc))),
            ("--allowed-hosts", "host or origin", has_twice(&http.allowed_hosts)),
            ("--site-links", "document", has_twice(http.site_links.iter().map(|link| link.name))),
            ("--limit-networks", "network", has_twice(networks.iter().map(SharedNetwork::network))),
            ("--redis-url", "address", has_twice(&self.redis.redis_url)),
        ];
        if let Some((option, what, _)) = lists.into_iter().find(|(.., has_twice)| *has_twice) {
            return Err(SettingsError::Twice { option, what });
        }
        match (self.store.store, self.redis.idle_option()) {
            (StoreKind::Scylla, _) if self.redis.redis_url.is_empty() => Err(SettingsError::NoRedis),
            (_, Some(option)) => Err(SettingsError::NoEffectWithoutRedis(option)),
            (StoreKind::Sqlite | StoreKind::Scylla, None) => Ok(()),
        }
    }
}

fn has_twice<T: PartialEq>(values: impl IntoIterator<Item = T>) -> bool {
    let values: Vec<T> = values.into_iter().collect();
    values.iter().enumerate().any(|(at, value)| values[..at].contains(value))
}

/// Refuses with a value that works.
fn address_and_port(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "give an IP address and a port, for example 127.0.0.1:8080 or [::1]:8080")
}

/// Refuses with a value that works.
fn duration(text: &str) -> Result<Duration, &'static str> {
    humantime::parse_duration(text).map_err(|_| "give a time with its unit, for example 15s or 2m")
}

/// Refuses with a value that works.
fn number(
    range: RangeInclusive<u32>,
    example: u32,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("give a whole number from {} to {}, for example {example}", range.start(), range.end())
        })
    }
}

#[derive(Args, Debug)]
pub struct ServeSettings {
    /// Check the settings and their files, and exit with 0 or 2
    #[arg(long, help_heading = "Start")]
    pub check_config: bool,
    /// Begin an empty SQLite store although its journal exists
    #[arg(long, help_heading = "Start")]
    pub new_store: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[cfg(test)]
pub(crate) fn parse_args<T: Args>(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> clap::error::Result<T> {
    let command = T::augment_args(clap::Command::new("handbill").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(args)?)
}

pub fn variables() -> Vec<(String, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "settings are read here")]
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
        .collect()
}

/// A misspelt name would otherwise be ignored silently.
pub fn unknown_variables<'a>(command: &Command, variables: &'a [(String, OsString)]) -> Vec<&'a str> {
    variables.iter().map(|(name, _)| name.as_str()).filter(|name| !is_known(command, name)).collect()
}

fn is_known(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_env().is_some_and(|known| known == name))
        || command.get_subcommands().any(|subcommand| is_known(subcommand, name))
}

#[cfg(test)]
mod tests {
    use handbill_pages::service::{DEADLINE, STORE_BUDGET};

    use super::*;
    use crate::http::listener::WRITE_TIMEOUT;
    use crate::http::request::body::BODY_TIME;

    #[test]
    fn by_default_a_stop_and_a_create_have_time_for_what_they_wait_for() {
        let drain = parse_args::<HttpSettings>([""; 0]).unwrap().drain_timeout;
        for begun in [BODY_TIME, WRITE_TIMEOUT, DEADLINE] {
            assert!(begun < drain, "a client that stalls cannot fail a stop");
        }
        let redis = parse_args::<RedisSettings>([""; 0]).unwrap().redis_timeout;
        assert!(redis + STORE_BUDGET < DEADLINE, "a create waits for one call to Redis, and then for the store");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let refused =
            |args: &[&str]| parse_args::<Settings>(args).unwrap().check().err().map(|error| error.to_string());
        assert_eq!(refused(&[]), None);
        assert_eq!(refused(&["--store=scylla", "--redis-url=redis://localhost", "--redis-timeout=1s"]), None);
        for (args, setting) in [
            (&["--store=scylla"][..], "--redis-url"),
            (&["--base-url=https://a.example", "--mcp-base-url=https://A.example"], "--mcp-base-url"),
            (&["--mcp-base-url=http://127.0.0.1:24999"], "--mcp-base-url"),
            (&["--listen=[::1]:0", "--mcp-base-url=https://[::1]"], "--mcp-base-url"),
            (&["--redis-mode=cluster"], "--redis-mode has no effect"),
            (&["--redis-sentinel-master=x"], "--redis-sentinel-master has no effect"),
            (&["--redis-timeout=1s"], "--redis-timeout has no effect"),
            (&["--redis-username=x"], "--redis-username has no effect"),
            (&["--redis-password-file=/none"], "--redis-password-file has no effect"),
            (&["--redis-ca-file=/none"], "--redis-ca-file has no effect"),
            (&["--redis-client-cert-file=/none"], "--redis-client-cert-file has no effect"),
            (&["--limit-networks=10.0.0.0/8=2,10.9.9.9/8=3"], "--limit-networks has the same network twice"),
            (
                &["--trusted-proxies=10.0.0.0/8", "--trusted-proxies=10.9.9.9/8"],
                "--trusted-proxies has the same network",
            ),
            (&["--site-links=terms=https://a.example/,terms=https://b.example/"], "--site-links has the same document"),
            (&["--allowed-hosts=a.example,A.example"], "--allowed-hosts has the same host"),
        ] {
            assert!(refused(args).is_some_and(|reason| reason.contains(setting)), "{args:?}: {:?}", refused(args));
        }
    }
}
