//! The operators' operations, without edit keys and limits. The caller must have checked that it serves an operator.

use std::sync::Arc;

use super::SharedStore;
use super::error::ServiceError;
use super::time_limits::{StoreBudget, back_off, deadline, until};
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{Expected, Lookup, PutResult, Record, StoreError};
use crate::ports::random::Random;
use crate::values::page::{Page, PageHead, Tombstone};
use crate::values::slug::Slug;
use crate::values::takedown::Takedown;
use crate::values::timestamp::UnixMillis;

#[derive(Clone)]
pub struct Moderation {
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
    /// It was so already, or the page was deleted.
    Already(Record),
    NotFound,
    Unreadable(Arc<StoreError>),
}

/// Is done to any version of a page.
#[derive(Clone, Copy)]
enum Change<'a> {
    TakeDown(&'a Takedown),
    /// `None` shows the page again.
    SetHidden(Option<&'a Takedown>),
}

impl Change<'_> {
    /// The condition and the record of the write, or the outcome if nothing is to be written.
    fn next(self, slug: &Slug, found: Found, now: UnixMillis) -> Result<(Expected, Record), ActOutcome> {
        match (self, found) {
            (_, Found::Absent) => Err(ActOutcome::NotFound),
            (_, Found::Deleted(tombstone)) => Err(ActOutcome::Already(Record::Deleted(tombstone))),
            (Self::SetHidden(_), Found::Unreadable(_, reason)) => Err(ActOutcome::Unreadable(reason)),
            (Self::SetHidden(hiding), Found::Page(page)) if page.head.hidden.is_some() == hiding.is_some() => {
                Err(ActOutcome::Already(Record::Active(page)))
            }
            (Self::SetHidden(hiding), Found::Page(page)) => {
                let head = page.head.with_hidden(hiding.cloned(), now);
                let next = Page { head, text: page.text.clone() };
                Ok((Expected::Version(page.head.version), Record::Active(Arc::new(next))))
            }
            (Self::TakeDown(takedown), Found::Page(page)) => Ok(taken_down(&page.head, takedown, now)),
            (Self::TakeDown(takedown), Found::Unreadable(Some(head), _)) => Ok(taken_down(&head, takedown, now)),
            (Self::TakeDown(takedown), Found::Unreadable(None, _)) => {
                let tombstone = Tombstone::of_unreadable(slug.clone(), takedown.clone(), now);
                Ok((Expected::Unreadable, Record::Deleted(tombstone)))
            }
        }
    }
}

fn taken_down(head: &PageHead, takedown: &Takedown, now: UnixMillis) -> (Expected, Record) {
    (Expected::Version(head.version), Record::Deleted(head.taken_down(takedown.clone(), now)))
}

/// The outcome of a write of `record` that the store did not confirm, after a look at the page; `None` if unknown.
fn settled(record: Record, found: Found) -> Option<ActOutcome> {
    match (record, found) {
        (Record::Deleted(ours), Found::Deleted(tombstone)) => {
            let is_ours = tombstone.takedown == ours.takedown;
            let record = Record::Deleted(tombstone);
            Some(if is_ours { ActOutcome::Done(record) } else { ActOutcome::Already(record) })
        }
        (Record::Active(ours), Found::Page(page)) if page.head == ours.head => {
            Some(ActOutcome::Done(Record::Active(ours)))
        }
        _ => None,
    }
}

impl Moderation {
    pub fn new(store: SharedStore, clock: SharedClock, random: Random) -> Self {
        Self { store, clock, random }
    }

    /// May be tried again after an error.
    pub async fn take_down(&self, slug: &Slug, takedown: &Takedown) -> Result<ActOutcome, ServiceError> {
        self.change(slug, Change::TakeDown(takedown)).await
    }

    /// Without `hiding`, shows the page again. May be tried again after an error.
    pub async fn set_hidden(&self, slug: &Slug, hiding: Option<&Takedown>) -> Result<ActOutcome, ServiceError> {
        self.change(slug, Change::SetHidden(hiding)).await
    }

    async fn change(&self, slug: &Slug, change: Change<'_>) -> Result<ActOutcome, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            loop {
                let mut store_budget = StoreBudget::new(deadline);
                let found = self.found(slug, &mut store_budget).await?;
                let (expected, record) = match change.next(slug, found, self.clock.now()) {
                    Ok(next) => next,
                    Err(outcome) => return Ok(outcome),
                };
                let swapped = self.store.put(expected, record.clone(), Some(store_budget.needed_by()));
                match store_budget.wait(swapped).await {
                    Ok(PutResult::Done) => return Ok(ActOutcome::Done(record)),
                    // The page's owner changed or deleted it between the read and the write.
                    Ok(PutResult::Refused) => back_off(&self.random).await,
                    Err(error @ ServiceError::Store(StoreError::OutcomeUnknown(_))) => {
                        let found = self.found(slug, &mut StoreBudget::new(deadline)).await;
                        return found.ok().and_then(|found| settled(record, found)).ok_or(error);
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
