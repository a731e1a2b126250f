//! The driver's session: login, TLS, time limits, which nodes are asked, and how often.
//!
//! Time limits and retries differ from the driver's own choice (30 s for a request, 30 s + 30 s until a hung connection
//! is given up, retries that hide what the first attempt did):
//!
//! | limit | value | why |
//! |---|---|---|
//! | keep-alive, and its answer | 1 s + 1 s | a hung node keeps what is sent to it for 2 s at most, then every request goes elsewhere |
//! | connecting | 1.5 s | a node that does not answer must not hold up the next try |
//! | one plain or serial read | a second attempt elsewhere after 500 ms | a read that met a hung node need not wait for the keep-alive. Half a second is far beyond a healthy read, so that a slow cluster is asked twice only when it hardly answers |
//! | one conditional write | one attempt, by [`CqlTimeouts::attempt`] | only `deciding` knows how to repeat a write |

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::{Consistency, SerialConsistency};
use thiserror::Error;

use crate::config::CqlSettings;

const KEEPALIVE: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Longest that the driver works on a request that is not about a page, and so has no other limit.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// When a read that has no answer yet is sent to another node as well.
const SECOND_READ_AFTER: Duration = Duration::from_millis(500);

/// Nodes that a failed read is sent to after the first.
const READ_RETRIES: usize = 2;

/// How long changes of the schema may take to reach all nodes.
const SCHEMA_AGREEMENT: Duration = Duration::from_secs(30);

/// How long and how much the store works at once.
#[derive(Clone, Copy, Debug)]
pub struct CqlTimeouts {
    /// Longest that one operation takes, waiting for its turn included.
    pub operation: Duration,
    /// Longest that one conditional write is waited for before its outcome is looked up.
    pub attempt: Duration,
    /// Longest that an operation waits for its turn.
    pub turn: Duration,
    /// Reads that run at once, and as many writes; more wait for their turn and are then refused. Without a quorum every
    /// operation takes its whole time, so this bounds what piles up. Writes that wait for each other do not hold up reads.
    pub in_flight: usize,
}

impl Default for CqlTimeouts {
    /// Inside the 2.75 s that the service waits, so that it hears whether anything was changed.
    fn default() -> Self {
        Self {
            operation: Duration::from_millis(2500),
            attempt: Duration::from_millis(1500),
            turn: Duration::from_millis(250),
            // Three small nodes do no more writes a second with more than this from one client, only slower ones.
            in_flight: 64,
        }
    }
}

/// A setting that cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// No node was named.
    #[error("no node to reach the cluster by: name some with --scylla-nodes")]
    NoNodes,
    /// A user without a password, or a password without a user.
    #[error("--scylla-username and --scylla-password-file are only of use together")]
    HalfALogin,
    /// A file cannot be read.
    #[error("cannot read {path}, named by {option} ({reason})")]
    File {
        /// The file.
        path: PathBuf,
        /// The option that names it.
        option: &'static str,
        /// What was wrong with it.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No node is in the datacentre.
    #[error("no node is in the datacentre {name:?} of --scylla-datacenter; there are: {found}")]
    NoSuchDatacenter {
        /// What was asked for.
        name: String,
        /// The datacentres of the nodes that were found.
        found: String,
    },
    /// Several datacentres, and which one the first node is in cannot be told.
    #[error("choose one of the cluster's datacentres with --scylla-datacenter; there are: {found}")]
    ChooseDatacenter {
        /// The datacentres of the nodes that were found.
        found: String,
    },
}

/// A builder of sessions by `settings`. Nothing is connected yet.
pub fn builder(settings: &CqlSettings) -> Result<SessionBuilder, SettingsError> {
    if settings.scylla_nodes.is_empty() {
        return Err(SettingsError::NoNodes);
    }
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.scylla_nodes)
        .keyspaces_to_fetch([&settings.scylla_keyspace])
        .default_execution_profile_handle(profile(None).into_handle())
        .connection_timeout(CONNECT_TIMEOUT)
        .schema_agreement_timeout(SCHEMA_AGREEMENT);
    // Not by the builder's methods, which log at each start that this is short.
    builder.config.keepalive_interval = Some(KEEPALIVE);
    builder.config.keepalive_timeout = Some(KEEPALIVE);
    match (&settings.scylla_username, &settings.scylla_password_file) {
        (Some(user), Some(file)) => builder = builder.user(user, password(file)?),
        (None, None) => {}
        _ => return Err(SettingsError::HalfALogin),
    }
    if let Some(file) = &settings.scylla_ca_file {
        builder = builder.tls_context(Some(Arc::new(tls(file)?)));
    }
    Ok(builder)
}

fn password(path: &Path) -> Result<String, SettingsError> {
    let unreadable = |reason: io::Error| SettingsError::File {
        path: path.to_owned(),
        option: "--scylla-password-file",
        reason: reason.into(),
    };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// TLS that trusts the certificates in `path` and no others.
fn tls(path: &Path) -> Result<ClientConfig, SettingsError> {
    let unusable = |reason| SettingsError::File { path: path.to_owned(), option: "--scylla-ca-file", reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.into()))? {
        let certificate = certificate.map_err(|error| unusable(error.into()))?;
        roots.add(certificate).map_err(|error| unusable(error.into()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it holds no certificate".into()));
    }
    // Named, so that it does not matter which providers other libraries bring along.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(|error| unusable(error.into()))?.with_root_certificates(roots).with_no_client_auth())
}

/// How requests are sent, to the nodes of `datacenter` alone once it is known.
///
/// `LOCAL_QUORUM` and `LOCAL_SERIAL` mean the datacentre of the node that is asked. Going to another datacentre when
/// this one fails would therefore read and write beside this one's quorums, so it is not done.
fn profile(datacenter: Option<String>) -> ExecutionProfile {
    let policy = DefaultPolicy::builder().token_aware(true).permit_dc_failover(false);
    let policy = match datacenter {
        Some(name) => policy.prefer_datacenter(name),
        None => policy,
    };
    ExecutionProfile::builder()
        .load_balancing_policy(policy.build())
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::LocalSerial))
        .request_timeout(Some(REQUEST_TIMEOUT))
        .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
            max_retry_count: 1,
            retry_interval: SECOND_READ_AFTER,
        })))
        .build()
}

/// Sends the requests of `session` to the datacentre of `settings` or, where none is named, of the first node, and
/// says which it is.
pub(super) async fn settle_datacenter(session: &Session, settings: &CqlSettings) -> Result<String, SettingsError> {
    let state = session.get_cluster_state();
    let nodes: Vec<(IpAddr, &str)> = state
        .get_nodes_info()
        .iter()
        .filter_map(|node| Some((node.address.ip(), node.datacenter.as_deref()?)))
        .collect();
    let names: BTreeSet<&str> = nodes.iter().map(|(_, name)| *name).collect();
    let found = || names.iter().copied().collect::<Vec<_>>().join(", ");
    let name = match (&settings.scylla_datacenter, names.first()) {
        (Some(name), _) if names.contains(name.as_str()) => name.clone(),
        (Some(name), _) => return Err(SettingsError::NoSuchDatacenter { name: name.clone(), found: found() }),
        (None, Some(only)) if names.len() == 1 => (*only).to_owned(),
        (None, _) => {
            let first: Vec<IpAddr> = match tokio::net::lookup_host(&settings.scylla_nodes[0]).await {
                Ok(addresses) => addresses.map(|address| address.ip()).collect(),
                Err(_) => Vec::new(),
            };
            let of_first = nodes.iter().find(|(address, _)| first.contains(address));
            of_first.map(|(_, name)| (*name).to_owned()).ok_or(SettingsError::ChooseDatacenter { found: found() })?
        }
    };
    session.get_default_execution_profile_handle().clone().map_to_another_profile(profile(Some(name.clone())));
    Ok(name)
}

/// Sends a read that failed to the next node, at most twice.
///
/// The driver's own choice never repeats a serial read. Reading is harmless at any consistency, so what counts is only
/// whether another node may do better. The consistency is never lowered.
#[derive(Debug)]
pub(super) struct ReadRetries;

struct ReadRetriesLeft(usize);

impl RetryPolicy for ReadRetries {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(ReadRetriesLeft(READ_RETRIES))
    }
}

impl RetrySession for ReadRetriesLeft {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if self.0 > 0 && may_go_better_elsewhere(request.error) {
            self.0 -= 1;
            RetryDecision::RetryNextTarget(None)
        } else {
            RetryDecision::DontRetry
        }
    }

    fn reset(&mut self) {
        *self = Self(READ_RETRIES);
    }
}

fn may_go_better_elsewhere(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::BrokenConnectionError(_) | RequestAttemptError::UnableToAllocStreamId => true,
        // A serial read takes part in Paxos, so it can time out as a write does.
        RequestAttemptError::DbError(error, _) => matches!(
            error,
            DbError::Unavailable { .. }
                | DbError::Overloaded
                | DbError::IsBootstrapping
                | DbError::ServerError
                | DbError::ReadTimeout { .. }
                | DbError::ReadFailure { .. }
                | DbError::WriteTimeout { .. }
                | DbError::WriteFailure { .. }
                | DbError::Other(_)
        ),
        _ => false,
    }
}
