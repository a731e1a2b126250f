//! The traits of a store, over one session.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::page_store::{
    Cause, CreatesSwitch, Expected, NotReachedError, PageStore, PutResult, StoreError,
};
use handbill_pages::ports::random::Random;
use handbill_pages::values::head::{Head, PageHead, State};
use handbill_pages::values::hex;
use handbill_pages::values::record::{Lookup, Record};
use handbill_pages::values::slug::{Slug, SlugSecret};
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::PrepareError;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::conditional_write::{self, Conditional, NO_ROW, NoAnswerError, new_id};
use super::journal::{JournalEntry, OpenLine};
use super::row::{HeadRow, Statements, WholeRow, WritePage};
use super::session::Limits;
use super::settings::ScyllaConsistency;

pub(super) const SECRET: &str = "secret";
pub(super) const PAUSED: &str = "paused";
pub(super) const CONSISTENCY: &str = "consistency";
pub(super) const DATACENTER: &str = "datacenter";

/// The pages of one keyspace.
///
/// Every operation ends within [`Limits::operation`], and shortly before `needed_by`. A request that was sent is done
/// completely or not at all. Until the store is connected, operations fail with [`StoreError::Unavailable`].
pub struct ScyllaStore {
    connected: OnceLock<Connected>,
    pub(super) limits: Limits,
    pub(super) random: Random,
    pub(super) clock: SharedClock,
    reads: Semaphore,
    writes: Semaphore,
}

pub(super) struct Connected {
    pub(super) session: Arc<Session>,
    pub(super) statements: Statements,
}

#[derive(Debug, Error)]
#[error("too many operations on the database are running")]
struct Overloaded;

impl ScyllaStore {
    pub fn new(limits: Limits, random: Random, clock: SharedClock) -> Self {
        Self {
            connected: OnceLock::new(),
            limits,
            random,
            clock,
            reads: Semaphore::new(limits.reads),
            writes: Semaphore::new(limits.writes),
        }
    }

    /// Connects this store with `keyspace`, which must have the current schema, unless it is connected.
    pub async fn prepare(
        &self,
        session: Arc<Session>,
        keyspace: &str,
        consistency: ScyllaConsistency,
    ) -> Result<(), PrepareError> {
        let statements = Statements::prepare(&session, keyspace, consistency, &self.limits).await?;
        let _ = self.connected.set(Connected { session, statements });
        Ok(())
    }

    pub(super) fn connected(&self) -> Result<&Connected, StoreError> {
        self.connected.get().ok_or_else(|| StoreError::Unavailable(NotReachedError.into()))
    }

    pub(super) async fn read_permit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        permit(&self.reads, &self.limits, Instant::now() + self.limits.operation).await
    }

    /// Sends a request, which must be harmless to repeat.
    async fn send(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<QueryResult, StoreError> {
        let sending = Box::pin(self.connected()?.session.execute_unpaged(statement, values));
        let sending = async { sending.await.map_err(|error| StoreError::Unavailable(error.into())) };
        before_deadline(Instant::now() + self.limits.operation, sending).await
    }

    pub(super) async fn execute(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), StoreError> {
        self.send(statement, values).await.map(drop)
    }

    pub(super) async fn first_row<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Option<R>, StoreError>
    where
        R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
    {
        let unreadable = |cause: Cause| StoreError::Unreadable(cause);
        let answer = self.send(statement, values).await?;
        let rows = answer.into_rows_result().map_err(|error| unreadable(error.into()))?;
        rows.maybe_first_row().map_err(|error| unreadable(error.into()))
    }

    async fn head_row(&self, slug: &Slug) -> Result<Option<HeadRow>, StoreError> {
        let row = self.first_row(&self.connected()?.statements.read_head, (slug.as_str(),)).await?;
        match row {
            Some(row) if !HeadRow::is_whole(&row) => Ok(self.settled_row(slug).await?.map(WholeRow::into_head)),
            row => Ok(row),
        }
    }

    async fn whole_row(&self, slug: &Slug) -> Result<Option<WholeRow>, StoreError> {
        let row = self.first_row(&self.connected()?.statements.read_all, (slug.as_str(),)).await?;
        match row {
            Some(row) if !WholeRow::is_whole(&row) => self.settled_row(slug).await,
            row => Ok(row),
        }
    }

    /// Reads a row serially, which completes interrupted writes first, so all columns are of one write.
    pub(super) async fn settled_row(&self, slug: &Slug) -> Result<Option<WholeRow>, StoreError> {
        tracing::debug!(%slug, "a repair of copies left out some columns, so the row is read serially");
        self.first_row(&self.connected()?.statements.read_all_serially, (slug.as_str(),)).await
    }

    async fn insert(&self, record: &Record, needed_by: Option<Instant>) -> Result<bool, StoreError> {
        let deadline = self.limits.deadline(needed_by);
        let _permit = permit(&self.writes, &self.limits, deadline).await?;
        // The journal gets no act on a slug that is taken.
        let is_act = record.journal_line(false).is_some();
        if is_act && before_deadline(deadline, self.head_row(record.slug())).await?.is_some() {
            return Ok(false);
        }
        self.write(record, None, deadline).await
    }

    /// Stores `next` in place of the page with the same slug, if that is as `expected`; says whether it is stored.
    async fn swap(&self, next: &Record, expected: Expected, needed_by: Option<Instant>) -> Result<bool, StoreError> {
        let deadline = self.limits.deadline(needed_by);
        let _permit = permit(&self.writes, &self.limits, deadline).await?;
        let Some(base) = before_deadline(deadline, self.head_row(next.slug())).await? else { return Ok(false) };
        match base.head(next.slug())? {
            Some(head) if head.live().is_some() && Expected::page(&head) == expected => {
                self.write(next, Some((&base, &head)), deadline).await
            }
            _ => Ok(false),
        }
    }

    /// Puts `next` in the place of `base`, or of no row, if that is still so. The journal has an act first.
    async fn write(
        &self,
        next: &Record,
        base: Option<(&HeadRow, &Head)>,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let Connected { session, statements } = self.connected()?;
        let id = new_id(&self.random);
        let values = WritePage::new(next, base.map(|(row, _)| row), id)?;
        let was_hidden = base.is_some_and(|(_, head)| matches!(head.state, State::Hidden(..)));
        let entry = JournalEntry::of(next, was_hidden, id, self.clock.now());
        // From here on the line is taken back if this fails, or if its caller goes away.
        let mut line = entry.map(|entry| OpenLine::new(session, statements, entry));
        if let Some(line) = &line {
            before_deadline(deadline, self.write_journal(line.entry())).await?;
        }
        // Whoever goes away during the write does not know what it does.
        line.iter_mut().for_each(OpenLine::leave_open);
        let expected = values.expected_revision.unwrap_or(NO_ROW);
        let write = Conditional { statement: &statements.write_page, values, id, expected };
        let done = conditional_write::run(session, write, &self.limits, &self.random, deadline).await;
        match (&done, line) {
            // It saves the exports a look at the page.
            (Ok(true), Some(line)) => drop(line.settle(true)),
            (Ok(false) | Err(StoreError::Unavailable(_)), Some(line)) => {
                let _ = timeout_at(deadline, line.settle(false)).await;
            }
            _ => {}
        }
        done
    }

    /// `None` before `handbill migrate`.
    pub(super) async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let row: Option<(Option<String>,)> =
            self.first_row(&self.connected()?.statements.read_setting, (name,)).await?;
        Ok(row.and_then(|(value,)| value))
    }
}

async fn before_deadline<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| Err(StoreError::Unavailable(NoAnswerError.into())))
}

async fn permit<'a>(
    semaphore: &'a Semaphore,
    limits: &Limits,
    deadline: Instant,
) -> Result<SemaphorePermit<'a>, StoreError> {
    match timeout_at(deadline.min(Instant::now() + limits.permit), semaphore.acquire()).await {
        Ok(Ok(permit)) if Instant::now() < deadline => Ok(permit),
        _ => Err(StoreError::Unavailable(Overloaded.into())),
    }
}

#[async_trait]
impl PageStore for ScyllaStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        let bytes = self.setting(SECRET).await?.and_then(|digits| hex::decode(&digits)?.try_into().ok());
        let missing = || StoreError::Unavailable("there is no secret for slugs: run `handbill migrate`".into());
        bytes.map(SlugSecret::from_bytes).ok_or_else(missing)
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let _permit = self.read_permit().await?;
        Ok(self.whole_row(slug).await?.map_or(Ok(None), |row| row.into_record(slug))?.into())
    }

    fn system(&self) -> Option<&'static str> {
        Some("cassandra")
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        let _permit = self.read_permit().await?;
        Ok(self.head_row(slug).await?.map_or(Ok(Lookup::Absent), |row| row.lookup(slug))?)
    }

    async fn put(&self, expected: Expected, next: Record, needed_by: Option<Instant>) -> Result<PutResult, StoreError> {
        let is_done = match expected {
            Expected::Absent => self.insert(&next, needed_by).await?,
            Expected::State(..) => self.swap(&next, expected, needed_by).await?,
            Expected::Unreadable => self.head(next.slug()).await.map(|_readable| false)?,
        };
        Ok(if is_done { PutResult::Done } else { PutResult::Refused })
    }
}

#[async_trait]
impl CreatesSwitch for ScyllaStore {
    async fn paused(&self) -> Result<bool, StoreError> {
        let _permit = self.read_permit().await?;
        Ok(self.setting(PAUSED).await? == Some(true.to_string()))
    }

    async fn set_paused(&self, paused: bool) -> Result<(), StoreError> {
        let deadline = self.limits.deadline(None);
        let _permit = permit(&self.writes, &self.limits, deadline).await?;
        let connected = self.connected()?;
        let statement = &connected.statements.change_setting;
        let values = (paused.to_string(), PAUSED);
        let id = new_id(&self.random);
        let write = Conditional { statement, values, id, expected: NO_ROW };
        let is_there = conditional_write::run(&connected.session, write, &self.limits, &self.random, deadline).await?;
        let missing = || StoreError::Unavailable("there is no switch of creates: run `handbill migrate`".into());
        is_there.then_some(()).ok_or_else(missing)
    }
}
