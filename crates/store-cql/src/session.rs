//! The driver's session: login, TLS, time limits, which nodes are asked, and how often.
//!
//! Time limits and retries differ from the driver's defaults. The defaults are 30 s for a request, 30 s + 30 s before
//! the driver closes a hung connection, and retries that hide the result of the first attempt.
//!
//! | limit | value | why |
//! |---|---|---|
//! | keep-alive, and its answer | 1 s + 1 s | a hung node delays requests for at most 2 s, then all of them go to other nodes |
//! | connecting | 1.5 s | a node that does not answer must not delay the next try |
//! | one plain or serial read | a second attempt elsewhere after 500 ms | a read that met a hung node need not wait for the keep-alive. A healthy read takes far less than half a second, and the budget of retries bounds how many are sent twice |
//! | one conditional write | one attempt, by [`CqlTimeouts::attempt`] | only `lwt` knows how to repeat a write |

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::errors::{DbError, ExecutionError, NewSessionError, RequestAttemptError};
use scylla::policies::load_balancing::{
    DefaultPolicy, LoadBalancingPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy,
};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};
use scylla::policies::speculative_execution::{self, SpeculativeExecutionPolicy};
use scylla::statement::{Consistency, SerialConsistency, Statement};
use tokio::time::{Instant, sleep};

use super::bulkhead::Limits;
use super::retry_budget::RetryBudget;
use super::secrets::{self, FileLogin};
use super::settings_error::SettingsError;
use crate::settings::CqlSettings;

/// A hung node keeps what is sent to it for twice this: until a keep-alive is due, and until its answer is missing.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// A node that does not answer must not hold up the next try.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Pause before the next look at a cluster that does not answer, or at a schema that is not ready.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time for a request that is not about a page. Requests about pages have their own limits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A read without an answer after this time is also sent to another node.
pub(super) const SECOND_READ_AFTER: Duration = Duration::from_millis(500);

/// How many more nodes get a read after it has failed.
const READ_RETRIES: usize = 2;

/// Longest time for a change of the schema to reach all nodes.
const SCHEMA_AGREEMENT: Duration = Duration::from_secs(30);

/// With more operations in flight from one client, three small nodes do no more writes a second, and each write takes
/// longer.
const OPERATIONS_AT_ONCE: usize = 64;

/// Longest time for one operation of a command.
const COMMAND_OPERATION: Duration = Duration::from_secs(30);

/// Longest wait of a command for the answer to one conditional write.
const COMMAND_ATTEMPT: Duration = Duration::from_secs(5);

/// An operation ends this long before its answer is needed, so that its caller learns what has happened.
const IN_TIME: Duration = Duration::from_millis(250);

/// The store's time limits, and how many operations it runs at once.
#[derive(Clone, Copy, Debug)]
pub struct CqlTimeouts {
    /// Longest time for one operation, including the wait for its permit.
    pub operation: Duration,
    /// Longest wait for the answer to one conditional write; after it the store reads the outcome back.
    pub attempt: Duration,
    /// Longest wait of an operation for its permit: it bounds how many requests pile up while there is no quorum.
    pub permit: Duration,
    /// How many reads run at once, and how many writes. Further ones wait for a permit, and are refused if none is free
    /// in time. Without a quorum every operation takes its full time, so this number limits how many operations pile
    /// up. Reads have permits of their own, so that slow writes do not delay them.
    pub in_flight: usize,
    /// How many of these may be on one page, or in one of 64 token ranges, in percent.
    pub share_percent: u8,
    /// Whether reads of a token range are refused after reads of two of its pages had no answer.
    pub refuses_silent: bool,
}

impl CqlTimeouts {
    /// The limits of commands. No client waits for them, and a cluster that is slow for seconds must not end an import
    /// of hours.
    pub const OF_COMMANDS: Self = Self {
        operation: COMMAND_OPERATION,
        attempt: COMMAND_ATTEMPT,
        permit: COMMAND_OPERATION,
        in_flight: OPERATIONS_AT_ONCE,
        share_percent: 100,
        refuses_silent: false,
    };
}

impl Default for CqlTimeouts {
    /// An operation ends before the 2.75 s that the service waits, so that the service learns whether anything was
    /// changed.
    fn default() -> Self {
        Self {
            operation: Duration::from_millis(2500),
            attempt: Duration::from_millis(1500),
            permit: Duration::from_millis(250),
            in_flight: OPERATIONS_AT_ONCE,
            share_percent: 25,
            refuses_silent: true,
        }
    }
}

impl CqlTimeouts {
    /// The end of an operation that begins at `now`, whose answer is needed at `needed_by`.
    pub(super) fn deadline(&self, now: Instant, needed_by: Option<Instant>) -> Instant {
        let own = now + self.operation;
        needed_by.map_or(own, |needed_by| own.min(needed_by.checked_sub(IN_TIME).unwrap_or(now)))
    }

    /// How reads share their permits.
    pub(super) fn of_reads(&self) -> Limits {
        Limits { refuses: self.refuses_silent, ..self.of_writes() }
    }

    /// How writes share theirs. A write is never refused because others are silent: its page's writers take turns.
    pub(super) fn of_writes(&self) -> Limits {
        let share = (self.in_flight * usize::from(self.share_percent)).div_ceil(100).max(1);
        Limits { permits: self.in_flight, share, refuses: false }
    }
}

/// A builder of sessions with `settings`. It connects to nothing yet.
pub fn builder(settings: &CqlSettings) -> Result<SessionBuilder, SettingsError> {
    if settings.nodes.is_empty() {
        return Err(SettingsError::NoNodes);
    }
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .keyspaces_to_fetch([&settings.keyspace])
        .default_execution_profile_handle(profile(load_balancing(None)).into_handle())
        .connection_timeout(CONNECT_TIMEOUT)
        .schema_agreement_timeout(SCHEMA_AGREEMENT);
    // The field is set directly, because the builder's own methods would log at each start that this interval is short.
    builder.config.keepalive_interval = Some(KEEPALIVE);
    builder.config.keepalive_timeout = Some(KEEPALIVE);
    match (&settings.username, &settings.password_file) {
        (Some(user), Some(file)) => {
            builder = builder.authenticator_provider(Arc::new(FileLogin::new(user, file)?));
        }
        (None, None) => {}
        _ => return Err(SettingsError::HalfALogin),
    }
    if let Some(tls) = secrets::tls(settings)? {
        builder = builder.tls_context(Some(Arc::new(tls)));
    }
    Ok(builder)
}

/// A session on the cluster of `settings`, and the datacentre that it sends requests to. Tries until an attempt
/// succeeds or `failed` returns an error. `failed` gets the error of each attempt.
pub(super) async fn connect<E: From<SettingsError>>(
    settings: &CqlSettings,
    mut failed: impl FnMut(NewSessionError) -> Result<(), E>,
) -> Result<(Session, String), E> {
    loop {
        // Each attempt reads the files again, because a password or certificate may have been corrected.
        match builder(settings)?.build().await {
            Ok(session) => {
                let datacenter = choose_datacenter(&session, settings)?;
                return Ok((session, datacenter));
            }
            Err(error) => failed(error)?,
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// The place of the nodes that get requests.
#[derive(Clone, Copy)]
pub(super) struct Nodes<'a> {
    /// Only they get any.
    pub(super) datacenter: &'a str,
    /// They are asked first.
    pub(super) rack: Option<&'a str>,
}

/// The choice of the node for a request: only one of `nodes`, if they are given.
///
/// `LOCAL_QUORUM` and `LOCAL_SERIAL` mean the datacentre of the node that gets the request. If this datacentre fails,
/// the driver must not use another one, because the quorums there share no replica with the quorums here.
pub(super) fn load_balancing(nodes: Option<Nodes<'_>>) -> Arc<dyn LoadBalancingPolicy> {
    let policy = DefaultPolicy::builder().token_aware(true).permit_dc_failover(false);
    match nodes {
        None => policy,
        Some(Nodes { datacenter, rack: None }) => policy.prefer_datacenter(datacenter.to_owned()),
        Some(Nodes { datacenter, rack: Some(rack) }) => {
            policy.prefer_datacenter_and_rack(datacenter.to_owned(), rack.to_owned())
        }
    }
    .build()
}

/// How the driver sends requests unless a statement says otherwise.
fn profile(load_balancing: Arc<dyn LoadBalancingPolicy>) -> ExecutionProfile {
    ExecutionProfile::builder()
        .load_balancing_policy(load_balancing)
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::LocalSerial))
        .request_timeout(Some(REQUEST_TIMEOUT))
        .build()
}

/// Makes `session` send its requests to the datacentre of `settings` or, if none is set, to the only one. Returns the name
/// of that datacentre.
fn choose_datacenter(session: &Session, settings: &CqlSettings) -> Result<String, SettingsError> {
    let state = session.get_cluster_state();
    let names = state.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref()).collect();
    let name = chosen(&names, settings.datacenter.as_deref())?;
    let nodes = Nodes { datacenter: &name, rack: None };
    session.get_default_execution_profile_handle().clone().map_to_another_profile(profile(load_balancing(Some(nodes))));
    Ok(name)
}

/// Has `statement` sent to `node` and no other.
pub(super) fn send_only_to(statement: &mut Statement, node: &Arc<Node>) {
    let policy = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
    statement.set_load_balancing_policy(Some(policy));
}

/// Checks that `datacenter` has the rack of `settings`, if one is set. A mistyped name would prefer nothing.
pub(super) fn check_rack(session: &Session, datacenter: &str, settings: &CqlSettings) -> Result<(), SettingsError> {
    let Some(rack) = &settings.rack else { return Ok(()) };
    let state = session.get_cluster_state();
    let here = state.get_nodes_info().iter().filter(|node| node.datacenter.as_deref() == Some(datacenter));
    let found: BTreeSet<&str> = here.filter_map(|node| node.rack.as_deref()).collect();
    if found.contains(rack.as_str()) {
        return Ok(());
    }
    let found = found.into_iter().collect::<Vec<_>>().join(", ");
    Err(SettingsError::NoSuchRack { name: rack.clone(), datacenter: datacenter.to_owned(), found })
}

/// The datacentre called `wanted`, or the only one. The order of nodes never decides: replicas that name their nodes in
/// different orders would write in different datacentres, whose quorums share no copy.
fn chosen(names: &BTreeSet<&str>, wanted: Option<&str>) -> Result<String, SettingsError> {
    let found = || names.iter().copied().collect::<Vec<_>>().join(", ");
    match (wanted, names.first()) {
        (Some(name), _) if names.contains(name) => Ok(name.to_owned()),
        (Some(name), _) => Err(SettingsError::NoSuchDatacenter { name: name.to_owned(), found: found() }),
        (None, Some(only)) if names.len() == 1 => Ok((*only).to_owned()),
        (None, _) => Err(SettingsError::ChooseDatacenter { found: found() }),
    }
}

/// Sends a failed read to the next node, at most twice, if the budget allows it.
///
/// The driver's default policy never repeats a serial read. A read is harmless at any consistency, so this policy repeats
/// it whenever another node may succeed. It never lowers the consistency.
#[derive(Debug)]
pub(super) struct ReadRetries(pub(super) RetryBudget);

struct ReadRetriesLeft {
    left: usize,
    budget: RetryBudget,
}

impl RetryPolicy for ReadRetries {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(ReadRetriesLeft { left: READ_RETRIES, budget: self.0.clone() })
    }
}

impl RetrySession for ReadRetriesLeft {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if self.left > 0 && may_succeed_elsewhere(request.error) && self.budget.try_retry() {
            self.left -= 1;
            RetryDecision::RetryNextTarget(None)
        } else {
            RetryDecision::DontRetry
        }
    }

    fn reset(&mut self) {
        self.left = READ_RETRIES;
    }
}

/// Sends a slow read to a second node, as long as the budget has a retry. The driver does not report that second
/// request, so the store takes a retry from the budget when the read has ended.
#[derive(Debug)]
pub(super) struct SecondReads(pub(super) RetryBudget);

impl SpeculativeExecutionPolicy for SecondReads {
    fn max_retry_count(&self, _: &speculative_execution::Context) -> usize {
        usize::from(self.0.has_retry())
    }

    fn retry_interval(&self, _: &speculative_execution::Context) -> Duration {
        SECOND_READ_AFTER
    }
}

/// Whether another node may succeed. If a node has too much to do, sending its work to another node makes things worse.
fn may_succeed_elsewhere(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::BrokenConnectionError(_) | RequestAttemptError::UnableToAllocStreamId => true,
        // A serial read takes part in Paxos, so it can time out as a write does.
        RequestAttemptError::DbError(error, _) => matches!(
            error,
            DbError::Unavailable { .. }
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

/// Whether the database has refused a request because it has too much to do.
pub(super) fn is_overload(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Overloaded | DbError::RateLimitReached { .. },
            _
        ))
    )
}

/// Whether nodes have answered that they cannot read what they were asked for.
pub(super) fn is_read_failure(error: &(dyn Error + 'static)) -> bool {
    matches!(
        error.downcast_ref(),
        Some(ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::ReadFailure { .. }, _)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_several_datacentres_one_must_be_named_whatever_the_order_of_nodes() {
        let two = BTreeSet::from(["west", "east"]);
        assert_eq!(chosen(&two, Some("west")).unwrap(), "west");
        let refused = chosen(&two, None).unwrap_err().to_string();
        assert!(refused.contains("--scylla-datacenter") && refused.contains("east, west"), "{refused}");
        let elsewhere = chosen(&two, Some("north")).unwrap_err().to_string();
        assert!(elsewhere.contains("\"north\"") && elsewhere.contains("east, west"), "{elsewhere}");
    }

    #[test]
    fn requests_stay_in_their_datacentre_and_prefer_a_rack_only_if_it_is_named() {
        let debug = |rack| format!("{:?}", load_balancing(Some(Nodes { datacenter: "west", rack })));
        let (plain, preferring) = (debug(None), debug(Some("shelf")));
        assert!(plain.contains(r#"Datacenter("west")"#), "{plain}");
        assert!(preferring.contains(r#"DatacenterAndRack("west", "shelf")"#), "{preferring}");
        for policy in [plain, preferring] {
            assert!(
                policy.contains("is_token_aware: true") && policy.contains("permit_dc_failover: false"),
                "{policy}"
            );
        }
    }

    #[test]
    fn an_operation_ends_in_time_for_its_caller_and_never_later_than_by_itself() {
        let (limits, now) = (CqlTimeouts::default(), Instant::now());
        let ends_after = |needed_after| {
            let needed_by = Option::map(needed_after, |millis| now + Duration::from_millis(millis));
            limits.deadline(now, needed_by).duration_since(now)
        };
        assert_eq!(ends_after(None), limits.operation);
        assert_eq!(ends_after(Some(5000)), limits.operation);
        assert_eq!(ends_after(Some(2750)), limits.operation);
        assert_eq!(ends_after(Some(1000)), Duration::from_millis(750));
        assert_eq!(ends_after(Some(250)), Duration::ZERO);
        assert_eq!(ends_after(Some(0)), Duration::ZERO);
    }

    #[test]
    fn the_only_datacentre_need_not_be_named() {
        let one = BTreeSet::from(["west"]);
        assert_eq!(chosen(&one, None).unwrap(), "west");
        assert!(matches!(chosen(&one, Some("east")), Err(SettingsError::NoSuchDatacenter { .. })));
        assert!(matches!(chosen(&BTreeSet::new(), None), Err(SettingsError::ChooseDatacenter { .. })));
    }
}
