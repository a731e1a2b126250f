//! The outcome of a conditional write that failed: every error of the driver in one table.
//!
//! There are two outcomes, because no error means that the write was done:
//!
//! * **not done**: no replica has seen the write, and none will.
//! * **unknown**: the write may be done already, may be done at any later time, or never.
//!
//! Every error that is not listed as not done is unknown. So an error that a later driver adds costs at worst an
//! unnecessary read. The table is about a single attempt of the driver. After an attempt with an unknown outcome the whole
//! write has an unknown outcome, whatever happens when it is repeated.

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The write was certainly not done, and will not be done.
    NotDone,
    /// The write was done, will be done later, or will never be done.
    Unknown,
}

/// The outcome of a conditional write that was sent once and failed with `error`.
#[expect(clippy::match_same_arms, reason = "each row of the table has its own reason")]
pub(super) fn of_failed_write(error: &ExecutionError) -> Outcome {
    match error {
        // The statement or its values were refused before anything was sent.
        ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => Outcome::NotDone,
        // No node could be chosen or reached, so the write was not sent. A failed attempt would end the request with
        // another error.
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => Outcome::NotDone,
        ExecutionError::LastAttemptError(error) => of_failed_attempt(error),
        // This includes the driver's `RequestTimeout`: a node may still work on the request.
        _ => Outcome::Unknown,
    }
}

fn of_failed_attempt(error: &RequestAttemptError) -> Outcome {
    match error {
        // The request was never written to the connection.
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::UnableToAllocStreamId => Outcome::NotDone,
        // The node did not know the statement, so it did not execute it; preparing the statement again failed.
        RequestAttemptError::RepreparedIdChanged { .. } | RequestAttemptError::RepreparedIdMissingInBatch => {
            Outcome::NotDone
        }
        RequestAttemptError::DbError(error, _) => of_refusal(error),
        // This includes a broken connection and an answer that cannot be read.
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
        // There are too few replicas to start a round of Paxos. At any other consistency ScyllaDB also returns this
        // error after the round was decided, if too few replicas can then learn the decision.
        DbError::Unavailable { consistency, .. } if consistency.is_serial() => Outcome::NotDone,
        // ScyllaDB promises that a write that the coordinator rejected is on no replica.
        DbError::RateLimitReached { rejected_by_coordinator: true, .. } => Outcome::NotDone,
        // The outcome is unknown after WriteTimeout, WriteFailure, ReadTimeout and ReadFailure (a round reads too),
        // Unavailable at another consistency, Overloaded and ServerError (both can follow the decision), 0x1700 "CAS
        // write unknown", which the driver returns as `Other`, and errors of later versions.
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
    fn what_never_left_the_driver_is_not_done_and_what_came_back_broken_is_unknown() {
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
    fn too_few_replicas_are_a_definite_answer_at_a_serial_consistency_only() {
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
