//! The operators' side of the service: they take pages down, hide and show them, and look at them.
//!
//! Operators need no edit key and have no limits. The caller must have checked that it serves an operator.

use std::sync::Arc;

use super::error::ServiceError;
use super::{SharedStore, StoreBudget, back_off, deadline, until};
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{CasResult, Lookup, Record, StoreError};
use crate::ports::random::Random;
use crate::values::page::{Page, PageHead, Tombstone};
use crate::values::slug::Slug;
use crate::values::takedown::Takedown;

/// The operators' side of the service. Cheap to clone.
#[derive(Clone)]
pub struct Operators {
    store: SharedStore,
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
    /// It was done now: the record that is there since.
    Done(Record),
    /// It is so already, or the page was deleted before, by an operator or with its key. Nothing was changed.
    Already(Record),
    /// No page ever had this slug.
    NotFound,
    /// The record cannot be read, so it cannot be written with another state. It can be taken down.
    Unreadable(Arc<StoreError>),
}

impl Operators {
    /// The operators' side of a service over `store`.
    pub fn new(store: SharedStore, clock: SharedClock, random: Random) -> Self {
        Self { store, clock, random }
    }

    /// Deletes the page under `slug`, hidden or not, as its owner would, whatever its version, and keeps `takedown` in its tombstone.
    ///
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may or may not have been taken down.
    /// Trying again is safe.
    pub async fn take_down(&self, slug: &Slug, takedown: &Takedown) -> Result<ActOutcome, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            loop {
                let mut store_budget = StoreBudget::new(deadline);
                let head = match self.found(slug, &mut store_budget).await? {
                    Found::Page(page) => Some(page.head.clone()),
                    Found::Unreadable(head, _) => head.map(|head| *head),
                    Found::Deleted(tombstone) => {
                        return Ok(ActOutcome::Already(Record::Deleted(tombstone)));
                    }
                    Found::Absent => return Ok(ActOutcome::NotFound),
                };
                let now = self.clock.now();
                let tombstone = match &head {
                    Some(head) => head.taken_down(takedown.clone(), now),
                    None => Tombstone::of_unreadable(slug.clone(), takedown.clone(), now),
                };
                let record = Record::Deleted(tombstone.clone());
                let needed_by = Some(store_budget.needed_by());
                let swapped = async {
                    match &head {
                        Some(head) => self.store.compare_and_set(head.version, record, needed_by).await,
                        None => self.store.delete_unreadable(tombstone.clone()).await,
                    }
                };
                match store_budget.wait(swapped).await {
                    Ok(CasResult::Swapped) => {
                        return Ok(ActOutcome::Done(Record::Deleted(tombstone)));
                    }
                    // The page's owner changed or deleted it between the read and the write.
                    Ok(CasResult::Stale) => back_off(&self.random).await,
                    Err(error @ ServiceError::Store(StoreError::OutcomeUnknown(_))) => {
                        let found = StoreBudget::new(deadline).wait(self.store.lookup(slug)).await;
                        let Ok(Lookup::Deleted(tombstone)) = found else { return Err(error) };
                        // Its owner may have been faster.
                        let is_ours = tombstone.takedown.as_ref() == Some(takedown);
                        let record = Record::Deleted(tombstone);
                        let outcome = if is_ours { ActOutcome::Done(record) } else { ActOutcome::Already(record) };
                        return Ok(outcome);
                    }
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Hides the page under `slug`, whatever its version, or shows it again if `hiding` is `None`. To everyone but operators
    /// a hidden page is deleted. Its text and key stay.
    ///
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] it may or may not have been done. Trying again is
    /// safe.
    pub async fn hide(&self, slug: &Slug, hiding: Option<&Takedown>) -> Result<ActOutcome, ServiceError> {
        let deadline = deadline();
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
                if is_so {
                    return Ok(ActOutcome::Already(Record::Active(page)));
                }
                let now = self.clock.now();
                let head = page.head.turned(hiding.cloned(), now);
                let next = Arc::new(Page { head, text: page.text.clone() });
                let record = Record::Active(Arc::clone(&next));
                let done = ActOutcome::Done(record.clone());
                let mut store_budget = StoreBudget::new(deadline);
                let swapped = self.store.compare_and_set(page.head.version, record, Some(store_budget.needed_by()));
                match store_budget.wait(swapped).await {
                    Ok(CasResult::Swapped) => return Ok(done),
                    Ok(CasResult::Stale) => back_off(&self.random).await,
                    Err(error @ ServiceError::Store(StoreError::OutcomeUnknown(_))) => {
                        let found = self.found(slug, &mut StoreBudget::new(deadline)).await;
                        let is_done = matches!(&found, Ok(Found::Page(page)) if page.head == next.head);
                        return if is_done { Ok(done) } else { Err(error) };
                    }
                    Err(error) => return Err(error),
                }
            }
        })
        .await
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
}
