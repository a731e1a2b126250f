//! Settings of the cluster that cannot be used.

use std::path::PathBuf;

use thiserror::Error;

/// A setting that cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// No node was named.
    #[error("no node of the cluster is known: name some with --scylla-nodes")]
    NoNodes,
    /// A user without a password, or a password without a user.
    #[error("--scylla-username and --scylla-password-file must be used together")]
    HalfALogin,
    /// A certificate without its key, or a key without its certificate.
    #[error("--scylla-client-cert-file and --scylla-client-key-file must be used together")]
    HalfAnIdentity,
    /// A certificate of this process without TLS, so it would not be shown.
    #[error("--scylla-client-cert-file needs --scylla-ca-file, because connections use TLS only with it")]
    IdentityWithoutTls,
    /// A file cannot be read.
    #[error("cannot read {path}, named by {option} ({reason})")]
    File {
        /// The file.
        path: PathBuf,
        /// The option that names the file.
        option: &'static str,
        /// The problem with the file.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No node is in the datacentre.
    #[error("no node is in the datacentre {name:?} of --scylla-datacenter; there are: {found}")]
    NoSuchDatacenter {
        /// The name in the setting.
        name: String,
        /// The datacentres of the nodes that were found.
        found: String,
    },
    /// No node of the datacentre is in the rack.
    #[error("no node of the datacentre {datacenter:?} is in the rack {name:?} of --scylla-rack; there are: {found}")]
    NoSuchRack {
        /// The name in the setting.
        name: String,
        /// The datacentre.
        datacenter: String,
        /// The racks of its nodes.
        found: String,
    },
    /// There are several datacentres, and none was named.
    #[error(
        "the cluster has several datacentres: name the one of this replica with --scylla-datacenter; there are: {found}"
    )]
    ChooseDatacenter {
        /// The datacentres of the nodes that were found.
        found: String,
    },
}
