//! [`PageStore`] over one session.

use std::sync::Arc;

use async_trait::async_trait;
use rand::Rng;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connect::ConnectError;
use super::lwt::{Decider, Pauses, Verdict, Write};
use super::rows::{self, Nonce, NonceRow, PageRow, REMEMBERED_WRITES};
use super::session::CqlTimeouts;
use super::statements::Statements;
use crate::domain::page::{Page, PageVersion};
use crate::domain::slug::Slug;
use crate::ports::page_store::{CasResult, Cause, InsertResult, Lookup, PageStore, Record, StoreError};
use crate::ports::random::Random;

/// How often a lookup that failed on every node it was sent to is begun anew.
const LOOKUP_REPEATS: usize = 2;

/// The pages of one keyspace.
///
/// Every operation ends within [`CqlTimeouts::operation`]. A caller that gives up earlier drops the future: a request that was
/// sent is then done wholly or not at all.
pub struct CqlStore {
    session: Arc<Session>,
    statements: Statements,
    random: Random,
    limits: CqlTimeouts,
    reads: Semaphore,
    writes: Semaphore,
}

/// No turn came in time.
#[derive(Debug, Error)]
#[error("too many calls wait for the database")]
struct Busy;

/// No answer came in time.
#[derive(Debug, Error)]
#[error("the database did not answer in time")]
struct Silent;

/// A turn, and when the operation that has it must end.
struct Turn<'a> {
    deadline: Instant,
    _permit: SemaphorePermit<'a>,
}

impl CqlStore {
    /// A store on `session` in `keyspace`, whose schema is there.
    pub async fn on(
        session: Arc<Session>,
        keyspace: &str,
        random: Random,
        limits: CqlTimeouts,
    ) -> Result<Self, ConnectError> {
        let statements = Statements::prepare(&session, keyspace, limits).await?;
        let turns = || Semaphore::new(limits.in_flight);
        Ok(Self { session, statements, random, limits, reads: turns(), writes: turns() })
    }

    async fn turn<'a>(&self, turns: &'a Semaphore) -> Result<Turn<'a>, StoreError> {
        let deadline = Instant::now() + self.limits.operation;
        match timeout(self.limits.turn, turns.acquire()).await {
            Ok(Ok(permit)) => Ok(Turn { deadline, _permit: permit }),
            _ => Err(StoreError::Unavailable(Box::new(Busy))),
        }
    }

    fn draw_nonce(&self) -> Nonce {
        let mut nonce = Nonce::default();
        (&self.random).fill_bytes(&mut nonce);
        nonce
    }

    async fn decide<V: SerializeRow>(&self, turn: &Turn<'_>, write: Write<'_, V>) -> Result<bool, StoreError> {
        let decider = Decider {
            session: &self.session,
            traces: &self.statements.traces,
            limits: self.limits,
            random: &self.random,
            deadline: turn.deadline,
        };
        decider.decide(&write).await
    }

    async fn read_page(&self, slug: &Slug) -> Result<Lookup, ReadError> {
        let answer = self.session.execute_unpaged(&self.statements.lookup, (slug.as_str(),)).await?;
        let unreadable = |cause: Cause| ReadError::Unreadable(cause);
        let rows = answer.into_rows_result().map_err(|error| unreadable(error.into()))?;
        match rows.maybe_first_row::<PageRow>().map_err(|error| unreadable(error.into()))? {
            Some(row) => row.into_lookup(slug).map_err(|error| unreadable(error.into())),
            None => Ok(Lookup::Absent),
        }
    }
}

enum ReadError {
    NoAnswer(Cause),
    Unreadable(Cause),
}

impl From<ExecutionError> for ReadError {
    fn from(error: ExecutionError) -> Self {
        Self::NoAnswer(Box::new(error))
    }
}

#[async_trait]
impl PageStore for CqlStore {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<InsertResult, StoreError> {
        let turn = self.turn(&self.writes).await?;
        let nonce = self.draw_nonce();
        let judge = |row: Option<&NonceRow>| judge_insert(row, &page, &nonce);
        let write = Write {
            slug: &page.slug,
            statement: &self.statements.insert,
            values: rows::inserted(&page, &nonce),
            judge: &judge,
        };
        Ok(if self.decide(&turn, write).await? { InsertResult::Inserted } else { InsertResult::SlugTaken })
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let turn = self.turn(&self.reads).await?;
        let mut pauses = Pauses::new();
        let mut repeats = 0;
        loop {
            let failed = match timeout_at(turn.deadline, self.read_page(slug)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(ReadError::Unreadable(cause))) => return Err(StoreError::Unreadable(cause)),
                Ok(Err(ReadError::NoAnswer(cause))) => cause,
                Err(_) => return Err(StoreError::Unavailable(Box::new(Silent))),
            };
            // All connections to a node may just have been cut, or all nodes asked may just have come up.
            repeats += 1;
            if repeats > LOOKUP_REPEATS || Instant::now() >= turn.deadline {
                return Err(StoreError::Unavailable(failed));
            }
            sleep(pauses.next(&self.random)).await;
        }
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        let turn = self.turn(&self.writes).await?;
        let nonce = self.draw_nonce();
        let made = match &next {
            Record::Active(page) => page.version,
            Record::Deleted(tombstone) => tombstone.version,
        };
        let judge = |row: Option<&NonceRow>| judge_swap(row, expected, made, &nonce);
        let (slug, judge) = (next.slug(), &judge);
        let done = match &next {
            Record::Active(page) => {
                let values = rows::replaced(expected, page, &nonce);
                self.decide(&turn, Write { slug, statement: &self.statements.replace, values, judge }).await?
            }
            Record::Deleted(tombstone) => {
                let values = rows::buried(expected, tombstone, &nonce);
                self.decide(&turn, Write { slug, statement: &self.statements.bury, values, judge }).await?
            }
        };
        Ok(if done { CasResult::Swapped } else { CasResult::Stale })
    }
}

/// What `row` says of the insert of `page` with `nonce`.
fn judge_insert(row: Option<&NonceRow>, page: &Page, nonce: &Nonce) -> Verdict {
    match row {
        None => Verdict::NotYet,
        Some(row) if row.has_key(page.key_hash) || row.carries(page.version, nonce) => Verdict::Done,
        // A page that was changed has kept its key. A tombstone has not, and may have been written over ours since.
        Some(row) if !row.is_active() && has_forgotten(row, page.version) => Verdict::Forgotten,
        Some(_) => Verdict::Refused,
    }
}

/// What `row` says of the write with `nonce` that makes the version `made` of `expected`.
fn judge_swap(row: Option<&NonceRow>, expected: PageVersion, made: PageVersion, nonce: &Nonce) -> Verdict {
    match row {
        Some(row) if row.carries(made, nonce) => Verdict::Done,
        Some(row) if row.is_active() && row.version() == Some(expected) => Verdict::NotYet,
        Some(row) if has_forgotten(row, made) => Verdict::Forgotten,
        // Without a row there was none to replace, because a row never goes away.
        Some(_) | None => Verdict::Refused,
    }
}

/// Whether so many writes came after the one that made `made` that `row` no longer has its nonce.
fn has_forgotten(row: &NonceRow, made: PageVersion) -> bool {
    row.version().is_none_or(|version| version.get() >= made.get().saturating_add(REMEMBERED_WRITES))
}
