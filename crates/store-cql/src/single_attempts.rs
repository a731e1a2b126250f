//! Lightweight transactions on rows beside the pages, sent once. The caller reads the row to learn an unknown outcome.

use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::time::timeout_at;

use super::permit::Permit;
use super::requests::NoAnswerError;
use super::rows::applied;
use super::store::CqlStore;
use super::write_outcome::{self, Outcome};
use crate::ports::page_store::{Cause, StoreError};

pub(super) enum Attempt {
    Applied,
    /// The condition did not hold.
    Refused,
    /// The write was not done, or its outcome is unknown.
    Failed(Outcome, Cause),
}

/// The failures of a write that is tried again until it is done.
#[derive(Default)]
pub(super) struct Failures {
    unknown: Option<Cause>,
    not_done: Option<Cause>,
}

impl Failures {
    /// Remembers the first failure of each kind.
    pub(super) fn add(&mut self, outcome: Outcome, cause: Cause) {
        match outcome {
            Outcome::Unknown => self.unknown.get_or_insert(cause),
            Outcome::NotDone => self.not_done.get_or_insert(cause),
        };
    }

    /// The error of a write for which no time is left.
    pub(super) fn into_error(self) -> StoreError {
        match (self.unknown, self.not_done) {
            (Some(cause), _) => StoreError::OutcomeUnknown(cause),
            (None, cause) => StoreError::Unavailable(cause.unwrap_or_else(|| Box::new(NoAnswerError))),
        }
    }
}

impl CqlStore {
    /// Sends a conditional write once.
    pub(super) async fn attempt(
        &self,
        permit: &Permit<'_>,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Attempt {
        match timeout_at(permit.deadline, self.session.execute_unpaged(statement, values)).await {
            Ok(Ok(answer)) => match applied(answer) {
                Ok(true) => Attempt::Applied,
                Ok(false) => Attempt::Refused,
                Err(cause) => Attempt::Failed(Outcome::Unknown, cause),
            },
            Ok(Err(error)) => Attempt::Failed(write_outcome::of_failed_write(&error), Box::new(error)),
            Err(_) => Attempt::Failed(Outcome::Unknown, Box::new(NoAnswerError)),
        }
    }
}
