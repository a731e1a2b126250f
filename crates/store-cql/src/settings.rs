//! The settings of the store. Errors name the options of the program that set them.

use std::path::PathBuf;
use std::time::Duration;

/// The cluster, and the way to it.
#[derive(Clone, Debug)]
pub struct CqlSettings {
    /// `host:port` of nodes to reach the cluster through; they name the others.
    pub nodes: Vec<String>,
    /// Keyspace of the pages: a name that needs no quotes in CQL.
    pub keyspace: String,
    /// Datacentre that all requests go to; must be named if there are several.
    pub datacenter: Option<String>,
    /// Rack of the nodes that are asked first when pages are read.
    pub rack: Option<String>,
    /// Copies of each page in the datacentre, in a keyspace that `migrate` creates.
    pub replication_factor: u8,
    /// Whether a keyspace that `migrate` creates uses tablets; else the server chooses.
    pub tablets: Option<bool>,
    pub username: Option<String>,
    /// File with the user's password, read again for each new connection.
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) that sign those of the nodes; with it every connection uses TLS.
    pub ca_file: Option<PathBuf>,
    /// Certificate (PEM) by which this process shows nodes who it is, with those that signed it, and its private key.
    pub client_cert_files: Vec<PathBuf>,
    /// How long a replica waits for the schema, and `migrate` for the cluster.
    pub schema_wait: Duration,
}

/// Settings that reach no cluster.
#[cfg(test)]
pub(crate) fn of_a_test() -> CqlSettings {
    CqlSettings {
        nodes: Vec::new(),
        keyspace: "handbill".to_owned(),
        datacenter: None,
        rack: None,
        replication_factor: 3,
        tablets: None,
        username: None,
        password_file: None,
        ca_file: None,
        client_cert_files: Vec::new(),
        schema_wait: Duration::ZERO,
    }
}
