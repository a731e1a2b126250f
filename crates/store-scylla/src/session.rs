//! The driver's session: login, TLS, time limits, and the choice of nodes.
//!
//! The driver retries failed reads once, and sends slow reads to a second node. Conditional writes of a page go to one
//! node, once: only `conditional_write` can repeat them, at another node.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use handbill_pages::service::STORE_BUDGET;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError, NewSessionError,
};
use scylla::policies::load_balancing::{DefaultPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::{
    client::execution_profile::ExecutionProfile, client::session::Session, client::session_builder::SessionBuilder,
    cluster::Node, policies::speculative_execution::SimpleSpeculativeExecutionPolicy, statement::Statement,
};
use tokio::time::{Instant, sleep};

use super::login::{self, FileLogin};
use super::settings::{ScyllaConsistency, ScyllaSettings, SettingsError};

pub(super) const NO_ANSWER: &str = "the database did not answer in time";

/// Each connection is asked for a sign of life this often; the driver's default is 30 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// A connection that is silent for longer is closed, with all that waits on it. A node that collects garbage is silent for a
/// second now and then; all replicas would connect to it anew at once.
pub(super) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of a connection: a silent node must not hold up the next try.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of requests that are not about a page.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// After this long a read is also sent to a second node, so that a node that hangs holds few permits. It is far longer than a
/// healthy read, also between regions. The driver's policy by percentile counts whole milliseconds, of all requests since the
/// process began.
fn second_read(consistency: ScyllaConsistency) -> SimpleSpeculativeExecutionPolicy {
    let retry_interval = match consistency {
        ScyllaConsistency::Local => Duration::from_millis(50),
        ScyllaConsistency::Global => Duration::from_millis(500),
    };
    SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval }
}

/// How long to wait until all nodes have a change of the schema.
const SCHEMA_AGREEMENT: Duration = Duration::from_secs(30);

/// How long before `needed_by` an operation ends, so that the caller still learns its outcome.
const ANSWER_MARGIN: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// With the wait for its permit.
    pub operation: Duration,
    /// Then the conditional write is sent again.
    pub attempt: Duration,
    /// Bounds how many requests wait while the cluster does not answer.
    pub permit: Duration,
    /// Enough for 30 000 reads a second while one node of three hangs: a third of them waits for its second read.
    pub reads: usize,
    /// More from one client do not make three small nodes faster.
    pub writes: usize,
    /// Token ranges that a scan reads at once.
    pub ranges: u8,
}

// Only the store knows whether anything was changed, so it must answer before the service gives up. After a permit and an attempt,
// the rest of an operation is for reading the outcome back. An idle connection to a hung node is closed before that.
const _: () = {
    let Limits { operation, attempt, permit, .. } = Limits::OF_REQUESTS;
    assert!(operation.as_millis() < STORE_BUDGET.as_millis());
    assert!(permit.as_millis() + attempt.as_millis() < operation.as_millis());
    assert!(KEEPALIVE_TIMEOUT.as_millis() < operation.as_millis());
};

impl Limits {
    pub const OF_REQUESTS: Self = Self {
        operation: Duration::from_millis(2500),
        attempt: Duration::from_millis(1500),
        permit: Duration::from_millis(250),
        reads: 512,
        writes: 64,
        ranges: 4,
    };

    /// Between regions a request takes a hundred times as long, so as many more wait at once. 2048 reads of 150 ms are 13 600 a
    /// second, 256 edits of 750 ms are 340.
    pub fn of_requests(consistency: ScyllaConsistency) -> Self {
        match consistency {
            ScyllaConsistency::Local => Self::OF_REQUESTS,
            ScyllaConsistency::Global => Self { reads: 2048, writes: 256, ..Self::OF_REQUESTS },
        }
    }

    /// A cluster that is slow for seconds must not end an import of hours.
    pub const OF_COMMANDS: Self = Self {
        operation: Duration::from_secs(30),
        attempt: Duration::from_secs(5),
        permit: Duration::from_secs(30),
        reads: 64,
        writes: 64,
        ranges: 8,
    };

    pub(super) fn deadline(&self, needed_by: Option<Instant>) -> Instant {
        let now = Instant::now();
        let own = now + self.operation;
        needed_by.map_or(own, |needed_by| own.min(needed_by.checked_sub(ANSWER_MARGIN).unwrap_or(now)))
    }
}

pub fn builder(settings: &ScyllaSettings) -> Result<SessionBuilder, SettingsError> {
    if settings.nodes.is_empty() {
        return Err(SettingsError::NoNodes);
    }
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .keyspaces_to_fetch([&settings.keyspace])
        .default_execution_profile_handle(profile(settings.consistency, None).into_handle())
        .connection_timeout(CONNECT_TIMEOUT)
        .schema_agreement_timeout(SCHEMA_AGREEMENT);
    // The builder's methods would warn at each start that the interval is short.
    builder.config.keepalive_interval = Some(KEEPALIVE_INTERVAL);
    builder.config.keepalive_timeout = Some(KEEPALIVE_TIMEOUT);
    match (&settings.username, &settings.password_file) {
        (Some(user), Some(file)) => {
            builder = builder.authenticator_provider(Arc::new(FileLogin::new(user, file)?));
        }
        (None, None) => {}
        _ => return Err(SettingsError::HalfALogin),
    }
    if let Some(tls) = login::tls(settings)? {
        builder = builder.tls_context(Some(Arc::new(tls)));
    }
    Ok(builder)
}

/// Connects, and returns the session with the preferred datacentre. Tries again until `give_up`, and reports the reason each time. A node
/// that is silent for `longest_silence` is given up.
pub(super) async fn connect(
    settings: &ScyllaSettings,
    longest_silence: Duration,
    give_up: Option<Instant>,
    mut report: impl FnMut(String),
) -> Result<(Session, Option<String>), SettingsError> {
    loop {
        // A password or certificate may have been corrected.
        let mut builder = builder(settings)?;
        builder.config.keepalive_timeout = Some(longest_silence);
        match builder.build().await {
            Ok(session) => {
                let datacenter = choose_datacenter(&session, settings)?;
                return Ok((session, datacenter));
            }
            Err(error) if give_up.is_some_and(|give_up| give_up <= Instant::now()) => {
                return Err(SettingsError::OutOfReach(explained(&error, settings)));
            }
            Err(error) => report(explained(&error, settings)),
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// The reason in one line, with our options in place of the driver's.
fn explained(error: &NewSessionError, settings: &ScyllaSettings) -> String {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
        last_connection_error: reason,
    })) = error
    else {
        return error.to_string();
    };
    let ConnectionError::ConnectionSetupRequestError(setup) = reason else { return reason.to_string() };
    match setup.get_error() {
        ConnectionSetupRequestErrorKind::MissingAuthentication => {
            "the database wants a login: give --scylla-username and --scylla-password-file".to_owned()
        }
        ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, text) => {
            format!("the database refuses the login ({text}): check --scylla-username and --scylla-password-file")
        }
        ConnectionSetupRequestErrorKind::BrokenConnection(_) if settings.ca_file.is_none() => {
            format!("{reason}: if the database wants TLS, give --scylla-ca-file")
        }
        _ => reason.to_string(),
    }
}

/// `LOCAL_QUORUM` and `LOCAL_SERIAL` mean the asked node's datacentre, so with [`ScyllaConsistency::Local`] no other
/// one is asked.
fn profile(consistency: ScyllaConsistency, datacenter: Option<&str>) -> ExecutionProfile {
    let (quorum, serial, _) = consistency.levels();
    let nodes = DefaultPolicy::builder().token_aware(true).permit_dc_failover(consistency == ScyllaConsistency::Global);
    let nodes = match datacenter {
        Some(name) => nodes.prefer_datacenter(name.to_owned()),
        None => nodes,
    };
    ExecutionProfile::builder()
        .load_balancing_policy(nodes.build())
        .consistency(quorum)
        .serial_consistency(Some(serial))
        .speculative_execution_policy(Some(Arc::new(second_read(consistency))))
        .request_timeout(Some(REQUEST_TIMEOUT))
        .build()
}

fn choose_datacenter(session: &Session, settings: &ScyllaSettings) -> Result<Option<String>, SettingsError> {
    let state = session.get_cluster_state();
    let names = state.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref()).collect();
    let chosen = chosen(&names, settings.datacenter.as_deref(), settings.consistency)?;
    let profile = profile(settings.consistency, chosen.as_deref());
    session.get_default_execution_profile_handle().clone().map_to_another_profile(profile);
    Ok(chosen)
}

/// The datacentre to ask, never by the order of nodes: replicas with different orders would write in different datacentres, whose quorums
/// share no copy.
fn chosen(
    names: &BTreeSet<&str>,
    wanted: Option<&str>,
    consistency: ScyllaConsistency,
) -> Result<Option<String>, SettingsError> {
    let found = || names.iter().copied().collect::<Vec<_>>().join(", ");
    match (wanted, names.first()) {
        (Some(name), _) if names.contains(name) => Ok(Some(name.to_owned())),
        (Some(name), _) => Err(SettingsError::NoSuchDatacenter { name: name.to_owned(), found: found() }),
        (None, Some(only)) if names.len() == 1 => Ok(Some((*only).to_owned())),
        (None, _) if consistency == ScyllaConsistency::Global => Ok(None),
        (None, _) => Err(SettingsError::ChooseDatacenter { found: found() }),
    }
}

pub(super) fn send_only_to(statement: &mut Statement, node: &Arc<Node>) {
    let policy = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
    statement.set_load_balancing_policy(Some(policy));
}

#[cfg(test)]
mod tests {
    use super::ScyllaConsistency::{Global, Local};
    use super::*;

    #[test]
    fn of_several_datacentres_one_is_named_unless_global() {
        let two = BTreeSet::from(["west", "east"]);
        assert_eq!(chosen(&two, Some("west"), Local).unwrap().as_deref(), Some("west"));
        let refused = chosen(&two, None, Local).unwrap_err().to_string();
        assert!(refused.contains("--scylla-datacenter") && refused.contains("east, west"), "{refused}");
        assert_eq!(chosen(&two, None, Global).unwrap(), None);
        for consistency in [Local, Global] {
            let elsewhere = chosen(&two, Some("north"), consistency).unwrap_err().to_string();
            assert!(elsewhere.contains("\"north\"") && elsewhere.contains("east, west"), "{elsewhere}");
            assert_eq!(chosen(&BTreeSet::from(["west"]), None, consistency).unwrap().as_deref(), Some("west"));
        }
    }

    #[test]
    fn requests_leave_their_datacentre_with_global_alone() {
        for (consistency, leaves) in [(Local, "permit_dc_failover: false"), (Global, "permit_dc_failover: true")] {
            let profile = format!("{:?}", profile(consistency, Some("west")));
            assert!(profile.contains(r#"Datacenter("west")"#) && profile.contains(leaves), "{profile}");
            assert!(profile.contains("is_token_aware: true"), "{profile}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_ends_in_time_for_its_caller() {
        let limits = Limits::OF_REQUESTS;
        let now = Instant::now();
        assert_eq!(limits.deadline(None).duration_since(now), limits.operation);
        for (needed_after, expected) in [(5000, 2500), (2750, 2500), (1000, 750), (250, 0), (0, 0)] {
            let deadline = limits.deadline(Some(now + Duration::from_millis(needed_after)));
            assert_eq!(deadline.duration_since(now), Duration::from_millis(expected));
        }
    }
}
