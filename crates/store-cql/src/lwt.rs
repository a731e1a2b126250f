//! One conditional write, from its first attempt to a certain outcome.
//!
//! An attempt ends in one of four ways: *applied*, *refused* (the condition did not hold), *not done* or *unknown*
//! ([`super::write_outcome`]). The first two answer the caller. A write that was not done is sent again a few
//! times, within the budget of retries. After an unknown outcome the row is read at `LOCAL_SERIAL`, which also completes a
//! round of Paxos that was interrupted:
//!
//! * The head has the write's nonce (or its key, after many later writes): the write was **done**, even if another write
//!   followed it.
//! * The row has not changed: the attempt may still be under way, so its outcome stays unknown. The same write with the same
//!   nonce is sent again, if the budget of retries allows it and the database did not say that it has too much to do. At
//!   most one of the two can be applied, because both expect the same version.
//! * The row has changed and does not have the nonce: the condition can never hold again, so the write was **not done** and
//!   never will be.
//! * More writes have followed than the row keeps nonces: the outcome cannot be known.
//!
//! If an attempt had an unknown outcome, it may be the reason why a later attempt is refused. So the row is read back
//! after such a refusal too.

use std::time::Duration;

use rand::{Rng, RngExt};
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::nonces::Nonce;
use super::retry_budget::RetryBudget;
use super::rows::{NonceRow, applied};
use super::session::{CqlTimeouts, is_overload};
use super::write_outcome::{self, Outcome};
use super::write_times;
use crate::domain::page::{Page, PageVersion};
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{Cause, StoreError};
use crate::ports::random::Random;

/// No write is sent with less time left than this, because an answer would probably come too late, and the outcome
/// would be unknown.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(50);

/// Maximum number of times that a write that was certainly not done is sent again. Up to this many failures may come
/// from a node that is starting. More failures have another cause, and more attempts would only make requests pile up.
const REPEATS_IF_NOT_DONE: u32 = 2;

/// The maximum of the first pause, and the maximum that later pauses grow to. Each pause is random, between half of its
/// maximum and the whole.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// A conditional write, and how to recognise its effect.
pub(super) struct Write<'a, V> {
    pub(super) slug: &'a Slug,
    pub(super) statement: &'a PreparedStatement,
    pub(super) values: V,
    /// When the text that it points to was inserted, if that was for this write.
    pub(super) text_inserted_at: Option<UnixMillis>,
    /// Derives the outcome of this write from the row or its absence. The row was read at `LOCAL_SERIAL`.
    pub(super) classify: &'a (dyn Fn(Option<&NonceRow>) -> Verdict + Send + Sync),
}

/// The outcome of a write, as far as a row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    /// The write was not done and never will be.
    Refused,
    /// The write was not done yet.
    NotYet,
    /// The write is too old: the row may have lost its nonce.
    TooOld,
}

impl Verdict {
    /// The outcome of the insert of `page` with `nonce`, as `row` shows it.
    pub(super) fn of_insert(row: Option<&NonceRow>, page: &Page, nonce: &Nonce) -> Self {
        match row {
            None => Self::NotYet,
            Some(row) if row.carries(page.head.version, nonce) => Self::Done,
            // A page that was changed still has its key and its time. Each import of one page has these too, so the nonce
            // decides while the row has it; after that, the row has our page or a newer record of it.
            Some(row) if row.has_forgotten(page.head.version) && row.is_of(&page.head) => Self::Done,
            // A tombstone has no key, and may have replaced our page.
            Some(row) if !row.is_page() && row.has_forgotten(page.head.version) => Self::TooOld,
            Some(_) => Self::Refused,
        }
    }

    /// The outcome, as `row` shows it, of the write with `nonce` that replaces the version `expected` by `made`.
    pub(super) fn of_replacement(
        row: Option<&NonceRow>,
        expected: PageVersion,
        made: PageVersion,
        nonce: &Nonce,
    ) -> Self {
        match row {
            Some(row) if row.carries(made, nonce) => Self::Done,
            Some(row) if row.is_page() && row.version() == Some(expected) => Self::NotYet,
            Some(row) if row.has_forgotten(made) => Self::TooOld,
            // Heads are never removed, so if there is no head now, there was no page to replace.
            Some(_) | None => Self::Refused,
        }
    }
}

/// One attempt was not answered in time.
#[derive(Debug, Error)]
#[error("no answer within {0:?}")]
struct NoAnswerError(Duration);

/// The process was stopped between the two writes of a page, and a sweep may have deleted the text.
#[derive(Debug, Error)]
#[error("the text was inserted too long ago to point to it")]
struct OldTextError;

/// Because of many later writes, the row no longer shows whether this write was done.
#[derive(Debug, Error)]
#[error("too many other writes followed this one to know whether it was done")]
struct OverwrittenError;

/// Runs lightweight transactions on one session until a deadline.
pub(super) struct LwtRunner<'a> {
    pub(super) session: &'a Session,
    pub(super) read_nonces: &'a PreparedStatement,
    pub(super) timeouts: CqlTimeouts,
    pub(super) retries: &'a RetryBudget,
    pub(super) random: &'a Random,
    pub(super) clock: &'a SharedClock,
    pub(super) deadline: Instant,
}

enum Attempt {
    Applied,
    Refused,
    /// The flag says whether the database has too much to do. Then the write is not sent again.
    Failed(Outcome, Cause, bool),
}

impl LwtRunner<'_> {
    /// Sends `write` until its outcome is certain. `Ok(false)` means that its condition does not hold.
    pub(super) async fn run<V: SerializeRow>(&self, write: &Write<'_, V>) -> Result<bool, StoreError> {
        // The error of the first attempt with an unknown outcome.
        let mut unknown: Option<Cause> = None;
        let mut pauses = Pauses::new();
        let mut not_done = 0;
        let mut may_repeat = true;
        self.retries.request();
        loop {
            match (self.attempt(write).await, unknown.is_some()) {
                (Attempt::Applied, _) => return Ok(true),
                (Attempt::Refused, false) => return Ok(false),
                // The outcome of an earlier attempt is still unknown.
                (Attempt::Refused, true) => {}
                (Attempt::Failed(Outcome::NotDone, _, is_overload), true) => may_repeat = !is_overload,
                (Attempt::Failed(Outcome::Unknown, cause, is_overload), _) => {
                    tracing::debug!(error = %cause, "a write has an unknown outcome, reading it back");
                    may_repeat = !is_overload;
                    unknown.get_or_insert(cause);
                }
                (Attempt::Failed(Outcome::NotDone, cause, is_overload), false) => {
                    not_done += 1;
                    let has_time = not_done <= REPEATS_IF_NOT_DONE && self.left() >= SHORTEST_ATTEMPT;
                    if is_overload || !has_time || !self.retries.try_retry() {
                        return Err(StoreError::Unavailable(cause));
                    }
                    self.pause(&mut pauses).await;
                    continue;
                }
            }
            match self.read_back(write).await {
                Some(Verdict::Done) => return Ok(true),
                Some(Verdict::Refused) => return Ok(false),
                Some(Verdict::NotYet) if may_repeat && self.left() > SHORTEST_ATTEMPT && self.retries.try_retry() => {
                    self.pause(&mut pauses).await;
                }
                Some(Verdict::TooOld) => return Err(StoreError::OutcomeUnknown(Box::new(OverwrittenError))),
                Some(Verdict::NotYet) | None => {
                    let cause = unknown.unwrap_or_else(|| Box::new(NoAnswerError(self.timeouts.operation)));
                    return Err(StoreError::OutcomeUnknown(cause));
                }
            }
        }
    }

    async fn attempt<V: SerializeRow>(&self, write: &Write<'_, V>) -> Attempt {
        let limit = self.timeouts.attempt.min(self.left());
        if limit < SHORTEST_ATTEMPT {
            return Attempt::Failed(Outcome::NotDone, Box::new(NoAnswerError(self.timeouts.operation)), false);
        }
        // A monotonic clock may stand still with the machine, so the deadline alone does not show such a stop. Inserting the
        // text again would not help: the deletion of the sweep is above it. The next attempt of the caller has another key.
        if write.text_inserted_at.is_some_and(|at| write_times::is_old(at, self.clock.now())) {
            return Attempt::Failed(Outcome::NotDone, Box::new(OldTextError), true);
        }
        match timeout(limit, self.session.execute_unpaged(write.statement, &write.values)).await {
            Ok(Ok(answer)) => match applied(answer) {
                Ok(true) => Attempt::Applied,
                Ok(false) => Attempt::Refused,
                Err(cause) => Attempt::Failed(Outcome::Unknown, cause, false),
            },
            Ok(Err(error)) => {
                let (outcome, is_overload) = (write_outcome::of_failed_write(&error), is_overload(&error));
                Attempt::Failed(outcome, Box::new(error), is_overload)
            }
            Err(_) => Attempt::Failed(Outcome::Unknown, Box::new(NoAnswerError(limit)), false),
        }
    }

    /// Reads the row and returns the outcome of `write`; `None` if the row could not be read in time.
    async fn read_back<V>(&self, write: &Write<'_, V>) -> Option<Verdict> {
        let mut pauses = Pauses::new();
        while self.left() > Duration::ZERO {
            match timeout_at(self.deadline, self.read_nonces(write.slug)).await {
                Ok(Ok(row)) => return Some((write.classify)(row.as_ref())),
                Ok(Err(error)) => tracing::debug!(%error, "a write's outcome could not be read yet"),
                Err(_) => return None,
            }
            self.pause(&mut pauses).await;
        }
        None
    }

    async fn read_nonces(&self, slug: &Slug) -> Result<Option<NonceRow>, Cause> {
        let answer = self.session.execute_unpaged(self.read_nonces, (slug.as_str(),)).await.map_err(boxed)?;
        Ok(answer.into_rows_result()?.maybe_first_row::<NonceRow>()?)
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

/// Pauses that grow, so that writers of one row do not block each other.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    pub(super) fn next(&mut self, mut rng: impl Rng) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause.mul_f64(rng.random_range(0.5..1.0))
    }
}
