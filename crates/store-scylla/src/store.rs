//! The traits of a store, over one session.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use handbill_pages::ports::operated_store::{ExportedJournal, OperatedStore};
use handbill_pages::ports::page_store::{CreatesSwitch, Expected, NotReachedError, PageStore, PutResult, StoreError};
use handbill_pages::ports::{clock::SharedClock, random::Random};
use handbill_pages::values::head::{PageHead, State};
use handbill_pages::values::slug::{Slug, SlugSecret};
use handbill_pages::values::{hex, journal::Line, record::Record, timestamp::UnixMillis};
use scylla::{client::session::Session, errors::PrepareError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::conditional_write::{self, Conditional, NO_ROW, new_id};
use super::connected::{Connected, before_deadline, unavailable};
use super::row::{HeadRow, Statements, WritePage};
use super::{journal::JournalEntry, session::Limits, settings::ScyllaConsistency};

pub(super) const SECRET: &str = "secret";
pub(super) const PAUSED: &str = "paused";
pub(super) const CONSISTENCY: &str = "consistency";
pub(super) const DATACENTER: &str = "datacenter";

/// The pages of one keyspace.
///
/// Every operation ends within [`Limits::operation`], and shortly before `needed_by`. A request that was sent is done
/// completely or not at all. Until the store is connected, operations fail with [`StoreError::Unavailable`].
pub struct ScyllaStore {
    connected: OnceLock<Arc<Connected>>,
    pub(super) limits: Limits,
    random: Random,
    clock: SharedClock,
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

impl ScyllaStore {
    pub fn new(limits: Limits, random: Random, clock: SharedClock) -> Self {
        let [reads, writes] = [limits.reads, limits.writes].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { connected: OnceLock::new(), limits, random, clock, reads, writes }
    }

    /// Connects this store with `keyspace`, which must have the current schema, unless it is connected.
    pub async fn prepare(
        &self,
        session: Arc<Session>,
        keyspace: &str,
        consistency: ScyllaConsistency,
    ) -> Result<(), PrepareError> {
        let limits = self.limits;
        let statements = Statements::prepare(&session, keyspace, consistency, &limits).await?;
        let _ = self.connected.set(Arc::new(Connected { session, statements, limits }));
        Ok(())
    }

    pub(super) fn connected(&self) -> Result<&Arc<Connected>, StoreError> {
        self.connected.get().ok_or_else(|| unavailable(NotReachedError))
    }

    pub(super) async fn read_permit(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        self.permit(&self.reads, Instant::now() + self.limits.operation).await
    }

    async fn permit(&self, of: &Arc<Semaphore>, deadline: Instant) -> Result<OwnedSemaphorePermit, StoreError> {
        let until = deadline.min(Instant::now() + self.limits.permit);
        match timeout_at(until, Arc::clone(of).acquire_owned()).await {
            Ok(Ok(permit)) if Instant::now() < deadline => Ok(permit),
            _ => Err(unavailable("too many operations on the database are running")),
        }
    }

    /// Puts `next` in the place of `base`, or of no row, if that is still so. The journal has an act first.
    ///
    /// A task of its own, because its caller may go away: the act of a line that nobody settles costs each export a look at its page.
    async fn write(
        &self,
        next: &Record,
        (base, was_hidden): (Option<HeadRow>, bool),
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let (connected, random) = (Arc::clone(self.connected()?), self.random.clone());
        let id = new_id(&random);
        let entry = JournalEntry::of(next, was_hidden, id, self.clock.now());
        let values = WritePage::new(next, base, id).map_err(unavailable)?;
        let write = async move {
            let _permit = permit;
            let done = async {
                if let Some(entry) = &entry {
                    before_deadline(deadline, connected.write_journal(entry)).await?;
                }
                let expected = values.expected_revision.unwrap_or(NO_ROW);
                let write = Conditional { statement: &connected.statements.write_page, values, id, expected };
                conditional_write::run(&connected, write, &random, deadline).await
            };
            let done = done.await;
            let is_done = match &done {
                Ok(is_done) => *is_done,
                Err(StoreError::Unavailable(_)) => false,
                // The exports look at the page.
                Err(_) => return done,
            };
            if let Some(entry) = entry {
                let settling = tokio::spawn(async move { connected.settle(&entry, is_done).await });
                // That an act was done only saves the exports a look at its page.
                if !is_done {
                    let _ = timeout_at(deadline, settling).await;
                }
            }
            done
        };
        let done = tokio::spawn(write.in_current_span()).await;
        done.unwrap_or_else(|panicked| Err(StoreError::OutcomeUnknown(panicked.into())))
    }
}

#[async_trait]
impl PageStore for ScyllaStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        let secret = self.connected()?.setting(SECRET).await?;
        let bytes = secret.and_then(|digits| hex::decode(&digits)?.try_into().ok());
        let bytes = bytes.ok_or_else(|| unavailable("there is no secret for slugs: run `handbill migrate`"))?;
        Ok(SlugSecret::from_bytes(bytes))
    }

    async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        let _permit = self.read_permit().await?;
        self.connected()?.record(slug).await
    }

    fn system(&self) -> Option<&'static str> {
        Some("cassandra")
    }

    async fn head(&self, slug: &Slug) -> Result<Option<Record<PageHead>>, StoreError> {
        let _permit = self.read_permit().await?;
        let row = self.connected()?.head_row(slug).await?;
        let head = row.map_or(Ok(None), |row| row.head(slug)).map_err(StoreError::Unreadable)?;
        Ok(head.map(Record::from))
    }

    async fn put(&self, expected: Expected, next: Record, needed_by: Option<Instant>) -> Result<PutResult, StoreError> {
        let deadline = self.limits.deadline(needed_by);
        let permit = self.permit(&self.writes, deadline).await?;
        let base = match expected {
            // The journal gets no act on a slug that is taken.
            Expected::Absent if Line::of(&next, false).is_none() => None,
            _ => before_deadline(deadline, self.connected()?.head_row(next.slug())).await?,
        };
        let head = base.as_ref().filter(|_| expected != Expected::Absent);
        let head = head.map_or(Ok(None), |row| row.head(next.slug())).map_err(StoreError::Unreadable)?;
        let is_as_expected = match (expected, &head) {
            (Expected::Absent, _) => base.is_none(),
            (Expected::State(..), Some(head)) => head.live().is_some() && Expected::page(head) == expected,
            (Expected::State(..), None) | (Expected::Unreadable, _) => false,
        };
        let was_hidden = head.is_some_and(|head| matches!(head.state, State::Hidden(..)));
        let is_done = is_as_expected && self.write(&next, (base, was_hidden), permit, deadline).await?;
        Ok(if is_done { PutResult::Done } else { PutResult::Refused })
    }
}

#[async_trait]
impl CreatesSwitch for ScyllaStore {
    async fn paused(&self) -> Result<bool, StoreError> {
        let _permit = self.read_permit().await?;
        Ok(self.connected()?.setting(PAUSED).await? == Some(true.to_string()))
    }

    async fn set_paused(&self, paused: bool) -> Result<(), StoreError> {
        let deadline = self.limits.deadline(None);
        let _permit = self.permit(&self.writes, deadline).await?;
        let connected = self.connected()?;
        let (statement, values) = (&connected.statements.change_setting, (paused.to_string(), PAUSED));
        let write = Conditional { statement, values, id: new_id(&self.random), expected: NO_ROW };
        let is_there = conditional_write::run(connected, write, &self.random, deadline).await?;
        is_there.then_some(()).ok_or_else(|| unavailable("there is no switch of creates: run `handbill migrate`"))
    }
}

#[async_trait]
impl OperatedStore for ScyllaStore {
    async fn journal(&self, since: Option<UnixMillis>) -> Result<ExportedJournal, StoreError> {
        self.connected()?.journal(since, self.clock.now()).await
    }
}
