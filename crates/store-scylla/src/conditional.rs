//! Sends a conditional write of a row until its outcome is certain.
//!
//! After an *unknown* outcome ([`super::write_outcome`]), the same statement with the same id is sent again. Paxos
//! first completes an interrupted round, and all attempts are conditional on one revision, so at most one is ever
//! applied. A refusal shows the row's revision and the ids of its last writes:
//!
//! * The write's own id is there: it was **done**.
//! * No earlier attempt is unknown, or the ids name every write that could be this one: it was **not done**, and never
//!   will be, because revisions never come back. Only a row's first write can be a create, and its id stays.
//! * Otherwise more writes have followed than the row has ids: the outcome is **unknown**.

use std::time::Duration;

use handbill_pages::ports::page_store::{Cause, StoreError};
use handbill_pages::ports::random::Random;
use rand::{Rng, RngExt};
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::session::Limits;
use super::write_ids::{KEPT, WriteId, WriteIds};
use super::write_outcome::{self, Outcome};

/// With less time left, the answer would probably come too late.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(50);

/// A starting node may cause this many failures.
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

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Applied,
    Refused(Seen),
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    revision: i64,
    ids: WriteIds,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    NotDone,
    Unknown,
}

impl Seen {
    fn verdict(&self, id: &WriteId, expected: i64, is_first: bool) -> Verdict {
        if self.ids.has(id) {
            Verdict::Done
        } else if is_first || expected == NO_ROW || self.revision.saturating_sub(expected) <= i64::from(KEPT) {
            Verdict::NotDone
        } else {
            Verdict::Unknown
        }
    }
}

#[derive(Debug, Error)]
#[error("the database did not answer in time")]
pub(super) struct NoAnswerError;

/// Too many later writes: the row no longer shows whether this one was done.
#[derive(Debug, Error)]
#[error("too many other writes followed this one to know whether it was done")]
struct OverwrittenError;

#[derive(Debug, Error)]
#[error("the answer has no column [applied] of type boolean")]
struct MissingAppliedError;

/// `Ok(false)` means that the condition does not hold.
pub(super) async fn run<V: SerializeRow>(
    session: &Session,
    write: Conditional<'_, V>,
    limits: &Limits,
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
                None => StoreError::Unavailable(NoAnswerError.into()),
            });
        }
        let attempt = Box::pin(session.execute_unpaged(write.statement, &write.values));
        let (outcome, cause): (_, Cause) = match timeout(limits.attempt.min(left), attempt).await {
            Ok(Ok(answer)) => match read(answer) {
                Ok(Answer::Applied) => return Ok(true),
                Ok(Answer::Refused(seen)) => match seen.verdict(&write.id, write.expected, unknown.is_none()) {
                    Verdict::Done => return Ok(true),
                    Verdict::NotDone => return Ok(false),
                    Verdict::Unknown => return Err(StoreError::OutcomeUnknown(OverwrittenError.into())),
                },
                Err(cause) => (Outcome::Unknown, cause),
            },
            Ok(Err(error)) => (write_outcome::of_failed_write(&error), error.into()),
            Err(_) => (Outcome::Unknown, NoAnswerError.into()),
        };
        tracing::debug!(error = %cause, ?outcome, "a write failed");
        match (outcome, &unknown) {
            (Outcome::NotDone, None) if not_done == REPEATS_IF_NOT_DONE => return Err(StoreError::Unavailable(cause)),
            (Outcome::NotDone, None) => not_done += 1,
            (Outcome::Unknown, None) => unknown = Some(cause),
            (_, Some(_)) => {}
        }
        let mut rng = random;
        sleep(longest_pause.mul_f64(rng.random_range(0.5..1.0)).min(left)).await;
        longest_pause = (longest_pause * 2).min(LONGEST_PAUSE);
    }
}

/// By name: Cassandra returns `[applied]` alone for an applied write, ScyllaDB always the condition's columns too.
fn read(answer: QueryResult) -> Result<Answer, Cause> {
    let rows = answer.into_rows_result()?;
    let row: Row = rows.first_row()?;
    let specs = rows.column_specs();
    let column = |name| specs.get_by_name(name).and_then(|(index, _)| row.columns.get(index)?.as_ref());
    if column("[applied]").and_then(CqlValue::as_boolean).ok_or(MissingAppliedError)? {
        return Ok(Answer::Applied);
    }
    Ok(Answer::Refused(Seen {
        revision: column("revision").and_then(CqlValue::as_bigint).unwrap_or(NO_ROW),
        ids: column("write_ids")
            .and_then(CqlValue::as_blob)
            .map_or_else(WriteIds::default, |ids| WriteIds::of_bytes(ids)),
    }))
}

pub(super) fn new_id(mut random: &Random) -> WriteId {
    let mut id = WriteId::default();
    random.fill_bytes(&mut id);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_believed_if_it_names_every_write_since() {
        let mine = [0; 16];
        let seen = |revision: i64, last_is_mine: bool| {
            let others = (1..=8).fold(WriteIds::default(), |ids, number| ids.with([number; 16]));
            Seen { revision, ids: others.with(if last_is_mine { mine } else { [9; 16] }) }
        };
        for is_first in [true, false] {
            assert_eq!(seen(4, true).verdict(&mine, 3, is_first), Verdict::Done);
            assert_eq!(seen(4, false).verdict(&mine, 3, is_first), Verdict::NotDone);
            assert_eq!(seen(11, false).verdict(&mine, 3, is_first), Verdict::NotDone, "eight writes, all named");
        }
        assert_eq!(seen(12, false).verdict(&mine, 3, true), Verdict::NotDone, "nothing was sent before");
        assert_eq!(seen(12, false).verdict(&mine, 3, false), Verdict::Unknown, "the ninth may be mine");
        assert_eq!(seen(12, false).verdict(&mine, NO_ROW, false), Verdict::NotDone, "the first was not mine");
        assert_eq!(Seen::default().verdict(&mine, 3, false), Verdict::NotDone, "there is no row");
    }
}
