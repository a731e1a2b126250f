//! Sends a conditional write of a row until its outcome is certain.
//!
//! After an *unknown* outcome ([`of_failed_write`]), the same statement with the same id is sent again. Paxos
//! first completes an interrupted round, and all attempts are conditional on one revision, so at most one is ever
//! applied. A refusal shows the row's revision and the ids of its last writes:
//!
//! * The write's own id is there: it was **done**.
//! * No earlier attempt is unknown, or the ids name every write that could be this one: it was **not done**, and never
//!   will be, because revisions never come back. Only a row's first write can be a create, and its id stays.
//! * Otherwise more writes have followed than the row has ids: the outcome is **unknown**.

use std::{sync::Arc, time::Duration};

use handbill_pages::ports::page_store::{Cause, StoreError};
use handbill_pages::ports::random::Random;
use rand::{Rng, RngExt};
use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::value::{CqlValue, Row};
use scylla::{
    client::session::Session, response::query_result::QueryResult, routing::Shard, serialize::row::SerializeRow,
    statement::prepared::PreparedStatement,
};
use tokio::time::{Instant, sleep, timeout};

use super::row::{KEPT_IDS, WriteId};
use super::{connected::Connected, session::NO_ANSWER};

/// Shortest time for an attempt. With less, the answer would probably come too late.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(50);

/// How often a write that was not done is sent again: a starting node refuses it.
const REPEATS_IF_NOT_DONE: u32 = 2;

/// The first and the largest maximum of a pause. Pauses are random, from half of the maximum, so that writers of one
/// row do not block each other.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

/// A conditional write, and how to recognise its effect.
pub(super) struct Conditional<'a, V> {
    pub(super) statement: &'a PreparedStatement,
    pub(super) values: V,
    pub(super) id: WriteId,
    /// The row's revision, or [`NO_ROW`].
    pub(super) expected: i64,
}

pub(super) const NO_ROW: i64 = 0;

/// What a refusal shows of the row.
#[derive(Debug, Default)]
struct Seen {
    revision: i64,
    ids: Vec<u8>,
}

/// What is known of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// No replica has seen the write, and none will.
    NotDone,
    /// The write may be done already, later or never.
    Unknown,
}

impl Seen {
    fn outcome(&self, id: &WriteId, expected: i64, is_first: bool) -> Outcome {
        if self.ids.as_chunks().0.contains(id) {
            Outcome::Done
        } else if is_first || expected == NO_ROW || self.revision.saturating_sub(expected) <= i64::from(KEPT_IDS) {
            Outcome::NotDone
        } else {
            Outcome::Unknown
        }
    }
}

/// Sends `write` until its outcome is certain. `Ok(false)` means that the condition does not hold.
pub(super) async fn run<V: SerializeRow>(
    Connected { session, limits, .. }: &Connected,
    write: Conditional<'_, V>,
    random: &Random,
    deadline: Instant,
) -> Result<bool, StoreError> {
    let mut unknown: Option<Cause> = None;
    let mut not_done = 0;
    let mut longest_pause = FIRST_PAUSE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < SHORTEST_ATTEMPT {
            return Err(match unknown {
                Some(cause) => StoreError::OutcomeUnknown(cause),
                None => StoreError::Unavailable(NO_ANSWER.into()),
            });
        }
        let statement = unknown.as_ref().map(|_| elsewhere(session, write.statement));
        let statement = statement.as_ref().unwrap_or(write.statement);
        let attempt = Box::pin(session.execute_unpaged(statement, &write.values));
        let (outcome, cause): (_, Cause) = match timeout(limits.attempt.min(left), attempt).await {
            Ok(Ok(answer)) => match read(answer) {
                Ok(None) => return Ok(true),
                Ok(Some(seen)) => match seen.outcome(&write.id, write.expected, unknown.is_none()) {
                    Outcome::Done => return Ok(true),
                    Outcome::NotDone => return Ok(false),
                    Outcome::Unknown => {
                        let cause = "too many other writes followed this one to know whether it was done";
                        return Err(StoreError::OutcomeUnknown(cause.into()));
                    }
                },
                Err(cause) => (Outcome::Unknown, cause),
            },
            Ok(Err(error)) => (of_failed_write(&error), error.into()),
            Err(_) => (Outcome::Unknown, NO_ANSWER.into()),
        };
        tracing::debug!(error = %cause, ?outcome, "a write failed");
        match (outcome, &unknown) {
            (Outcome::NotDone, None) if not_done == REPEATS_IF_NOT_DONE => return Err(StoreError::Unavailable(cause)),
            (Outcome::NotDone, None) => not_done += 1,
            (_, None) => unknown = Some(cause),
            (_, Some(_)) => {}
        }
        let mut rng = random;
        sleep(longest_pause.mul_f64(rng.random_range(0.5..1.0)).min(left)).await;
        longest_pause = (longest_pause * 2).min(LONGEST_PAUSE);
    }
}

/// The statement for another node than the first, which may hang: on `ScyllaDB` the driver sends each conditional write of a row
/// to the same node.
fn elsewhere(session: &Session, statement: &PreparedStatement) -> PreparedStatement {
    let profile = session.get_default_execution_profile_handle().to_profile();
    let mut statement = statement.clone();
    statement.set_load_balancing_policy(Some(Arc::new(Elsewhere(Arc::clone(profile.get_load_balancing_policy())))));
    statement
}

/// The nodes of another policy, its first choice last.
#[derive(Debug)]
struct Elsewhere(Arc<dyn LoadBalancingPolicy>);

impl LoadBalancingPolicy for Elsewhere {
    fn pick<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.fallback(request, cluster).next()
    }

    fn fallback<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        let mut nodes = self.0.fallback(request, cluster);
        let first = nodes.next();
        // The only node is better than none.
        Box::new(nodes.chain(first))
    }

    fn name(&self) -> String {
        "Elsewhere".to_owned()
    }
}

/// Whether a write that cannot be unknown was done.
pub(super) fn is_applied(answer: QueryResult) -> Result<bool, Cause> {
    Ok(read(answer)?.is_none())
}

/// What a refusal shows; `None` if the write was applied. Reads the columns by name: Cassandra returns `[applied]` alone for an applied
/// write, ScyllaDB always the condition's columns too.
fn read(answer: QueryResult) -> Result<Option<Seen>, Cause> {
    let rows = answer.into_rows_result()?;
    let row: Row = rows.first_row()?;
    let specs = rows.column_specs();
    let column = |name| specs.get_by_name(name).and_then(|(index, _)| row.columns.get(index)?.as_ref());
    let is_applied = column("[applied]").and_then(CqlValue::as_boolean);
    if is_applied.ok_or("the answer has no column [applied] of type boolean")? {
        return Ok(None);
    }
    let ids = column("write_ids").and_then(CqlValue::as_blob);
    Ok(Some(Seen {
        revision: column("revision").and_then(CqlValue::as_bigint).unwrap_or(NO_ROW),
        ids: ids.cloned().unwrap_or_default(),
    }))
}

/// The outcome that each error of the driver means. None means that the write was done, and errors that are not listed are unknown,
/// which costs at worst a read. After an unknown attempt the whole write is unknown, whatever its repeats return.
#[expect(clippy::match_same_arms, reason = "each row of the table has its own reason")]
fn of_failed_write(error: &ExecutionError) -> Outcome {
    use {DbError as Db, ExecutionError as Execution, RequestAttemptError as Attempt};
    let attempt = match error {
        // Refused before anything was sent.
        Execution::BadQuery(_) | Execution::PrepareError(_) => return Outcome::NotDone,
        // No node was reached. A failed attempt would return another error.
        Execution::EmptyPlan | Execution::ConnectionPoolError(_) => return Outcome::NotDone,
        Execution::LastAttemptError(error) => error,
        // Also the driver's `RequestTimeout`: a node may still work on the request.
        _ => return Outcome::Unknown,
    };
    match attempt {
        // Never written to the connection.
        Attempt::SerializationError(_) | Attempt::CqlRequestSerialization(_) | Attempt::UnableToAllocStreamId => {
            Outcome::NotDone
        }
        // The node did not know the statement, and preparing it again failed.
        Attempt::RepreparedIdChanged { .. } | Attempt::RepreparedIdMissingInBatch => Outcome::NotDone,
        // The node checked the request and did not start it.
        Attempt::DbError(
            Db::SyntaxError
            | Db::Invalid
            | Db::AlreadyExists { .. }
            | Db::AuthenticationError
            | Db::Unauthorized
            | Db::ConfigError
            | Db::ProtocolError
            | Db::IsBootstrapping
            | Db::Unprepared { .. },
            _,
        ) => Outcome::NotDone,
        // Too few replicas to start Paxos. At other consistencies, ScyllaDB also returns this after the decision.
        Attempt::DbError(Db::Unavailable { consistency, .. }, _) if consistency.is_serial() => Outcome::NotDone,
        // ScyllaDB promises that such a write is on no replica.
        Attempt::DbError(Db::RateLimitReached { rejected_by_coordinator: true, .. }, _) => Outcome::NotDone,
        // WriteTimeout, WriteFailure, ReadTimeout and ReadFailure (a round reads too), Unavailable at another consistency, Overloaded and
        // ServerError (both can follow the decision), 0x1700 "CAS write unknown" (the driver's `Other`), later errors, a broken
        // connection, and an unreadable answer.
        _ => Outcome::Unknown,
    }
}

pub(super) fn new_id(mut random: &Random) -> WriteId {
    let mut id = WriteId::default();
    random.fill_bytes(&mut id);
    id
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use scylla::errors::{BadQuery, BrokenConnectionErrorKind, ConnectionPoolError, OperationType, WriteType};
    use scylla::statement::Consistency;

    use super::super::row::with_id;
    use super::Outcome::{Done, NotDone, Unknown};
    use super::*;

    #[test]
    fn a_refusal_is_believed_if_it_names_every_write_since() {
        let mine = [0; 16];
        let seen = |revision: i64, last_is_mine: bool| {
            let others = (1..=8).fold(Vec::new(), |ids, number| with_id(&ids, &[number; 16]));
            Seen { revision, ids: with_id(&others, if last_is_mine { &mine } else { &[9; 16] }) }
        };
        for is_first in [true, false] {
            assert_eq!(seen(4, true).outcome(&mine, 3, is_first), Done);
            assert_eq!(seen(4, false).outcome(&mine, 3, is_first), NotDone);
            assert_eq!(seen(11, false).outcome(&mine, 3, is_first), NotDone, "eight writes, all named");
        }
        assert_eq!(seen(12, false).outcome(&mine, 3, true), NotDone, "nothing was sent before");
        assert_eq!(seen(12, false).outcome(&mine, 3, false), Unknown, "the ninth may be mine");
        assert_eq!(seen(12, false).outcome(&mine, NO_ROW, false), NotDone, "the first was not mine");
        assert_eq!(Seen::default().outcome(&mine, 3, false), NotDone, "there is no row");
    }

    #[test]
    fn what_never_left_is_not_done_and_a_broken_answer_is_unknown() {
        let attempt = ExecutionError::LastAttemptError;
        let broken = BrokenConnectionErrorKind::TooManyOrphanedStreamIds(1025);
        let rows = [
            (ExecutionError::BadQuery(BadQuery::PartitionKeyExtraction), NotDone),
            (ExecutionError::EmptyPlan, NotDone),
            (ExecutionError::ConnectionPoolError(ConnectionPoolError::Initializing), NotDone),
            (attempt(RequestAttemptError::UnableToAllocStreamId), NotDone),
            (attempt(RequestAttemptError::RepreparedIdMissingInBatch), NotDone),
            (attempt(RequestAttemptError::BrokenConnectionError(broken.into())), Unknown),
            (attempt(RequestAttemptError::NonfinishedPagingState), Unknown),
            (ExecutionError::RequestTimeout(Duration::from_secs(1)), Unknown),
        ];
        for (error, outcome) in rows {
            assert_eq!(of_failed_write(&error), outcome, "{error}");
        }
    }

    /// What a server can answer to a write.
    #[test]
    fn an_error_says_whether_nothing_was_done() {
        fn limit(rejected_by_coordinator: bool) -> DbError {
            DbError::RateLimitReached { op_type: OperationType::Write, rejected_by_coordinator }
        }

        let text = String::new;
        let (consistency, received, required, numfailures) = (Consistency::LocalSerial, 1, 2, 1);
        let (write_type, data_present) = (WriteType::Cas, false);
        let unavailable = |consistency| DbError::Unavailable { consistency, required, alive: 1 };
        for (error, outcome) in [
            (DbError::SyntaxError, NotDone),
            (DbError::Invalid, NotDone),
            (DbError::AlreadyExists { keyspace: text(), table: text() }, NotDone),
            (DbError::AuthenticationError, NotDone),
            (DbError::Unauthorized, NotDone),
            (DbError::ConfigError, NotDone),
            (DbError::ProtocolError, NotDone),
            (DbError::IsBootstrapping, NotDone),
            // Too few replicas are a definite answer to a serial write alone, and a limit one from the coordinator alone.
            (unavailable(Consistency::LocalSerial), NotDone),
            (unavailable(Consistency::Serial), NotDone),
            (unavailable(Consistency::LocalQuorum), Unknown),
            (limit(true), NotDone),
            (limit(false), Unknown),
            // A timeout of a round, however it is written.
            (DbError::WriteTimeout { consistency, received, required, write_type: write_type.clone() }, Unknown),
            (DbError::Other(0x1700), Unknown),
            (DbError::WriteFailure { consistency, received, required, numfailures, write_type }, Unknown),
            (DbError::ReadTimeout { consistency, received, required, data_present }, Unknown),
            (DbError::ReadFailure { consistency, received, required, numfailures, data_present }, Unknown),
            (DbError::Overloaded, Unknown),
            (DbError::ServerError, Unknown),
            (DbError::TruncateError, Unknown),
            (DbError::FunctionFailure { keyspace: text(), function: text(), arg_types: Vec::new() }, Unknown),
        ] {
            let refused = ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text()));
            assert_eq!(of_failed_write(&refused), outcome, "{refused}");
        }
    }
}
