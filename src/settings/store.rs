//! Settings of the page store.

use std::{path::PathBuf, time::Duration};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use handbill_store_scylla::ScyllaConsistency;

use super::{LogSettings, OF_SCYLLA, SettingsError, duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// In an SQLite database that only this process uses
    Sqlite,
    /// In `ScyllaDB` or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url
    #[value(help = "In ScyllaDB or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url")]
    Scylla,
}

#[derive(Args, Debug)]
pub struct StoreSettings {
    /// Where pages are kept; options of the other store have no effect
    #[arg(long, env = "HANDBILL_STORE", value_name = "STORE", value_enum, default_value_t = StoreKind::Sqlite)]
    pub store: StoreKind,
}

#[derive(Args, Debug)]
pub struct SqliteSettings {
    /// Directory of the SQLite store; created if missing
    #[arg(long, env = "HANDBILL_DATA_DIR", value_name = "DIRECTORY", default_value = "./handbill-data")]
    pub data_dir: PathBuf,
}

/// As the servers accept.
const MAX_KEYSPACE_CHARS: usize = 48;

/// If one copy is lost, two are still a quorum.
const COPIES: u8 = 3;

/// A migration takes far less.
const SCHEMA_WAIT: Duration = Duration::from_mins(5);

#[derive(Args, Clone, Debug)]
pub struct ScyllaSettings {
    /// Nodes to reach the cluster through, comma-separated [default: none]
    #[arg(long, env = "HANDBILL_SCYLLA_NODES", value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = node)]
    pub scylla_nodes: Vec<String>,
    /// Keyspace of the pages
    #[arg(long, env = "HANDBILL_SCYLLA_KEYSPACE", value_name = "NAME", default_value = "handbill", value_parser = keyspace)]
    pub scylla_keyspace: String,
    /// Datacentre to ask; local consistency needs it if there are several [default: the only one]
    #[arg(long, env = "HANDBILL_SCYLLA_DATACENTER", value_name = "NAME")]
    pub scylla_datacenter: Option<String>,
    /// Copies that agree on each write: of one datacentre, or of all
    #[arg(long, env = "HANDBILL_SCYLLA_CONSISTENCY", value_name = "LEVEL", default_value = "local", value_parser = PossibleValuesParser::new(["local", "global"]).try_map(|text| text.parse::<ScyllaConsistency>()))]
    pub scylla_consistency: ScyllaConsistency,
    /// User to log in as [default: no login]
    #[arg(long, env = "HANDBILL_SCYLLA_USERNAME", value_name = "NAME")]
    pub scylla_username: Option<String>,
    /// File with the password, read for each new connection [default: none]
    #[arg(long, env = "HANDBILL_SCYLLA_PASSWORD_FILE", value_name = "FILE")]
    pub scylla_password_file: Option<PathBuf>,
    /// PEM file of the nodes' authorities; turns on TLS [default: none]
    #[arg(long, env = "HANDBILL_SCYLLA_CA_FILE", value_name = "FILE")]
    pub scylla_ca_file: Option<PathBuf>,
    /// PEM files of this process: certificate, its chain and key, comma-separated [default: none]
    #[arg(long, env = "HANDBILL_SCYLLA_CLIENT_CERT_FILE", value_name = "FILE,…", value_delimiter = ',')]
    pub scylla_client_cert_file: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct MigrateSettings {
    #[command(flatten, next_help_heading = "Store")]
    store: StoreSettings,
    #[command(flatten, next_help_heading = OF_SCYLLA)]
    scylla: ScyllaSettings,
    /// Copies of each page in the datacentre, for a new keyspace
    #[arg(long, env = "HANDBILL_SCYLLA_REPLICATION_FACTOR", value_name = "COPIES", default_value_t = COPIES, value_parser = copies, help_heading = OF_SCYLLA)]
    scylla_replication_factor: u8,
    /// How long to wait for the cluster and its schema
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, help_heading = OF_SCYLLA)]
    schema_wait: Duration,
    /// Journal from export --journal, to apply to a restored keyspace
    #[arg(long, value_name = "FILE", help_heading = "Restore")]
    pub replay_journal: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: LogSettings,
}

impl MigrateSettings {
    /// `None` for a store without migrations. Nodes beside such a store are an error: a pipeline may have forgotten the
    /// store.
    pub fn cluster(&self) -> Result<Option<handbill_store_scylla::ScyllaSettings>, SettingsError> {
        match self.store.store {
            StoreKind::Sqlite if self.scylla.scylla_nodes.is_empty() => Ok(None),
            StoreKind::Sqlite => Err(SettingsError::NodesWithoutStore),
            StoreKind::Scylla => Ok(Some(handbill_store_scylla::ScyllaSettings {
                replication_factor: self.scylla_replication_factor,
                schema_wait: self.schema_wait,
                ..self.scylla.store()
            })),
        }
    }
}

impl ScyllaSettings {
    pub fn store(&self) -> handbill_store_scylla::ScyllaSettings {
        handbill_store_scylla::ScyllaSettings {
            nodes: self.scylla_nodes.clone(),
            keyspace: self.scylla_keyspace.clone(),
            datacenter: self.scylla_datacenter.clone(),
            consistency: self.scylla_consistency,
            replication_factor: COPIES,
            username: self.scylla_username.clone(),
            password_file: self.scylla_password_file.clone(),
            ca_file: self.scylla_ca_file.clone(),
            client_cert_files: self.scylla_client_cert_file.clone(),
            schema_wait: SCHEMA_WAIT,
        }
    }
}

fn copies(text: &str) -> Result<u8, &'static str> {
    let copies = text.parse().ok().filter(|copies| (1..=32).contains(copies));
    copies.ok_or("give a whole number from 1 to 32, for example 3")
}

/// An IPv6 address is in brackets.
fn node(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let fault = "give host:port, for example db-1.example:9042";
    let (host, port) = text.rsplit_once(':').ok_or(fault)?;
    let host_fits = !host.is_empty() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')));
    let port_fits = port.parse::<u16>().is_ok_and(|port| port > 0);
    if host_fits && port_fits { Ok(text.to_owned()) } else { Err(fault) }
}

/// A name that needs no quotes in CQL.
fn keyspace(text: &str) -> Result<String, &'static str> {
    let first_fits = text.starts_with(|c: char| c.is_ascii_lowercase());
    let rest_fits = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first_fits && rest_fits && text.len() <= MAX_KEYSPACE_CHARS {
        Ok(text.to_owned())
    } else {
        Err(
            "give a lower-case letter, then lower-case letters, digits and underscores, at most 48, for example handbill",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::parse_args;

    fn parse(args: &[&str]) -> clap::error::Result<ScyllaSettings> {
        parse_args(args)
    }

    #[test]
    fn nodes_are_a_list_of_hosts_with_ports() {
        let settings = parse(&["--scylla-nodes", "a.example:9042, 192.0.2.1:19042,[2001:db8::1]:9042"]).unwrap();
        assert_eq!(settings.scylla_nodes, ["a.example:9042", "192.0.2.1:19042", "[2001:db8::1]:9042"]);
        for wrong in ["", "a.example", "a:", ":9042", "a:0", "a:65536", "2001:db8::1:9042"] {
            assert!(parse(&["--scylla-nodes", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_keyspace_is_a_name_that_needs_no_quotes() {
        assert_eq!(parse(&[]).unwrap().scylla_keyspace, "handbill");
        assert_eq!(parse(&["--scylla-keyspace", "a_2"]).unwrap().scylla_keyspace, "a_2");
        for wrong in ["", "2a", "A", "a-b", "a.b", "a b", "a\"; drop", &"a".repeat(49)] {
            assert!(parse(&["--scylla-keyspace", wrong]).is_err(), "{wrong}");
        }
    }
}
