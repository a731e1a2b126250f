//! The operators' operations, without edit keys and limits. The caller must have checked that it serves an operator.

use std::sync::Arc;

use super::error::ServiceError;
use super::{SharedStore, StoreBudget, back_off, deadline, until};
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{Expected, Lookup, PutResult, Record, StoreError};
use crate::ports::random::Random;
use crate::values::page::{Page, PageHead, Tombstone};
use crate::values::slug::Slug;
use crate::values::takedown::Takedown;

#[derive(Clone)]
pub struct Operators {
    store: SharedStore,
    clock: SharedClock,
    random: Random,
}

#[derive(Clone, Debug)]
pub enum Found {
    Page(Arc<Page>),
    Deleted(Tombstone),
    Absent,
    /// The head is there if only the text cannot be read.
    Unreadable(Option<Box<PageHead>>, Arc<StoreError>),
}

#[derive(Clone, Debug)]
pub enum ActOutcome {
    Done(Record),
    /// Nothing changed: it was so already, or the page was deleted.
    Already(Record),
    NotFound,
    /// Such a page can only be taken down.
    Unreadable(Arc<StoreError>),
}

impl Operators {
    pub fn new(store: SharedStore, clock: SharedClock, random: Random) -> Self {
        Self { store, clock, random }
    }

    /// In any version, hidden or not. Trying again after an error is safe.
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
                let expected = head.map_or(Expected::Unreadable, |head| Expected::Version(head.version));
                let record = Record::Deleted(tombstone.clone());
                let swapped = self.store.put(expected, record, Some(store_budget.needed_by()));
                match store_budget.wait(swapped).await {
                    Ok(PutResult::Done) => {
                        return Ok(ActOutcome::Done(Record::Deleted(tombstone)));
                    }
                    // The page's owner changed or deleted it between the read and the write.
                    Ok(PutResult::Refused) => back_off(&self.random).await,
                    Err(error @ ServiceError::Store(StoreError::OutcomeUnknown(_))) => {
                        let found = StoreBudget::new(deadline).wait(self.store.lookup(slug)).await;
                        let Ok(Lookup::Deleted(tombstone)) = found else { return Err(error) };
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

    /// In any version; shows the page again without `hiding`. Trying again after an error is safe.
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
                let swapped =
                    self.store.put(Expected::Version(page.head.version), record, Some(store_budget.needed_by()));
                match store_budget.wait(swapped).await {
                    Ok(PutResult::Done) => return Ok(done),
                    Ok(PutResult::Refused) => back_off(&self.random).await,
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

    async fn found(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<Found, ServiceError> {
        match store_budget.wait(self.store.lookup(slug)).await {
            Ok(Lookup::Active(page) | Lookup::Hidden(page)) => Ok(Found::Page(page)),
            Ok(Lookup::Deleted(tombstone)) => Ok(Found::Deleted(tombstone)),
            Ok(Lookup::Absent) => Ok(Found::Absent),
            Err(ServiceError::Store(error @ StoreError::Unreadable(_))) => {
                self.unreadable(slug, error, store_budget).await
            }
            Err(error) => Err(error),
        }
    }

    async fn unreadable(
        &self,
        slug: &Slug,
        error: StoreError,
        store_budget: &mut StoreBudget,
    ) -> Result<Found, ServiceError> {
        let head = match store_budget.wait(self.store.head(slug)).await {
            Ok(Lookup::Active(head) | Lookup::Hidden(head)) => Some(Box::new(head)),
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
