//! The outcome of a failed conditional write: every error of the driver in one table.
//!
//! No error means that the write was done:
//!
//! * **not done**: no replica has seen the write, and none will.
//! * **unknown**: it may be done already, later or never.
//!
//! Errors that are not listed are unknown, which costs at worst a read. The table is about one attempt. After an
//! unknown attempt the whole write is unknown, whatever its repeats return.

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    NotDone,
    Unknown,
}

#[expect(clippy::match_same_arms, reason = "each row of the table has its own reason")]
pub(super) fn of_failed_write(error: &ExecutionError) -> Outcome {
    match error {
        // Refused before anything was sent.
        ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => Outcome::NotDone,
        // No node was reached. A failed attempt would return another error.
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => Outcome::NotDone,
        ExecutionError::LastAttemptError(error) => of_failed_attempt(error),
        // Also the driver's `RequestTimeout`: a node may still work on the request.
        _ => Outcome::Unknown,
    }
}

fn of_failed_attempt(error: &RequestAttemptError) -> Outcome {
    match error {
        // Never written to the connection.
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::UnableToAllocStreamId => Outcome::NotDone,
        // The node did not know the statement, and preparing it again failed.
        RequestAttemptError::RepreparedIdChanged { .. } | RequestAttemptError::RepreparedIdMissingInBatch => {
            Outcome::NotDone
        }
        RequestAttemptError::DbError(error, _) => of_refusal(error),
        // Also a broken connection and an unreadable answer.
        _ => Outcome::Unknown,
    }
}

#[expect(clippy::match_same_arms, reason = "each row of the table has its own reason")]
fn of_refusal(error: &DbError) -> Outcome {
    match error {
        // The node checked the request and did not start it.
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError
        | DbError::ProtocolError
        | DbError::IsBootstrapping
        | DbError::Unprepared { .. } => Outcome::NotDone,
        // Too few replicas to start Paxos. At other consistencies, ScyllaDB also returns this after the decision.
        DbError::Unavailable { consistency, .. } if consistency.is_serial() => Outcome::NotDone,
        // ScyllaDB promises that such a write is on no replica.
        DbError::RateLimitReached { rejected_by_coordinator: true, .. } => Outcome::NotDone,
        // WriteTimeout, WriteFailure, ReadTimeout and ReadFailure (a round reads too), Unavailable at another
        // consistency, Overloaded and ServerError (both can follow the decision), 0x1700 "CAS write unknown" (the
        // driver's `Other`), and later errors.
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use scylla::errors::{BadQuery, BrokenConnectionErrorKind, ConnectionPoolError, OperationType, WriteType};
    use scylla::statement::Consistency;

    use super::Outcome::{NotDone, Unknown};
    use super::*;

    fn refused(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new()))
    }

    fn unavailable(consistency: Consistency) -> ExecutionError {
        refused(DbError::Unavailable { consistency, required: 2, alive: 1 })
    }

    /// Tests the errors that no server and no proxy can produce; `tests/services/scylla/outcomes.rs` forges the others.
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

    #[test]
    fn too_few_replicas_are_a_definite_answer_to_a_serial_write() {
        assert_eq!(of_failed_write(&unavailable(Consistency::LocalSerial)), NotDone);
        assert_eq!(of_failed_write(&unavailable(Consistency::Serial)), NotDone);
        assert_eq!(of_failed_write(&unavailable(Consistency::LocalQuorum)), Unknown);
    }

    #[test]
    fn a_timeout_of_a_round_is_unknown_however_it_is_written() {
        let timeout = DbError::WriteTimeout {
            consistency: Consistency::LocalSerial,
            received: 1,
            required: 2,
            write_type: WriteType::Cas,
        };
        assert_eq!(of_failed_write(&refused(timeout)), Unknown);
        assert_eq!(of_failed_write(&refused(DbError::Other(0x1700))), Unknown);
    }

    #[test]
    fn a_rate_limit_is_a_definite_answer_from_the_coordinator_only() {
        let limit = |rejected_by_coordinator| DbError::RateLimitReached {
            op_type: OperationType::Write,
            rejected_by_coordinator,
        };
        assert_eq!(of_failed_write(&refused(limit(true))), NotDone);
        assert_eq!(of_failed_write(&refused(limit(false))), Unknown);
    }
}
