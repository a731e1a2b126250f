//! Imports records, and repeats acts of a journal, while others use the store.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{SharedStore, error::ServiceError, instruments::Observed};
use crate::ports::page_store::{Expected, PutResult, StoreError};
use crate::ports::renderer::{ContentChecks, Purpose, RenderOutcome, Renderer};
use crate::values::head::{Head, State};
use crate::values::{archive::ArchivedPage, journal::Act, page::Page, record::Record};

/// How long a record waits for a store that fails: a cluster that is slow for seconds must not end an import of hours.
const PATIENCE: Duration = Duration::from_mins(1);

const RETRY_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    Import,
    Same,
    NewerStays,
    StaysDeleted,
    StaysHidden,
}

pub struct Importer {
    store: SharedStore,
    renderer: Observed<dyn Renderer>,
}

/// What was decided about a record, and done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    pub precedence: Precedence,
    pub is_page: bool,
}

impl Importer {
    pub fn new(store: SharedStore, renderer: Arc<dyn Renderer>) -> Self {
        Self { renderer: Observed::new(renderer, store.calls()), store }
    }

    /// Decides by `precedence`; importing twice changes nothing more. Waits for a store that is away.
    pub async fn import(&self, imported: Record<ArchivedPage>) -> Result<Imported, ServiceError> {
        patiently(|| self.store_unless_newer(&imported)).await
    }

    /// Repeats an act of the journal on a restored store, unless the page was written later. Waits for a store that is away.
    pub async fn repeat(&self, act: &Act) -> Result<(), ServiceError> {
        patiently(|| self.repeat_unless_newer(act)).await
    }

    async fn store_unless_newer(&self, imported: &Record<ArchivedPage>) -> Result<Imported, ServiceError> {
        let (head, is_page) = (imported.head(), imported.page().is_some());
        // Made at the first attempt that stores it.
        let mut made = None;
        loop {
            let found = self.store.lookup(&head.slug).await?.as_ref().map(Record::head);
            let precedence = precedence(found.as_ref(), &head);
            if precedence != Precedence::Import {
                return Ok(Imported { precedence, is_page });
            }
            let record = match made.take() {
                Some(record) => record,
                None => self.record(imported).await?,
            };
            made = Some(record.clone());
            // Otherwise another request changed the page after the lookup.
            if self.put(Expected::found(found.as_ref()), record).await? {
                return Ok(Imported { precedence, is_page });
            }
        }
    }

    async fn repeat_unless_newer(&self, act: &Act) -> Result<(), ServiceError> {
        loop {
            let found = self.store.lookup(&act.slug).await?;
            let expected = Expected::found(found.as_ref().map(Record::head).as_ref());
            let Some(record) = act.after(found.as_ref()) else { return Ok(()) };
            // Otherwise another request changed it since.
            if self.put(expected, record).await? {
                return Ok(());
            }
        }
    }

    async fn record(&self, imported: &Record<ArchivedPage>) -> Result<Record, ServiceError> {
        Ok(match imported {
            Record::Active(page) => Record::Active(self.page(page).await?),
            Record::Hidden(page, takedown) => Record::Hidden(self.page(page).await?, takedown.clone()),
            Record::Deleted(tombstone) => Record::Deleted(tombstone.clone()),
        })
    }

    async fn page(&self, ArchivedPage { head, content }: &ArchivedPage) -> Result<Arc<Page>, ServiceError> {
        let RenderOutcome { rendered, .. } =
            self.renderer.render(content, Purpose::Upkeep, ContentChecks::default()).await?;
        Ok(Arc::new(Page::new(head.clone(), content.clone(), rendered)))
    }

    async fn put(&self, expected: Expected, record: Record) -> Result<bool, ServiceError> {
        Ok(self.store.put(expected, record, None).await? == PutResult::Done)
    }
}

/// A tombstone is final (contract, decision 18). The higher version wins, then the later write: a restored store repeats
/// versions. At the same version and time a tombstone wins. No import shows a hidden page.
fn precedence(stored: Option<&Head>, imported: &Head) -> Precedence {
    let Some(stored) = stored else { return Precedence::Import };
    match (&stored.state, &imported.state) {
        (State::Deleted(_), State::Deleted(_)) => return Precedence::Same,
        (State::Deleted(_), _) => return Precedence::StaysDeleted,
        (State::Hidden(..), State::Active(_)) => return Precedence::StaysHidden,
        _ => {}
    }
    match (imported.order().cmp(&stored.order()), &imported.state) {
        (Ordering::Greater, _) | (Ordering::Equal, State::Deleted(_)) => Precedence::Import,
        (Ordering::Less, _) => Precedence::NewerStays,
        (Ordering::Equal, _) => Precedence::Same,
    }
}

/// Tries again while the store is away.
async fn patiently<T, F: Future<Output = Result<T, ServiceError>>>(
    mut attempt: impl FnMut() -> F,
) -> Result<T, ServiceError> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let failed = match attempt().await {
            Err(error) if is_passing(&error) && Instant::now() < give_up => error,
            ended => return ended,
        };
        tracing::debug!(%failed, "a record waits for the store");
        sleep(RETRY_INTERVAL).await;
    }
}

fn is_passing(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Store(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_))
            | ServiceError::DeadlinePassed
            | ServiceError::Overloaded
            | ServiceError::Rendering(_)
    )
}

#[cfg(test)]
mod tests {
    use crate::ports::page_store::NotReachedError;

    use super::*;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKey;
    use crate::values::head::{PageHead, PageVersion};
    use crate::values::slug::Slug;
    use crate::values::takedown::{Takedown, TakedownReason};
    use crate::values::timestamp::UnixMillis;

    /// How long a record waits for a store that is away for so many seconds, and whether it is done then.
    async fn waited(seconds: u64) -> (u64, bool) {
        let began = Instant::now();
        let attempts = patiently(|| async move {
            match began.elapsed().as_secs() {
                away if away < seconds => Err(StoreError::Unavailable(NotReachedError.into()).into()),
                _ => Ok(()),
            }
        });
        let is_done = attempts.await.is_ok();
        (began.elapsed().as_secs(), is_done)
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_waits_a_minute_for_a_store_that_is_away() {
        assert_eq!([waited(0).await, waited(50).await, waited(70).await], [(0, true), (50, true), (60, false)]);
    }

    fn page(version: u64, changed_at: i64) -> Head {
        let (slug, details) = (Slug::parse("a-22222222").unwrap(), Details::default());
        let head = PageHead::first(slug, details, EditKey::random(|_| 0).hash(), UnixMillis::new(0));
        let (version, changed_at) = (PageVersion::try_from(version).unwrap(), UnixMillis::new(changed_at));
        Head { version, changed_at, ..head.map_state(State::Active) }
    }

    fn hidden(version: u64, changed_at: i64) -> Head {
        let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
        page(version, changed_at).map_state(|state| match state {
            State::Active(live) => State::Hidden(live, takedown),
            other => other,
        })
    }

    fn tombstone(version: u64, changed_at: i64) -> Head {
        page(version, changed_at).map_state(|_| State::Deleted(None))
    }

    #[test]
    fn a_tombstone_is_never_revived_and_no_hidden_page_is_shown() {
        let [deleted, found] = [tombstone(2, 2), hidden(3, 30)];
        assert_eq!(precedence(Some(&deleted), &page(u64::MAX, i64::MAX)), Precedence::StaysDeleted);
        assert_eq!(precedence(Some(&deleted), &tombstone(9, 9)), Precedence::Same);
        assert_eq!(precedence(Some(&found), &page(9, 99)), Precedence::StaysHidden);
        assert_eq!(precedence(Some(&found), &hidden(3, 31)), Precedence::Import);
    }

    #[test]
    fn a_free_slug_takes_anything() {
        for imported in [page(1, 0), hidden(1, 0), tombstone(2, 0)] {
            assert_eq!(precedence(None, &imported), Precedence::Import);
        }
    }

    #[test]
    fn the_version_decides_and_then_the_time_of_the_last_write() {
        for (imported, expected) in [
            (page(2, 99), Precedence::NewerStays),
            (page(3, 29), Precedence::NewerStays),
            (page(3, 30), Precedence::Same),
            (page(3, 31), Precedence::Import),
            (hidden(3, 31), Precedence::Import),
            (page(4, 0), Precedence::Import),
            (tombstone(4, 0), Precedence::Import),
            (tombstone(3, 30), Precedence::Import),
            (tombstone(3, 29), Precedence::NewerStays),
            (tombstone(2, 99), Precedence::NewerStays),
        ] {
            assert_eq!(precedence(Some(&page(3, 30)), &imported), expected, "{imported:?}");
        }
    }
}
