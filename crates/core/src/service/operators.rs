//! The operators' side of the service: they take pages down, hide and show them, look at them, and list the audit.
//!
//! Operators need no edit key and have no limits. The caller must have checked that it serves an operator.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::error::ServiceError;
use super::{StoreBudget, back_off, deadline, until};
use crate::domain::audit::{AuditAction, AuditEntry, NumberedEntry};
use crate::domain::page::{Page, PageHead, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::{Hiding, Takedown};
use crate::domain::timestamp::UnixMillis;
use crate::ports::audit_log::AuditLog;
use crate::ports::clock::SharedClock;
use crate::ports::page_scan::{PageScan, ScanCursor, ScanLimit};
use crate::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use crate::ports::random::Random;

/// The operators' side of the service. Cheap to clone.
#[derive(Clone)]
pub struct Operators {
    store: Arc<dyn PageStore>,
    audit: Arc<dyn AuditLog>,
    scan: Arc<dyn PageScan>,
    /// One batch at a time, so that looking for pages leaves the store and the cores to clients.
    scanning: Arc<Mutex<()>>,
    clock: SharedClock,
    random: Random,
}

/// The record under a slug, as operators see it.
#[derive(Clone, Debug)]
pub enum Found {
    /// There is the page, perhaps hidden.
    Page(Arc<Page>),
    Deleted(Tombstone),
    /// No page ever had this slug.
    Absent,
    /// There is a record that cannot be read, or a page whose text cannot: then its head is given.
    Unreadable(Option<Box<PageHead>>, Arc<StoreError>),
}

/// The outcome for a page that was to be taken down, hidden or shown again.
#[derive(Clone, Debug)]
pub enum ActOutcome {
    /// It was done now: the record that is there since, and the page, unless it could not be read.
    Done(Record, Option<Arc<Page>>),
    /// It is so, now or since earlier, but perhaps not in the ledger: a restore of an older backup could undo it. Trying again
    /// adds it. The page is as for [`Self::Done`].
    NotInLedger(Record, Option<Arc<Page>>, Arc<ServiceError>),
    /// There is the page, unless it cannot be read. A dry run changes nothing.
    WouldBeDone(Option<Arc<Page>>),
    /// It is so already, or the page was deleted before, by an operator or with its key. Nothing was changed.
    Already(Record),
    /// No page ever had this slug.
    NotFound,
    /// The record cannot be read, so it cannot be written with another state. It can be taken down.
    Unreadable(Arc<StoreError>),
}

/// The result of looking at one batch of records.
#[derive(Debug)]
pub struct Scanned {
    pub found: Vec<Arc<Page>>,
    /// Records in the batch, tombstones included.
    pub examined: usize,
    /// About how many records there are, if the store knows.
    pub total: Option<u64>,
    /// The names of records that cannot be read.
    pub unreadable: Vec<String>,
    /// The beginning of the next batch; `None` at the end.
    pub next: Option<ScanCursor>,
}

impl Operators {
    /// The operators' side of a service over these backends. `store` must be the one that the service uses, with all
    /// that is in front of it.
    pub fn new(
        store: Arc<dyn PageStore>,
        audit: Arc<dyn AuditLog>,
        scan: Arc<dyn PageScan>,
        clock: SharedClock,
        random: Random,
    ) -> Self {
        Self { store, audit, scan, scanning: Arc::default(), clock, random }
    }

    /// Deletes the page under `slug`, hidden or not, as its owner would, whatever its version, and keeps `takedown` in its tombstone
    /// and in the audit. A dry run only looks.
    ///
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may or may not have been taken down.
    /// Trying again is safe.
    pub async fn take_down(
        &self,
        slug: &Slug,
        takedown: &Takedown,
        is_dry_run: bool,
    ) -> Result<ActOutcome, ServiceError> {
        self.take_down_if(slug, is_dry_run, |_| Some(takedown.clone())).await
    }

    /// Does the same for a page that is hidden until `now` at the latest. To any other page it does nothing.
    pub async fn end_hiding(&self, slug: &Slug, now: UnixMillis) -> Result<ActOutcome, ServiceError> {
        let is_over = |hiding: &&Hiding| hiding.until <= now;
        let decide =
            |head: Option<&PageHead>| head?.hidden.as_deref().filter(is_over).map(|hiding| hiding.takedown.clone());
        self.take_down_if(slug, false, decide).await
    }

    /// Takes down the page under `slug` as `decide` says when it sees the head that is replaced, or that there is none which can be
    /// read; `None` changes nothing.
    async fn take_down_if(
        &self,
        slug: &Slug,
        is_dry_run: bool,
        decide: impl Fn(Option<&PageHead>) -> Option<Takedown>,
    ) -> Result<ActOutcome, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            loop {
                let mut store_budget = StoreBudget::new(deadline);
                let (head, page) = match self.found(slug, &mut store_budget).await? {
                    Found::Page(page) => (Some(page.head.clone()), Some(page)),
                    Found::Unreadable(head, _) => (head.map(|head| *head), None),
                    Found::Deleted(tombstone) => {
                        let outcome = ActOutcome::Already(Record::Deleted(tombstone));
                        return Ok(if is_dry_run { outcome } else { self.in_ledger(outcome, deadline).await });
                    }
                    Found::Absent => return Ok(ActOutcome::NotFound),
                };
                let Some(takedown) = decide(head.as_ref()).filter(|_| !is_dry_run) else {
                    return Ok(ActOutcome::WouldBeDone(page));
                };
                let now = self.clock.now();
                let tombstone = match &head {
                    Some(head) => head.taken_down(takedown.clone(), now),
                    None => Tombstone::of_unreadable(slug.clone(), takedown.clone(), now),
                };
                let record = Record::Deleted(tombstone.clone());
                let needed_by = Some(store_budget.needed_by());
                let swapped = match &head {
                    Some(head) => self.store.compare_and_set(head.version, record, needed_by),
                    None => self.store.delete_unreadable(tombstone.clone()),
                };
                match store_budget.wait(swapped).await {
                    Ok(CasResult::Swapped) => {
                        let outcome = ActOutcome::Done(Record::Deleted(tombstone), page);
                        return Ok(self.in_ledger(outcome, deadline).await);
                    }
                    // The page's owner changed or deleted it between the read and the write.
                    Ok(CasResult::Stale) => back_off(&self.random).await,
                    // The page may be deleted, and only the ledger lack it.
                    Err(error @ ServiceError::Store(StoreError::OutcomeUnknown(_))) => {
                        let found = StoreBudget::new(deadline).wait(self.store.lookup(slug)).await;
                        let Ok(Lookup::Deleted(tombstone)) = found else { return Err(error) };
                        // Its owner may have been faster.
                        let outcome = if tombstone.takedown.as_ref() == Some(&takedown) {
                            ActOutcome::Done(Record::Deleted(tombstone), page)
                        } else {
                            ActOutcome::Already(Record::Deleted(tombstone))
                        };
                        return Ok(self.in_ledger(outcome, deadline).await);
                    }
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Hides the page under `slug`, whatever its version, for the time after which it becomes the takedown, or shows it again
    /// if `hiding` is `None`; `by` is the operator. To everybody but operators a hidden page is deleted. The text and key
    /// stay. A dry run only looks.
    ///
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] it may or may not have been done. Trying again is
    /// safe.
    pub async fn hide(
        &self,
        slug: &Slug,
        hiding: Option<(&Takedown, Duration)>,
        by: &str,
        is_dry_run: bool,
    ) -> Result<ActOutcome, ServiceError> {
        let (deadline, slug_of_entry) = (deadline(), slug.clone());
        // The audit comes first: a change that nobody can account for must not happen.
        let mut action = Some(match hiding {
            Some((takedown, _)) => AuditAction::Hide { slug: slug_of_entry, reason: takedown.reason },
            None => AuditAction::Show { slug: slug_of_entry },
        });
        until(deadline, async {
            loop {
                let mut store_budget = StoreBudget::new(deadline);
                let page = match self.found(slug, &mut store_budget).await? {
                    Found::Page(page) => page,
                    Found::Deleted(tombstone) => return Ok(ActOutcome::Already(Record::Deleted(tombstone))),
                    Found::Absent => return Ok(ActOutcome::NotFound),
                    Found::Unreadable(_, reason) => return Ok(ActOutcome::Unreadable(reason)),
                };
                let is_so = page.head.hidden.is_some() == hiding.is_some();
                match (is_so, is_dry_run) {
                    (true, true) => return Ok(ActOutcome::Already(Record::Active(page))),
                    (true, false) => {
                        return Ok(self.in_ledger(ActOutcome::Already(Record::Active(page)), deadline).await);
                    }
                    (false, true) => return Ok(ActOutcome::WouldBeDone(Some(page))),
                    (false, false) => {}
                }
                if let Some(action) = action.take() {
                    self.record(by.to_owned(), action).await?;
                }
                let now = self.clock.now();
                let hidden =
                    hiding.map(|(takedown, time)| Hiding { takedown: takedown.clone(), until: now.after(time) });
                let head = page.head.turned(hidden, now);
                let next = Arc::new(Page { head, text: page.text.clone() });
                let record = Record::Active(Arc::clone(&next));
                let done = ActOutcome::Done(record.clone(), Some(Arc::clone(&next)));
                let mut store_budget = StoreBudget::new(deadline);
                let swapped = self.store.compare_and_set(page.head.version, record, Some(store_budget.needed_by()));
                match store_budget.wait(swapped).await {
                    Ok(CasResult::Swapped) => return Ok(self.in_ledger(done, deadline).await),
                    Ok(CasResult::Stale) => back_off(&self.random).await,
                    // It may be done, and only the ledger lack it.
                    Err(error @ ServiceError::Store(StoreError::OutcomeUnknown(_))) => {
                        let found = self.found(slug, &mut StoreBudget::new(deadline)).await;
                        let is_done = matches!(&found, Ok(Found::Page(page)) if page.head == next.head);
                        return if is_done { Ok(self.in_ledger(done, deadline).await) } else { Err(error) };
                    }
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// `outcome`, which leaves a record, once the ledger says so too.
    async fn in_ledger(&self, outcome: ActOutcome, deadline: Instant) -> ActOutcome {
        let (record, page) = match &outcome {
            ActOutcome::Done(record, page) => (record.clone(), page.clone()),
            ActOutcome::Already(Record::Active(page)) => (Record::Active(Arc::clone(page)), Some(Arc::clone(page))),
            ActOutcome::Already(record) => (record.clone(), None),
            _ => return outcome,
        };
        match StoreBudget::new(deadline).wait(self.store.ensure_in_ledger(&record)).await {
            Ok(()) => outcome,
            Err(error) => ActOutcome::NotInLedger(record, page, Arc::new(error)),
        }
    }

    /// The record under `slug`, of which a hidden page has its text too.
    async fn found(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<Found, ServiceError> {
        loop {
            let head = match store_budget.wait(self.store.lookup(slug)).await {
                Ok(Lookup::Active(page)) => return Ok(Found::Page(page)),
                Ok(Lookup::Hidden(head)) => head,
                Ok(Lookup::Deleted(tombstone)) => return Ok(Found::Deleted(tombstone)),
                Ok(Lookup::Absent) => return Ok(Found::Absent),
                Err(ServiceError::Store(error @ StoreError::Unreadable(_))) => {
                    return self.unreadable(slug, error, store_budget).await;
                }
                Err(error) => return Err(error),
            };
            // Another operator may have shown it or taken it down since.
            match store_budget.wait(self.store.page(&head)).await {
                Ok(Some(page)) => return Ok(Found::Page(page)),
                Ok(None) => {}
                Err(ServiceError::Store(error @ StoreError::Unreadable(_))) => {
                    return Ok(Found::Unreadable(Some(head), Arc::new(error)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The parts of the record under `slug` that can be read. Because of `error` it cannot be read as a whole.
    async fn unreadable(
        &self,
        slug: &Slug,
        error: StoreError,
        store_budget: &mut StoreBudget,
    ) -> Result<Found, ServiceError> {
        let head = match store_budget.wait(self.store.head(slug)).await {
            Ok(Lookup::Active(head)) => Some(Box::new(head)),
            Ok(Lookup::Hidden(head)) => Some(head),
            Ok(Lookup::Deleted(tombstone)) => return Ok(Found::Deleted(tombstone)),
            Ok(Lookup::Absent) => return Ok(Found::Absent),
            Err(ServiceError::Store(StoreError::Unreadable(_))) => None,
            Err(error) => return Err(error),
        };
        Ok(Found::Unreadable(head, Arc::new(error)))
    }

    pub async fn inspect(&self, slug: &Slug) -> Result<Found, ServiceError> {
        let deadline = deadline();
        until(deadline, self.found(slug, &mut StoreBudget::new(deadline))).await
    }

    /// The pages that are `wanted` among the records after `after`, or from the beginning. One call looks at one batch.
    pub async fn scan(
        &self,
        wanted: impl Fn(&Page) -> bool + Send + 'static,
        after: Option<ScanCursor>,
    ) -> Result<Scanned, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            let _alone = self.scanning.lock().await;
            let mut store_budget = StoreBudget::new(deadline);
            let batch = store_budget.wait(self.scan.scan(after.as_ref(), ScanLimit::DEFAULT)).await?;
            let total = store_budget.wait(self.scan.estimated_records()).await?;
            let examined = batch.records.len();
            let mut unreadable = Vec::new();
            let mut pages = Vec::new();
            for record in batch.records {
                match record {
                    Ok(Record::Active(page)) => pages.push(page),
                    Ok(Record::Deleted(_)) => {}
                    Err(fault) => unreadable.push(fault.name),
                }
            }
            // A pattern over megabytes of text would hold up the requests on this thread.
            let selecting = spawn_blocking(move || {
                pages.retain(|page| wanted(page));
                pages
            });
            let found = selecting.await.map_err(|panicked| StoreError::Unreadable(panicked.into()))?;
            Ok(Scanned { found, examined, total, unreadable, next: batch.next })
        })
        .await
    }

    /// Appends to the audit that `by` did `action` now.
    pub async fn record(&self, by: String, action: AuditAction) -> Result<(), ServiceError> {
        let entry = AuditEntry { at: self.clock.now(), by, action };
        StoreBudget::new(deadline()).wait(self.audit.append(entry)).await
    }

    /// The first entries of the audit after the number `after`, oldest first; none at its end.
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<NumberedEntry>, ServiceError> {
        StoreBudget::new(deadline()).wait(self.audit.list(after, limit)).await
    }
}
