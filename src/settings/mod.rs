//! The settings: each is a flag and an environment variable, read once. Each subcommand has only those that it uses.
//!
//! A doc comment on a flattened field would become the help of its first flag, so those fields have none.

mod cache;
mod http;
mod limits;
mod operators;
mod store;
mod telemetry;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command};
use thiserror::Error;

pub use self::cache::CacheSettings;
pub use self::http::{AddressSettings, EdgeSettings, HttpSettings};
pub use self::limits::{RateLimitSettings, RedisSettings};
pub use self::operators::{
    AdminSettings, ContactSettings, DocumentSettings, ModerationSettings, SocketAccess, SocketSettings,
};
use self::store::OF_SCYLLA;
pub use self::store::{MigrateSettings, ScyllaSettings, SqliteSettings, StoreKind, StoreSettings};
pub use self::telemetry::{LogFormat, LogSettings, TraceSettings};

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
    #[error("--mcp-base-url has the host of --base-url: give the tools a host of their own, or leave it out")]
    SharedHost,
    /// Each replica would have limits of its own.
    #[error("name Redis with --redis-url: with --store scylla, replicas share their limits there")]
    NoRedis,
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
        match self.store.store {
            StoreKind::Scylla if self.redis.redis_url.is_empty() => Err(SettingsError::NoRedis),
            StoreKind::Sqlite | StoreKind::Scylla => Ok(()),
        }
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
    use super::*;

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let refused =
            |args: &[&str]| parse_args::<Settings>(args).unwrap().check().err().map(|error| error.to_string());
        assert_eq!(refused(&[]), None);
        assert_eq!(refused(&["--store=scylla", "--redis-url=redis://localhost"]), None);
        for (args, setting) in [
            (&["--store=scylla"][..], "--redis-url"),
            (&["--base-url=https://a.example", "--mcp-base-url=https://A.example"], "--mcp-base-url"),
        ] {
            assert!(refused(args).is_some_and(|reason| reason.contains(setting)), "{args:?}: {:?}", refused(args));
        }
    }
}
