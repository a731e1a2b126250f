//! Requests that are harmless to repeat, sent until they are answered.

use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout_at};

use super::lwt::Pauses;
use super::permit::Permit;
use super::request_error::{RequestError, unreadable};
use super::session::SECOND_READ_AFTER;
use super::store::CqlStore;
use crate::ports::page_store::StoreError;

/// How often a request that may be repeated is sent again after it has failed on every node that got it.
const REPEATS: usize = 2;

#[derive(Debug, Error)]
#[error("the database did not answer in time")]
pub(super) struct NoAnswerError;

impl CqlStore {
    /// Sends a request until it is answered, a few times at most and within the budget of retries. The request must be
    /// harmless to repeat.
    pub(super) async fn repeat<T, F>(&self, permit: &Permit<'_>, request: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut pauses = Pauses::new();
        let mut repeats = 0;
        self.retries.request();
        loop {
            let (began, may_be_sent_twice) = (Instant::now(), self.retries.has_retry());
            let tried = timeout_at(permit.deadline.min(began + self.timeouts.attempt), request()).await;
            if may_be_sent_twice && began.elapsed() >= SECOND_READ_AFTER {
                self.retries.retried();
            }
            let failed = match tried {
                Ok(Ok(answer)) => {
                    permit.answered();
                    return Ok(answer);
                }
                Ok(Err(RequestError::Unreadable(cause))) => {
                    permit.answered();
                    return Err(StoreError::Unreadable(cause));
                }
                Ok(Err(RequestError::Overloaded(cause))) => return Err(StoreError::Unavailable(cause)),
                Ok(Err(RequestError::NoAnswer(cause))) => cause,
                Err(_) => Box::new(NoAnswerError),
            };
            // The node's connections may just have been cut, or all nodes that got the request may just have started.
            repeats += 1;
            if repeats > REPEATS || Instant::now() >= permit.deadline || !self.retries.try_retry() {
                return Err(StoreError::Unavailable(failed));
            }
            sleep(pauses.next(&self.random)).await;
        }
    }

    /// Sends a plain write until it is answered.
    pub(super) async fn write(
        &self,
        permit: &Permit<'_>,
        write: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), StoreError> {
        let request = async || {
            self.session.execute_unpaged(write, &values).await?;
            Ok(())
        };
        self.repeat(permit, request).await
    }

    /// The first row of the answer to a read, if it has one.
    pub(super) async fn first_row<R>(
        &self,
        permit: &Permit<'_>,
        read: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Option<R>, StoreError>
    where
        R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
    {
        let request = async || {
            let answer = self.session.execute_unpaged(read, &values).await?;
            answer.into_rows_result().map_err(unreadable)?.maybe_first_row().map_err(unreadable)
        };
        self.repeat(permit, request).await
    }
}
