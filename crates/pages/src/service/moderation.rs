//! The operators' operations, without edit keys and limits. The caller must have checked that it serves an operator.

use std::sync::Arc;

use super::time_limits::{StoreBudget, back_off, deadline, until};
use super::{SharedStore, error::ServiceError};
use crate::ports::page_store::{Expected, PutResult, StoreError};
use crate::ports::{clock::SharedClock, random::Random};
use crate::values::head::{PageHead, PageVersion, Tombstone};
use crate::values::{page::Page, record::Record, slug::Slug, takedown::Takedown, timestamp::UnixMillis};

#[derive(Clone)]
pub struct Moderation {
    store: SharedStore,
    clock: SharedClock,
    random: Random,
}

/// What an operator finds under a slug.
#[derive(Clone, Debug)]
pub enum Found {
    Readable(Option<Record>),
    /// With its head if only the text is damaged.
    Unreadable {
        head: Option<Box<PageHead>>,
        reason: Arc<StoreError>,
    },
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
pub enum OperatorAct<'a> {
    TakeDown(&'a Takedown),
    Hide(&'a Takedown),
    /// Shows a hidden page again, by this operator.
    Show(&'a str),
}

enum Next {
    Write(Expected, Record),
    Nothing(ActOutcome),
}

impl OperatorAct<'_> {
    fn next(self, slug: &Slug, found: Found, now: UnixMillis) -> Next {
        match (self, found) {
            (_, Found::Readable(None)) => Next::Nothing(ActOutcome::NotFound),
            (_, Found::Readable(Some(Record::Deleted(tombstone)))) => {
                Next::Nothing(ActOutcome::Already(Record::Deleted(tombstone)))
            }
            (Self::TakeDown(takedown), Found::Readable(Some(Record::Active(page) | Record::Hidden(page, _)))) => {
                take_down(&page.head, takedown, now)
            }
            (Self::Show(_), Found::Readable(Some(Record::Active(page)))) => {
                Next::Nothing(ActOutcome::Already(Record::Active(page)))
            }
            (Self::Hide(_), Found::Readable(Some(Record::Hidden(page, takedown)))) => {
                Next::Nothing(ActOutcome::Already(Record::Hidden(page, takedown)))
            }
            (Self::Hide(takedown), Found::Readable(Some(Record::Active(page)))) => {
                Next::Write(Expected::page(&page.head), Record::Hidden(changed(&page, now), takedown.clone()))
            }
            (Self::Show(by), Found::Readable(Some(Record::Hidden(page, _)))) => {
                let mut shown = Arc::unwrap_or_clone(changed(&page, now));
                shown.head.state.shown_by = Some(by.to_owned());
                Next::Write(Expected::page(&page.head), Record::Active(Arc::new(shown)))
            }
            (Self::Hide(_) | Self::Show(_), Found::Unreadable { reason, .. }) => {
                Next::Nothing(ActOutcome::Unreadable(reason))
            }
            (Self::TakeDown(takedown), Found::Unreadable { head: Some(head), .. }) => take_down(&head, takedown, now),
            (Self::TakeDown(takedown), Found::Unreadable { head: None, .. }) => {
                let takedown = Some(takedown.clone());
                let tombstone = Tombstone::alone(slug.clone(), PageVersion::FIRST, now, takedown);
                Next::Write(Expected::Unreadable, Record::Deleted(tombstone))
            }
        }
    }
}

/// `page`, hidden or shown: readers hold the same state of it.
fn changed(page: &Page, now: UnixMillis) -> Arc<Page> {
    Arc::new(Page { head: page.head.clone().changed(now), text: page.text.clone() })
}

fn take_down(head: &PageHead, takedown: &Takedown, now: UnixMillis) -> Next {
    Next::Write(Expected::page(head), Record::Deleted(head.taken_down(takedown.clone(), now)))
}

/// The outcome of a write of `ours` that the store did not confirm, after a look at the page; `None` if unknown.
fn settled(ours: Record, found: Found) -> Option<ActOutcome> {
    let Found::Readable(Some(found)) = found else { return None };
    match (&ours, &found) {
        _ if ours.head() == found.head() => Some(ActOutcome::Done(ours)),
        // Nothing follows a deletion, so ours was not done.
        (Record::Deleted(_), Record::Deleted(_)) => Some(ActOutcome::Already(found)),
        // A page that was changed or deleted since may have been hidden or shown before.
        _ => None,
    }
}

impl Moderation {
    pub fn new(store: SharedStore, clock: SharedClock, random: Random) -> Self {
        Self { store, clock, random }
    }

    /// May be tried again after an error.
    pub async fn act(&self, slug: &Slug, act: OperatorAct<'_>) -> Result<ActOutcome, ServiceError> {
        let deadline = deadline();
        until(deadline, async {
            loop {
                let mut store_budget = StoreBudget::new(deadline);
                let found = self.found(slug, &mut store_budget).await?;
                let (expected, record) = match act.next(slug, found, self.clock.now()) {
                    Next::Write(expected, record) => (expected, record),
                    Next::Nothing(outcome) => return Ok(outcome),
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
            Ok(found) => Ok(Found::Readable(found)),
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
            Ok(Some(Record::Active(head) | Record::Hidden(head, _))) => Some(Box::new(head)),
            Ok(Some(Record::Deleted(tombstone))) => return Ok(Found::Readable(Some(Record::Deleted(tombstone)))),
            Ok(None) => return Ok(Found::Readable(None)),
            Err(ServiceError::Store(StoreError::Unreadable(_))) => None,
            Err(error) => return Err(error),
        };
        Ok(Found::Unreadable { head, reason: Arc::new(error) })
    }

    pub async fn inspect(&self, slug: &Slug) -> Result<Found, ServiceError> {
        let deadline = deadline();
        until(deadline, self.found(slug, &mut StoreBudget::new(deadline))).await
    }
}
