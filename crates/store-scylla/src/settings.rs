//! The settings of the store. Errors name the program's options.

use std::{path::PathBuf, time::Duration};

use handbill_pages::ports::page_store::Cause;
use scylla::statement::{Consistency, SerialConsistency};
use strum::{Display, EnumString};
use thiserror::Error;

/// The copies that agree on each write; a majority answers each read. Never mix the two on one keyspace: their
/// majorities need not share a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum ScyllaConsistency {
    /// Of one datacentre, which has all copies: `LOCAL_SERIAL` and `LOCAL_QUORUM`.
    Local,
    /// Of all datacentres: `SERIAL` and `QUORUM`.
    Global,
}

impl ScyllaConsistency {
    /// For plain requests and commits, for conditional writes, and for reads that complete interrupted writes.
    pub(super) fn levels(self) -> (Consistency, SerialConsistency, Consistency) {
        match self {
            Self::Local => (Consistency::LocalQuorum, SerialConsistency::LocalSerial, Consistency::LocalSerial),
            Self::Global => (Consistency::Quorum, SerialConsistency::Serial, Consistency::Serial),
        }
    }
}

#[derive(Clone, Debug)]
pub struct ScyllaSettings {
    pub nodes: Vec<String>,
    /// Needs no quotes in CQL.
    pub keyspace: String,
    /// Required if there are several, unless the consistency is global.
    pub datacenter: Option<String>,
    pub consistency: ScyllaConsistency,
    pub replication_factor: u8,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    /// PEM; turns on TLS.
    pub ca_file: Option<PathBuf>,
    /// PEM: certificate, its chain and its private key. Read for each new connection.
    pub client_cert_files: Vec<PathBuf>,
    pub schema_wait: Duration,
}

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error("no node of the cluster is known: name some with --scylla-nodes")]
    NoNodes,
    #[error("the cluster cannot be reached: {0}")]
    OutOfReach(String),
    #[error("--scylla-username and --scylla-password-file must be used together")]
    HalfALogin,
    #[error("--scylla-client-cert-file needs --scylla-ca-file, because connections use TLS only with it")]
    IdentityWithoutTls,
    #[error("cannot read {path}, named by {option} ({reason})")]
    File { path: PathBuf, option: &'static str, reason: Cause },
    #[error("no node is in the datacentre {name:?} of --scylla-datacenter; there are: {found}")]
    NoSuchDatacenter { name: String, found: String },
    #[error(
        "the cluster has several datacentres: name the one of this replica with --scylla-datacenter; there are: {found}"
    )]
    ChooseDatacenter { found: String },
    #[error(
        "the keyspace {keyspace} has copies in several datacentres ({found}), --scylla-consistency is local, and migrate has not recorded \
         where the pages live: give global, or leave the copies of one datacentre with ALTER KEYSPACE {keyspace} until migrate has run"
    )]
    SeveralDatacenters { keyspace: String, found: String },
    #[error(
        "the keyspace {keyspace} has no copies in the datacentre {datacenter} of this process, only in {found}: name that one \
         with --scylla-datacenter"
    )]
    NoCopies { keyspace: String, datacenter: String, found: String },
    #[error(
        "the pages of the keyspace {keyspace} live in the datacentre {found}, and this process is in {datacenter}: give \
         --scylla-datacenter {found}, or see \"Move to another datacentre\" in the manual"
    )]
    OtherDatacenter { keyspace: String, datacenter: String, found: String },
    #[error(
        "the table {keyspace}.pages repairs its copies late, so a read could go back: ALTER TABLE {keyspace}.pages WITH read_repair = \
         'BLOCKING'"
    )]
    ReadRepair { keyspace: String },
    #[error("there is no keyspace {0}: with --scylla-consistency global, create it with its copies in each datacentre")]
    NoKeyspace(String),
    #[error(
        "the pages of the keyspace {keyspace} are written with --scylla-consistency {found}: give that, or see \"Change the consistency\" \
         in the manual"
    )]
    OtherConsistency { keyspace: String, found: String },
}
