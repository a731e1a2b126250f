//! [`PageStore`] over one session.

use std::sync::Arc;

use async_trait::async_trait;
use rand::Rng;
use scylla::client::session::Session;
use scylla::errors::{ExecutionError, PrepareError};
use scylla::serialize::row::SerializeRow;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::lwt::{LwtRunner, Pauses, Verdict, Write};
use super::rows::{self, Nonce, NonceRow, PageRow, REMEMBERED_WRITES};
use super::session::CqlTimeouts;
use super::statements::Statements;
use crate::domain::page::{Page, PageVersion};
use crate::domain::slug::Slug;
use crate::ports::page_store::{CasResult, Cause, InsertResult, Lookup, PageStore, Record, StoreError};
use crate::ports::random::Random;

/// How often a lookup is repeated after it has failed on every node that got it.
const LOOKUP_REPEATS: usize = 2;

/// The pages of one keyspace.
///
/// Every operation ends within [`CqlTimeouts::operation`]. A caller that gives up earlier drops the future. A request that
/// was sent by then is done completely or not at all.
pub struct CqlStore {
    session: Arc<Session>,
    statements: Statements,
    random: Random,
    timeouts: CqlTimeouts,
    reads: Semaphore,
    writes: Semaphore,
}

/// No permit was free in time.
#[derive(Debug, Error)]
#[error("too many calls wait for the database")]
struct Overloaded;

/// No answer came in time.
#[derive(Debug, Error)]
#[error("the database did not answer in time")]
struct NoAnswerError;

/// The right to run one operation, and the time by which the operation must end.
struct Permit<'a> {
    deadline: Instant,
    _permit: SemaphorePermit<'a>,
}

impl CqlStore {
    /// A store on `session` in `keyspace`, which must have the current schema.
    pub async fn on(
        session: Arc<Session>,
        keyspace: &str,
        random: Random,
        timeouts: CqlTimeouts,
    ) -> Result<Self, PrepareError> {
        let statements = Statements::prepare(&session, keyspace, timeouts).await?;
        let permits = || Semaphore::new(timeouts.in_flight);
        Ok(Self { session, statements, random, timeouts, reads: permits(), writes: permits() })
    }

    async fn permit<'a>(&self, permits: &'a Semaphore) -> Result<Permit<'a>, StoreError> {
        let deadline = Instant::now() + self.timeouts.operation;
        match timeout(self.timeouts.permit, permits.acquire()).await {
            Ok(Ok(permit)) => Ok(Permit { deadline, _permit: permit }),
            _ => Err(StoreError::Unavailable(Box::new(Overloaded))),
        }
    }

    fn random_nonce(&self) -> Nonce {
        let mut nonce = Nonce::default();
        (&self.random).fill_bytes(&mut nonce);
        nonce
    }

    async fn run<V: SerializeRow>(&self, permit: &Permit<'_>, write: Write<'_, V>) -> Result<bool, StoreError> {
        let runner = LwtRunner {
            session: &self.session,
            read_nonces: &self.statements.read_nonces,
            timeouts: self.timeouts,
            random: &self.random,
            deadline: permit.deadline,
        };
        runner.run(&write).await
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
        let permit = self.permit(&self.writes).await?;
        let nonce = self.random_nonce();
        let classify = |row: Option<&NonceRow>| classify_insert(row, &page, &nonce);
        let write = Write {
            slug: &page.slug,
            statement: &self.statements.insert,
            values: rows::insert_values(&page, &nonce),
            classify: &classify,
        };
        Ok(if self.run(&permit, write).await? { InsertResult::Inserted } else { InsertResult::SlugTaken })
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let permit = self.permit(&self.reads).await?;
        let mut pauses = Pauses::new();
        let mut repeats = 0;
        loop {
            let failed = match timeout_at(permit.deadline, self.read_page(slug)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(ReadError::Unreadable(cause))) => return Err(StoreError::Unreadable(cause)),
                Ok(Err(ReadError::NoAnswer(cause))) => cause,
                Err(_) => return Err(StoreError::Unavailable(Box::new(NoAnswerError))),
            };
            // The node's connections may just have been cut, or all nodes that got the lookup may just have started.
            repeats += 1;
            if repeats > LOOKUP_REPEATS || Instant::now() >= permit.deadline {
                return Err(StoreError::Unavailable(failed));
            }
            sleep(pauses.next(&self.random)).await;
        }
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        let permit = self.permit(&self.writes).await?;
        let nonce = self.random_nonce();
        let made = match &next {
            Record::Active(page) => page.version,
            Record::Deleted(tombstone) => tombstone.version,
        };
        let classify = |row: Option<&NonceRow>| classify_replacement(row, expected, made, &nonce);
        let (slug, classify) = (next.slug(), &classify);
        let done = match &next {
            Record::Active(page) => {
                let values = rows::replace_values(expected, page, &nonce);
                self.run(&permit, Write { slug, statement: &self.statements.replace, values, classify }).await?
            }
            Record::Deleted(tombstone) => {
                let values = rows::delete_values(expected, tombstone, &nonce);
                self.run(&permit, Write { slug, statement: &self.statements.delete, values, classify }).await?
            }
        };
        Ok(if done { CasResult::Swapped } else { CasResult::Stale })
    }
}

/// The outcome of the insert of `page` with `nonce`, as `row` shows it.
fn classify_insert(row: Option<&NonceRow>, page: &Page, nonce: &Nonce) -> Verdict {
    match row {
        None => Verdict::NotYet,
        Some(row) if row.has_key(page.key_hash) || row.carries(page.version, nonce) => Verdict::Done,
        // A page that was changed still has its key. A tombstone has no key, and may have replaced our page.
        Some(row) if !row.is_active() && is_too_old(page.version, row) => Verdict::TooOld,
        Some(_) => Verdict::Refused,
    }
}

/// The outcome, as `row` shows it, of the write with `nonce` that replaces the version `expected` by `made`.
fn classify_replacement(row: Option<&NonceRow>, expected: PageVersion, made: PageVersion, nonce: &Nonce) -> Verdict {
    match row {
        Some(row) if row.carries(made, nonce) => Verdict::Done,
        Some(row) if row.is_active() && row.version() == Some(expected) => Verdict::NotYet,
        Some(row) if is_too_old(made, row) => Verdict::TooOld,
        // Rows are never removed, so if there is no row now, there was no page to replace.
        Some(_) | None => Verdict::Refused,
    }
}

/// Whether `row` no longer has the nonce of the write that made the version `made`, because many writes followed it.
fn is_too_old(made: PageVersion, row: &NonceRow) -> bool {
    row.version().is_none_or(|version| version.get() >= made.get().saturating_add(REMEMBERED_WRITES))
}
