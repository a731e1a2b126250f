//! The traits of a store, over one session.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use handbill_pages::ports::clock::{SharedClock, SystemClock};
use handbill_pages::ports::creates_switch::CreatesSwitch;
use handbill_pages::ports::page_import::PageImport;
use handbill_pages::ports::page_store::{
    CasResult, Cause, InsertResult, Lookup, NotReachedError, PageStore, Record, StoreError,
};
use handbill_pages::ports::random::Random;
use handbill_pages::values::hex;
use handbill_pages::values::page::{Page, PageHead, PageState, PageVersion, Tombstone};
use handbill_pages::values::slug::{Slug, SlugSecret};
use scylla::SerializeRow;
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::PrepareError;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::conditional::{self, Conditional, NO_ROW, NoAnswerError, new_id};
use super::journal::Act;
use super::row::{HeadRow, HeadValues, RowError, Text, WholeRow};
use super::session::Limits;
use super::settings::ScyllaConsistency;
use super::statements::Statements;
use super::write_ids::WriteIds;

pub(super) const SECRET: &str = "secret";
pub(super) const PAUSED: &str = "paused";
pub(super) const CONSISTENCY: &str = "consistency";

/// The pages of one keyspace.
///
/// Every operation ends within [`Limits::operation`], and shortly before `needed_by`. A request that was sent is done
/// completely or not at all. Until the store is connected, operations fail with [`StoreError::Unavailable`].
pub struct ScyllaStore {
    connected: OnceLock<Connected>,
    pub(super) limits: Limits,
    pub(super) random: Random,
    clock: SharedClock,
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

#[derive(SerializeRow)]
struct Create<'a> {
    #[scylla(flatten)]
    head: HeadValues<'a>,
    text: Vec<u8>,
}

#[derive(SerializeRow)]
struct Replace<'a> {
    #[scylla(flatten)]
    head: HeadValues<'a>,
    expected_revision: i64,
    expected_write_ids: &'a [u8],
}

#[derive(SerializeRow)]
struct ReplaceAll<'a> {
    #[scylla(flatten)]
    replace: Replace<'a>,
    text: Vec<u8>,
}

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

    pub async fn on(
        session: Arc<Session>,
        keyspace: &str,
        consistency: ScyllaConsistency,
        limits: Limits,
        random: Random,
    ) -> Result<Self, PrepareError> {
        let store = Self::new(limits, random, Arc::new(SystemClock::new()));
        store.prepare(session, keyspace, consistency).await?;
        Ok(store)
    }

    pub(super) async fn prepare(
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

    /// The request must be harmless to repeat.
    async fn send(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<QueryResult, StoreError> {
        let sending = Box::pin(self.connected()?.session.execute_unpaged(statement, values));
        let sending = async { sending.await.map_err(|error| StoreError::Unavailable(error.into())) };
        in_time(Instant::now() + self.limits.operation, sending).await
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
        self.first_row(&self.connected()?.statements.read_head, (slug.as_str(),)).await
    }

    async fn whole_row(&self, slug: &Slug) -> Result<Option<WholeRow>, StoreError> {
        let row = self.first_row(&self.connected()?.statements.read_all, (slug.as_str(),)).await?;
        match row {
            Some(row) if !WholeRow::is_whole(&row) => self.settled_row(slug).await,
            row => Ok(row),
        }
    }

    /// Completes interrupted writes first, so all columns are of one write.
    pub(super) async fn settled_row(&self, slug: &Slug) -> Result<Option<WholeRow>, StoreError> {
        tracing::debug!(%slug, "a repair of copies left out a text, so the row is read serially");
        self.first_row(&self.connected()?.statements.read_all_serially, (slug.as_str(),)).await
    }

    async fn found(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let Some(row) = self.whole_row(slug).await? else { return Ok(Lookup::Absent) };
        Ok(match row.1.head(slug)? {
            Lookup::Active(head) => Lookup::Active(row.page(head)?),
            Lookup::Hidden(head) => Lookup::Hidden(head),
            Lookup::Deleted(tombstone) => Lookup::Deleted(tombstone),
            Lookup::Absent => Lookup::Absent,
        })
    }

    async fn insert(&self, record: &Record, needed_by: Option<Instant>) -> Result<bool, StoreError> {
        let deadline = self.limits.deadline(needed_by);
        let _permit = permit(&self.writes, &self.limits, deadline).await?;
        let id = new_id(&self.random);
        let act = Act::of(record, false, id, self.clock.now());
        if act.is_some() && in_time(deadline, self.head_row(record.slug())).await?.is_some() {
            return Ok(false);
        }
        let text = Text::of(record)?;
        let (head, _) = HeadValues::new(record, &text, None, &WriteIds::default().with(id));
        let text = text.cell(head.revision)?;
        let statement = &self.connected()?.statements.create;
        self.write(Conditional { statement, values: Create { head, text }, id, expected: NO_ROW }, act, deadline).await
    }

    /// Only if `is_expected` holds for the stored head.
    async fn swap(
        &self,
        next: &Record,
        is_expected: impl Fn(&PageHead) -> bool + Send,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        let deadline = self.limits.deadline(needed_by);
        let _permit = permit(&self.writes, &self.limits, deadline).await?;
        let Some(base) = in_time(deadline, self.head_row(next.slug())).await? else { return Ok(CasResult::Stale) };
        match base.head(next.slug())? {
            Lookup::Active(head) if is_expected(&head) => {}
            Lookup::Hidden(head) if is_expected(&head) => {}
            _ => return Ok(CasResult::Stale),
        }
        let revision = base.revision.ok_or(RowError::Column("revision"))?;
        let write_ids = base.write_ids.as_deref().ok_or(RowError::Column("write_ids"))?;
        let id = new_id(&self.random);
        let act = Act::of(next, base.is_hidden(), id, self.clock.now());
        let text = Text::of(next)?;
        let ids = WriteIds::of_bytes(write_ids).with(id);
        let (head, has_new_text) = HeadValues::new(next, &text, Some(&base), &ids);
        let made = head.revision;
        let replace = Replace { head, expected_revision: revision, expected_write_ids: write_ids };
        let Statements { replace_head, replace_all, .. } = &self.connected()?.statements;
        let is_done = if has_new_text {
            let values = ReplaceAll { replace, text: text.cell(made)? };
            self.write(Conditional { statement: replace_all, values, id, expected: revision }, act, deadline).await?
        } else {
            self.write(Conditional { statement: replace_head, values: replace, id, expected: revision }, act, deadline)
                .await?
        };
        Ok(if is_done { CasResult::Swapped } else { CasResult::Stale })
    }

    /// The journal has `act` first.
    async fn write<V: SerializeRow>(
        &self,
        write: Conditional<'_, V>,
        act: Option<Act>,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        if let Some(act) = &act {
            in_time(deadline, self.write_journal(act)).await?;
        }
        let session = &self.connected()?.session;
        let done = conditional::run(session, write, &self.limits, &self.random, deadline).await;
        if let (Ok(false) | Err(StoreError::Unavailable(_)), Some(act)) = (&done, &act) {
            self.void_journal(act).await;
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

async fn in_time<T>(deadline: Instant, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
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

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        let record = Record::Active(page);
        if self.insert(&record, needed_by).await? {
            return Ok(InsertResult::Inserted);
        }
        // The row behind the refusal was committed at a quorum before.
        InsertResult::refused(self.lookup(record.slug()).await?)
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let _permit = self.read_permit().await?;
        self.found(slug).await
    }

    fn system(&self) -> Option<&'static str> {
        Some("cassandra")
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        let _permit = self.read_permit().await?;
        Ok(self.head_row(slug).await?.map_or(Ok(Lookup::Absent), |row| row.head(slug))?)
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        let _permit = self.read_permit().await?;
        let Some(row) = self.whole_row(&head.slug).await? else { return Ok(None) };
        Ok(match row.1.head(&head.slug)? {
            Lookup::Active(found) if found.state() == head.state() => Some(row.page(found)?),
            Lookup::Hidden(found) if found.state() == head.state() => Some(row.page(*found)?),
            _ => None,
        })
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.swap(&next, |head| head.version == expected, needed_by).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        self.head(&tombstone.slug).await.map(|_readable| CasResult::Stale)
    }
}

#[async_trait]
impl PageImport for ScyllaStore {
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone) -> Result<bool, StoreError> {
        self.insert(&Record::Deleted(tombstone), None).await
    }

    async fn replace(&self, expected: PageState, next: Record) -> Result<CasResult, StoreError> {
        self.swap(&next, |head| head.state() == expected, None).await
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
        let statement = &self.connected()?.statements.change_setting;
        let write =
            Conditional { statement, values: (paused.to_string(), PAUSED), id: new_id(&self.random), expected: NO_ROW };
        if self.write(write, None, deadline).await? {
            return Ok(());
        }
        Err(StoreError::Unavailable("there is no switch of creates: run `handbill migrate`".into()))
    }
}
