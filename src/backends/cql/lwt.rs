//! One conditional write, from its first attempt to a certain outcome.
//!
//! An attempt ends in one of four ways: *applied*, *refused* (the condition did not hold), *not done* or *unknown*
//! ([`super::write_outcome`]). The first two answer the caller; not done is tried again a few times. After an unknown outcome
//! the row is read at `LOCAL_SERIAL`, which also finishes a round of Paxos that was left half done, and:
//!
//! * the row carries the write's nonce (or its key): it was **done**, even where another write came after it;
//! * the row stands where it stood: the attempt may still be under way, so nothing is concluded. The same write with
//!   the same nonce is sent again; at most one of the two can be applied, since both expect the same version;
//! * the row moved on without the nonce: the condition can never hold again, so it was **not done** and never will be;
//! * the row moved on by more than it remembers: nobody can tell.
//!
//! Once one attempt is of unknown outcome, a later refusal may have been caused by it, and is looked into likewise.

use std::time::Duration;

use rand::{Rng, RngExt};
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::rows::{NonceRow, applied};
use super::session::CqlTimeouts;
use super::write_outcome::{self, Outcome};
use crate::domain::slug::Slug;
use crate::ports::page_store::{Cause, StoreError};
use crate::ports::random::Random;

/// A write is not begun with less than this left: it would hardly be answered, and leave an outcome to find out.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(50);

/// How often a write that was certainly not done is sent again. What refuses it this often is not a node that just came
/// up, and waiting for it would only let requests pile up.
const REPEATS_IF_NOT_DONE: u32 = 2;

/// Longest pauses before the first repetition and before any; each is drawn evenly from a half of it to all of it.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// A conditional write and how to recognise it.
pub(super) struct Write<'a, V> {
    pub(super) slug: &'a Slug,
    pub(super) statement: &'a PreparedStatement,
    pub(super) values: V,
    /// What a row read at `LOCAL_SERIAL`, or its absence, says of this write.
    pub(super) judge: &'a (dyn Fn(Option<&NonceRow>) -> Verdict + Send + Sync),
}

/// What a row says of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was done.
    Done,
    /// It was not done and never will be.
    Refused,
    /// It was not done yet.
    NotYet,
    /// The row no longer remembers.
    Forgotten,
}

/// The answer to one attempt did not come in time.
#[derive(Debug, Error)]
#[error("no answer within {0:?}")]
struct NoAnswer(Duration);

/// So many writes came after that the row no longer tells whether this one was done.
#[derive(Debug, Error)]
#[error("too many other writes came after this one to tell whether it was done")]
struct Overwritten;

/// What decides writes on one session.
pub(super) struct Decider<'a> {
    pub(super) session: &'a Session,
    pub(super) traces: &'a PreparedStatement,
    pub(super) limits: CqlTimeouts,
    pub(super) random: &'a Random,
    pub(super) deadline: Instant,
}

enum Attempt {
    Applied,
    Refused,
    Failed(Outcome, Cause),
}

impl Decider<'_> {
    /// Sends `write` until it is certain whether it was done. `Ok(false)`: its condition does not hold.
    pub(super) async fn decide<V: SerializeRow>(&self, write: &Write<'_, V>) -> Result<bool, StoreError> {
        // Why the outcome is in doubt, once an attempt has put it there.
        let mut doubt: Option<Cause> = None;
        let mut pauses = Pauses::new();
        let mut not_done = 0;
        loop {
            match (self.attempt(write).await, doubt.is_some()) {
                (Attempt::Applied, _) => return Ok(true),
                (Attempt::Refused, false) => return Ok(false),
                (Attempt::Refused | Attempt::Failed(Outcome::NotDone, _), true) => {}
                (Attempt::Failed(Outcome::Unknown, cause), _) => {
                    tracing::debug!(error = %cause, "a write has an unknown outcome, reading it back");
                    doubt.get_or_insert(cause);
                }
                (Attempt::Failed(Outcome::NotDone, cause), false) => {
                    not_done += 1;
                    if not_done > REPEATS_IF_NOT_DONE || self.left() < SHORTEST_ATTEMPT {
                        return Err(StoreError::Unavailable(cause));
                    }
                    self.pause(&mut pauses).await;
                    continue;
                }
            }
            match self.settle(write).await {
                Some(Verdict::Done) => return Ok(true),
                Some(Verdict::Refused) => return Ok(false),
                Some(Verdict::NotYet) if self.left() > SHORTEST_ATTEMPT => self.pause(&mut pauses).await,
                Some(Verdict::Forgotten) => return Err(StoreError::OutcomeUnknown(Box::new(Overwritten))),
                Some(Verdict::NotYet) | None => {
                    let cause = doubt.unwrap_or_else(|| Box::new(NoAnswer(self.limits.operation)));
                    return Err(StoreError::OutcomeUnknown(cause));
                }
            }
        }
    }

    async fn attempt<V: SerializeRow>(&self, write: &Write<'_, V>) -> Attempt {
        let limit = self.limits.attempt.min(self.left());
        if limit < SHORTEST_ATTEMPT {
            return Attempt::Failed(Outcome::NotDone, Box::new(NoAnswer(self.limits.operation)));
        }
        match timeout(limit, self.session.execute_unpaged(write.statement, &write.values)).await {
            Ok(Ok(answer)) => match applied(answer) {
                Ok(true) => Attempt::Applied,
                Ok(false) => Attempt::Refused,
                Err(cause) => Attempt::Failed(Outcome::Unknown, cause),
            },
            Ok(Err(error)) => Attempt::Failed(write_outcome::of_failed_write(&error), Box::new(error)),
            Err(_) => Attempt::Failed(Outcome::Unknown, Box::new(NoAnswer(limit))),
        }
    }

    /// What the row says of `write`, or nothing when it could not be read in time.
    async fn settle<V>(&self, write: &Write<'_, V>) -> Option<Verdict> {
        let mut pauses = Pauses::new();
        while self.left() > Duration::ZERO {
            match timeout_at(self.deadline, self.read_traces(write.slug)).await {
                Ok(Ok(row)) => return Some((write.judge)(row.as_ref())),
                Ok(Err(error)) => tracing::debug!(%error, "a write's outcome could not be read yet"),
                Err(_) => return None,
            }
            self.pause(&mut pauses).await;
        }
        None
    }

    async fn read_traces(&self, slug: &Slug) -> Result<Option<NonceRow>, Cause> {
        let answer = self.session.execute_unpaged(self.traces, (slug.as_str(),)).await.map_err(boxed)?;
        Ok(answer.into_rows_result()?.maybe_first_row()?)
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    async fn pause(&self, pauses: &mut Pauses) {
        sleep(pauses.next(self.random).min(self.left())).await;
    }
}

fn boxed(error: ExecutionError) -> Cause {
    Box::new(error)
}

/// Ever longer pauses, so that writers of one row get out of each other's way.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// The next pause.
    pub(super) fn next(&mut self, mut rng: impl Rng) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause.mul_f64(rng.random_range(0.5..1.0))
    }
}
