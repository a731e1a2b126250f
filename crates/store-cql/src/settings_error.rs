//! Settings of the cluster that cannot be used.

use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error("no node of the cluster is known: name some with --scylla-nodes")]
    NoNodes,
    /// A user without a password, or a password without a user.
    #[error("--scylla-username and --scylla-password-file must be used together")]
    HalfALogin,
    /// A certificate of this process without TLS, so it would not be shown.
    #[error("--scylla-client-cert-file needs --scylla-ca-file, because connections use TLS only with it")]
    IdentityWithoutTls,
    #[error("cannot read {path}, named by {option} ({reason})")]
    File { path: PathBuf, option: &'static str, reason: Box<dyn std::error::Error + Send + Sync> },
    #[error("no node is in the datacentre {name:?} of --scylla-datacenter; there are: {found}")]
    NoSuchDatacenter { name: String, found: String },
    #[error("no node of the datacentre {datacenter:?} is in the rack {name:?} of --scylla-rack; there are: {found}")]
    NoSuchRack { name: String, datacenter: String, found: String },
    #[error(
        "the cluster has several datacentres: name the one of this replica with --scylla-datacenter; there are: {found}"
    )]
    ChooseDatacenter { found: String },
    #[error(
        "the keyspace {keyspace} has copies in several datacentres ({found}), and pages are written in one alone: leave the \
         copies of one datacentre with ALTER KEYSPACE {keyspace}"
    )]
    SeveralDatacenters { keyspace: String, found: String },
    #[error(
        "the keyspace {keyspace} has no copies in the datacentre {datacenter} of this process, only in {found}: name that one \
         with --scylla-datacenter"
    )]
    NoCopies { keyspace: String, datacenter: String, found: String },
}
