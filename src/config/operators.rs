//! Settings of what operators may do.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::ClusterSettings;
use handbill_core::domain::authority::Authority;

/// Settings of the operators' listener.
#[derive(Args, Debug)]
pub struct AdminSettings {
    /// Operators' listener: /metrics, /livez, /readyz, and with a token the operators' API. The public must never reach it
    #[arg(long, env = "HANDBILL_ADMIN_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
    pub admin_listen: SocketAddr,
}

/// The names of the operators' listener.
#[derive(Args, Debug)]
pub struct AdminHostSettings {
    /// Names by which scrapers and operators may call the operators' listener, besides addresses and localhost, comma-separated; a name without a port admits every port [default: none]
    #[arg(long, env = "HANDBILL_ADMIN_HOSTS", value_name = "HOST[:PORT],…", value_delimiter = ',', value_parser = Authority::parse)]
    pub admin_hosts: Vec<Authority>,
}

/// Settings of the operators' API.
#[derive(Args, Debug)]
pub struct OperatorSettings {
    /// File with the token of the operators' API (takedown, inspect, audit, log), at least 32 characters; it is read again at each request [default: none, and the API is closed]
    #[arg(long, env = "HANDBILL_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
}

/// The settings of a command that asks a running process.
#[derive(Args, Debug)]
pub struct OperatorAccess {
    #[command(flatten)]
    pub admin: AdminSettings,
    #[command(flatten)]
    pub operators: OperatorSettings,
}

/// The settings of a command that asks a running process or, with `--store scylla`, works on the cluster itself.
#[derive(Args, Debug)]
pub struct OperatedSettings {
    #[command(flatten)]
    pub cluster: ClusterSettings,
    #[command(flatten, next_help_heading = "Operators' listener")]
    pub access: OperatorAccess,
}
