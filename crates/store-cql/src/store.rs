//! [`PageStore`] over one session.

use std::sync::Arc;

use async_trait::async_trait;
use rand::Rng;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::serialize::row::SerializeRow;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::gate::{Gate, GateMetrics, Refusal};
use super::lwt::{LwtRunner, Verdict, Write};
use super::nonces::{Nonce, Nonces, TextId};
use super::operated_statements::OperatedStatements;
use super::permit::{NoTimeError, Permit};
use super::recent::{Base, RecentHeads};
use super::retry_budget::RetryBudget;
use super::rows::{HeadParameters, HeadRow, NonceRow, Over, StateRow, UnreadableRow};
use super::session::CqlTimeouts;
use super::statements::{Preparing, Statements};
use crate::domain::page::{Page, PageHead, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::slug_secret::SlugSecret;
use crate::domain::timestamp::UnixMillis;
use crate::metrics::ClusterMetrics;
use crate::ports::clock::{SharedClock, SystemClock};
use crate::ports::page_store::{Access, CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use crate::ports::random::Random;

/// The pages of one keyspace.
///
/// Every operation ends within [`CqlTimeouts::operation`], and shortly before its caller needs the answer, if the caller
/// says when that is. A caller that gives up earlier drops the future. A request that was sent by then is
/// done completely or not at all; at most it leaves a text that no head points to.
pub struct CqlStore {
    pub(super) session: Arc<Session>,
    pub(super) statements: Statements,
    pub(super) random: Random,
    pub(super) timeouts: CqlTimeouts,
    pub(super) retries: RetryBudget,
    pub(super) reads: Gate,
    pub(super) writes: Gate,
    /// For the work of operators, so that an export neither delays clients nor is refused because of them.
    background: Semaphore,
    pub(super) recent: RecentHeads,
    pub(super) clock: SharedClock,
    pub(super) operated: OperatedStatements,
    /// About how many records there are, and when that was found.
    pub(super) estimate: Mutex<Option<(Instant, u64)>>,
}

impl CqlStore {
    /// A store on `session` in `keyspace`, which must have the current schema.
    pub async fn on(
        session: Arc<Session>,
        keyspace: &str,
        random: Random,
        timeouts: CqlTimeouts,
    ) -> Result<Self, PrepareError> {
        let mut seed = [0; 8];
        (&random).fill_bytes(&mut seed);
        let (retries, seed) = (RetryBudget::new(), u64::from_le_bytes(seed));
        let preparing = Preparing::new(&session, timeouts, &retries);
        let statements = Statements::prepare(&preparing, keyspace).await?;
        let operated = OperatedStatements::prepare(&preparing, keyspace).await?;
        Ok(Self {
            reads: Gate::new(timeouts.of_reads(), timeouts.permit),
            writes: Gate::new(timeouts.of_writes(), timeouts.permit),
            background: Semaphore::new(timeouts.in_flight),
            session,
            statements,
            random,
            timeouts,
            retries,
            recent: RecentHeads::new(seed),
            clock: Arc::new(SystemClock::new()),
            operated,
            estimate: Mutex::default(),
        })
    }

    /// Tells the time by `clock`, which is the system's until then.
    #[must_use]
    pub fn with_clock(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }

    /// Counts in `metrics`.
    #[must_use]
    pub fn observed_by(self, metrics: &ClusterMetrics) -> Self {
        self.retries.count_in(metrics);
        Self {
            reads: self.reads.counted_in(GateMetrics::of(metrics, "read")),
            writes: self.writes.counted_in(GateMetrics::of(metrics, "write")),
            ..self
        }
    }

    pub(super) async fn background_permit(&self) -> Result<Permit<'_>, StoreError> {
        let deadline = self.timeouts.deadline(Instant::now(), None);
        match timeout(self.timeouts.permit, self.background.acquire()).await {
            Ok(Ok(permit)) => Ok(Permit::of_operator(deadline, permit)),
            _ => Err(StoreError::Unavailable(Box::new(Refusal::Overloaded))),
        }
    }

    /// The permit for an operation on `slug`, from `self.reads` or `self.writes`, whose answer is needed at `needed_by`.
    pub(super) async fn permit<'a>(
        &self,
        gate: &'a Gate,
        slug: &Slug,
        needed_by: Option<Instant>,
    ) -> Result<Permit<'a>, StoreError> {
        let now = Instant::now();
        let deadline = self.timeouts.deadline(now, needed_by);
        if deadline <= now {
            return Err(StoreError::Unavailable(Box::new(NoTimeError)));
        }
        match timeout_at(deadline, gate.enter(slug, self.statements.range_of(slug))).await {
            Ok(Ok(pass)) => Ok(Permit::of_page(deadline, pass)),
            Ok(Err(refusal)) => Err(StoreError::Unavailable(Box::new(refusal))),
            Err(_) => Err(StoreError::Unavailable(Box::new(NoTimeError))),
        }
    }

    pub(super) fn random_nonce(&self) -> Nonce {
        let mut nonce = Nonce::default();
        (&self.random).fill_bytes(&mut nonce);
        nonce
    }

    pub(super) async fn run<V: SerializeRow>(
        &self,
        permit: &Permit<'_>,
        write: Write<'_, V>,
    ) -> Result<bool, StoreError> {
        let runner = LwtRunner {
            session: &self.session,
            read_nonces: &self.statements.read_nonces,
            timeouts: self.timeouts,
            retries: &self.retries,
            random: &self.random,
            clock: &self.clock,
            deadline: permit.deadline,
        };
        runner.run(&write).await
    }

    pub(super) async fn read_head(&self, permit: &Permit<'_>, slug: &Slug) -> Result<Lookup<Base>, StoreError> {
        let Statements { read_head, scan_head, .. } = &self.statements;
        let read = if permit.is_of_operator() { scan_head } else { read_head };
        let row: Option<HeadRow> = self.first_row(permit, read, (slug.as_str(),)).await?;
        let Some(row) = row else { return Ok(Lookup::Absent) };
        let found = row.into_base(slug)?;
        if let Lookup::Active(base) = &found {
            self.recent.keep(base.clone());
        }
        Ok(found)
    }

    /// The head of `slug`. If it is the one that this process has seen last, only its state is read.
    async fn known_or_read_head(&self, permit: &Permit<'_>, slug: &Slug) -> Result<Lookup<Base>, StoreError> {
        let Some(known) = self.recent.get(slug) else { return self.read_head(permit, slug).await };
        let row: Option<StateRow> = self.first_row(permit, &self.statements.read_state, (slug.as_str(),)).await?;
        if row.is_some_and(|row| row.is_of(&known.head)) {
            return Ok(Lookup::Active(known));
        }
        // Otherwise every read of a page that another replica has deleted would take two requests.
        self.recent.forget(slug);
        self.read_head(permit, slug).await
    }

    /// The record under `slug`: its head, and the text that the head points to unless the page is hidden.
    pub(super) async fn record_under(&self, slug: &Slug, permit: &Permit<'_>) -> Result<Lookup, StoreError> {
        let mut gone = None;
        loop {
            let (head, text) = match self.read_head(permit, slug).await? {
                Lookup::Active(base) if base.head.hidden.is_some() => return Ok(Lookup::Hidden(Box::new(base.head))),
                Lookup::Active(base) => (base.head, base.text),
                Lookup::Hidden(head) => return Ok(Lookup::Hidden(head)),
                Lookup::Deleted(tombstone) => return Ok(Lookup::Deleted(tombstone)),
                Lookup::Absent => return Ok(Lookup::Absent),
            };
            if let Some(page) = self.read_text(permit, &head, text).await? {
                return Ok(Lookup::Active(page));
            }
            // Another request has replaced the text between the two reads. The next head then points to another.
            if gone == Some(text) {
                return Err(UnreadableRow::TextMissing.into());
            }
            gone = Some(text);
        }
    }

    /// The record under `slug`. Every interrupted write of its head is completed first.
    async fn settled_record(&self, permit: &Permit<'_>, slug: &Slug) -> Result<Lookup, StoreError> {
        match self.settled_head(permit, slug).await? {
            Lookup::Active(base) if base.head.hidden.is_some() => Ok(Lookup::Hidden(Box::new(base.head))),
            Lookup::Active(Base { head, text, .. }) => match self.read_text(permit, &head, text).await? {
                Some(page) => Ok(Lookup::Active(page)),
                // Another request has replaced the text since.
                None => self.record_under(slug, permit).await,
            },
            Lookup::Hidden(head) => Ok(Lookup::Hidden(head)),
            Lookup::Deleted(tombstone) => Ok(Lookup::Deleted(tombstone)),
            Lookup::Absent => Ok(Lookup::Absent),
        }
    }

    /// The page of `head`, hidden or not, unless it has changed since.
    pub(super) async fn page_of(&self, permit: &Permit<'_>, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        let text = match self.recent.text_at(&head.slug, head.state()) {
            Some(text) => text,
            // The page was changed, or so many others were read since.
            None => match self.read_head(permit, &head.slug).await? {
                Lookup::Active(base) if base.head.state() == head.state() => base.text,
                _ => return Ok(None),
            },
        };
        if let Some(page) = self.read_text(permit, head, text).await? {
            return Ok(Some(page));
        }
        match self.read_head(permit, &head.slug).await? {
            Lookup::Active(base) if base.text == text => Err(UnreadableRow::TextMissing.into()),
            // Another request has replaced the text since.
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl PageStore for CqlStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.read_slug_secret().await
    }

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        let permit = self.permit(&self.writes, &page.head.slug, needed_by).await?;
        if page.head.hidden.is_some() {
            self.begin_turn(&permit, &page.head).await?;
        }
        let nonce = self.random_nonce();
        let text = TextId { version: page.head.version, nonce };
        let inserted_at = self.insert_text(&permit, &page, &text).await?;
        let nonces = Nonces::first(nonce);
        let head = page.head.clone();
        let classify = |row: Option<&NonceRow>| Verdict::of_insert(row, &page, &nonce);
        let write = Write {
            slug: &page.head.slug,
            statement: &self.statements.create_head,
            values: HeadParameters::of_page(&head, text, &nonces, Over::Nothing),
            text_inserted_at: Some(inserted_at),
            classify: &classify,
        };
        if self.run(&permit, write).await? {
            if head.hidden.is_some() {
                self.end_turn(&permit, &head).await?;
            }
            self.recent.keep(Base { head, text, digest: Some(self.recent.digest(&page)), nonces });
            return Ok(InsertResult::Inserted);
        }
        self.delete_text(&permit, &page.head.slug, text, page.head.updated_at).await;
        // A text may be large, and the permits of reads bound how many arrive at once.
        drop(permit);
        let permit = self.permit(&self.reads, &page.head.slug, needed_by).await?;
        let found = self.settled_record(&permit, &page.head.slug).await?;
        InsertResult::refused(found)
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.record_under(slug, &self.permit(&self.reads, slug, None).await?).await
    }

    fn access(&self) -> Access {
        Access::HeadFirst
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        let permit = self.permit(&self.reads, slug, None).await?;
        Ok(match self.known_or_read_head(&permit, slug).await?.map(|base| base.head) {
            Lookup::Active(head) => head.into(),
            other => other,
        })
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        let permit = self.permit(&self.reads, &head.slug, None).await?;
        self.page_of(&permit, head).await
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        // A deletion is the newest write of its page, so its own time is late enough.
        self.swap(expected, None, next, UnixMillis::new(0), needed_by).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        let permit = self.permit(&self.writes, &tombstone.slug, None).await?;
        self.read_head(&permit, &tombstone.slug).await.map(|_readable| CasResult::Stale)
    }
}
