//! The settings: each a flag and an environment variable of the same name, read once.
//!
//! A setting that makes no sense stops the start with one line. What depends on another setting or on the machine
//! is checked where it is used.

mod http;
mod limits;
mod redis;
mod scylla;
mod store;
mod telemetry;

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::{Args, Command};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

pub use self::http::HttpSettings;
pub use self::limits::LimitSettings;
pub use self::redis::{RedisMode, RedisSettings, RedisUrl};
pub use self::scylla::ScyllaSettings;
pub use self::store::{StoreKind, StoreSettings};
pub use self::telemetry::TelemetrySettings;
use crate::telemetry::logs::LogFormat;

/// What every environment variable of ours begins with.
const VARIABLE_PREFIX: &str = "HANDBILL_";

/// Every setting.
#[derive(Args, Debug)]
pub struct Settings {
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub http: HttpSettings,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub store: StoreSettings,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub scylla: ScyllaSettings,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub limits: LimitSettings,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub redis: RedisSettings,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub telemetry: TelemetrySettings,
    /// Operators' listener: /metrics, /livez and /readyz. Never to be reached by the public
    #[arg(
        long,
        global = true,
        env = "HANDBILL_ADMIN_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9090"
    )]
    pub admin_listen: SocketAddr,
    /// How logs are written to standard error: text or json [default: text on a terminal, json otherwise]
    #[arg(long, global = true, env = "HANDBILL_LOG_FORMAT", value_name = "FORMAT", value_parser = log_format)]
    pub log_format: Option<LogFormat>,
    /// Which events are logged, as tracing-subscriber's filter directives, for example info,handbill=debug
    #[arg(long, global = true, env = "HANDBILL_LOG", value_name = "DIRECTIVES", default_value = "info", value_parser = log_filter)]
    pub log: EnvFilter,
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("choose text or json"),
    }
}

/// All of the directives, where clap by itself would take the conversion that leaves out what it cannot read.
fn log_filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(text)
}

/// The environment's variables that look like settings and are none: a misspelt one would be ignored in silence.
pub fn unknown_variables(command: &Command) -> Vec<String> {
    let known: Vec<OsString> = command.get_arguments().filter_map(|arg| arg.get_env().map(OsString::from)).collect();
    #[expect(clippy::disallowed_methods, reason = "this is where settings are read")]
    let names = std::env::vars_os().map(|(name, _)| name);
    names
        .filter(|name| !known.contains(name))
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(VARIABLE_PREFIX))
        .collect()
}
