//! The store of an order: one page, whose calls take virtual time and fail by the order's seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use handbill_core::domain::page::{Page, PageHead, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::slug_secret::SlugSecret;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::Clock;
use handbill_core::ports::page_store::{Access, CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::random::{Random, index_below};
use tokio::time::{Instant, sleep};

use super::history::Seen;

/// A fault that is planted in the store. The rules must find each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A read gets the answer of another one that had begun before it, whose text is still there.
    JoinsRunningReads,
    /// A write does not compare versions.
    DoesNotCompare,
    /// The text of a head is the present one, whatever the head says.
    MixesStates,
    /// A write that was done sometimes fails with *Nothing was changed*.
    DeniesWhatItDid,
}

/// The page, and all states that it had.
pub(crate) struct Pages {
    random: Random,
    fault: Fault,
    fails: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    record: Option<Record>,
    /// Every page that was stored.
    pages: Vec<Arc<Page>>,
    log: Vec<Seen>,
    /// The heads of reads that are under way, oldest first.
    running: Vec<Lookup<PageHead>>,
}

/// A clock in virtual time.
pub(crate) struct SkewedClock {
    started: Instant,
    behind: Duration,
}

/// Numbers that depend on `seed` alone (`SplitMix64`).
pub(crate) fn seeded(seed: u64) -> Random {
    let state = Mutex::new(seed);
    Random::Controlled(Arc::new(move |bytes: &mut [u8]| {
        let mut state = state.lock().unwrap();
        for byte in bytes {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            *byte = (mixed ^ (mixed >> 31)).to_le_bytes()[0];
        }
    }))
}

impl SkewedClock {
    pub(crate) fn new(behind: Duration) -> Self {
        Self { started: Instant::now(), behind }
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> UnixMillis {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap();
        UnixMillis::new(1_795_235_400_123 + millis(self.monotonic()) - millis(self.behind))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The failure of a call of the store.
fn failure(text: &'static str) -> Box<dyn std::error::Error + Send + Sync> {
    text.into()
}

impl Pages {
    pub(crate) fn new(random: Random, fault: Fault) -> Self {
        Self { random, fault, fails: AtomicBool::new(false), state: Mutex::default() }
    }

    /// From now on calls fail now and then.
    pub(crate) fn begin_to_fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    /// The states that the page had, in their order.
    pub(crate) fn log(&self) -> Vec<Seen> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn pause(&self) {
        sleep(Duration::from_millis(index_below(&self.random, 6) as u64)).await;
    }

    /// One of `of` calls.
    fn happens_once_in(&self, of: usize) -> bool {
        self.fails.load(Ordering::Relaxed) && index_below(&self.random, of) == 0
    }

    fn may_fail(&self) -> Result<(), StoreError> {
        if self.happens_once_in(24) { Err(StoreError::Unavailable(failure("not reached"))) } else { Ok(()) }
    }

    /// `done`, unless its answer is lost.
    fn answer<T>(&self, done: T) -> Result<T, StoreError> {
        if self.happens_once_in(24) {
            return Err(match self.fault {
                Fault::DeniesWhatItDid => StoreError::Unavailable(failure("a lie")),
                _ => StoreError::OutcomeUnknown(failure("no answer")),
            });
        }
        Ok(done)
    }
}

impl State {
    fn head(&self) -> Lookup<PageHead> {
        match &self.record {
            Some(Record::Active(page)) => Lookup::Active(page.head.clone()),
            Some(Record::Deleted(tombstone)) => Lookup::Deleted(tombstone.clone()),
            None => Lookup::Absent,
        }
    }

    fn store(&mut self, record: Record) {
        self.log.push(match &record {
            Record::Active(page) => Seen::of(page),
            Record::Deleted(_) => Seen::Gone,
        });
        if let Record::Active(page) = &record {
            self.pages.push(Arc::clone(page));
        }
        self.record = Some(record);
    }
}

#[async_trait]
impl PageStore for Pages {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        unreachable!("these tests send no key")
    }

    async fn insert_if_absent(&self, page: Arc<Page>, _: Option<Instant>) -> Result<InsertResult, StoreError> {
        self.state().store(Record::Active(page));
        Ok(InsertResult::Inserted)
    }

    async fn lookup(&self, _: &Slug) -> Result<Lookup, StoreError> {
        self.pause().await;
        self.may_fail()?;
        let found = match self.state().record.clone() {
            Some(Record::Active(page)) => Lookup::Active(page),
            Some(Record::Deleted(tombstone)) => Lookup::Deleted(tombstone),
            None => Lookup::Absent,
        };
        self.pause().await;
        Ok(found)
    }

    fn access(&self) -> Access<'_> {
        Access::HeadFirst
    }

    async fn head(&self, _: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        if self.fault == Fault::JoinsRunningReads {
            let running = self.state().running.first().cloned();
            if let Some(head) = running {
                return Ok(head);
            }
        }
        self.pause().await;
        self.may_fail()?;
        let head = {
            let mut state = self.state();
            let head = state.head();
            state.running.push(head.clone());
            head
        };
        self.pause().await;
        self.state().running.pop();
        Ok(head)
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        self.pause().await;
        self.may_fail()?;
        let present = {
            let state = self.state();
            match (&state.record, self.fault) {
                (_, Fault::JoinsRunningReads) => {
                    state.pages.iter().find(|page| page.head.state() == head.state()).cloned()
                }
                (Some(Record::Active(page)), _) => Some(Arc::clone(page)),
                _ => None,
            }
        };
        self.pause().await;
        let is_there = |page: &Arc<Page>| page.head.state() == head.state() || self.fault == Fault::MixesStates;
        let found = present.filter(is_there);
        Ok(found.map(|page| Arc::new(Page { head: head.clone(), text: page.text.clone() })))
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        _: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.pause().await;
        self.may_fail()?;
        let is_done = {
            let mut state = self.state();
            let present = match &state.record {
                Some(Record::Active(page)) => Some(Arc::clone(page)),
                _ => None,
            };
            let is_expected = |page: &Page| page.head.version == expected || self.fault == Fault::DoesNotCompare;
            match present {
                Some(present) if is_expected(&present) => {
                    state.store(next);
                    true
                }
                _ => false,
            }
        };
        self.pause().await;
        if is_done { self.answer(CasResult::Swapped) } else { Ok(CasResult::Stale) }
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        unreachable!("every record can be read: {tombstone:?}")
    }

    async fn ensure_in_ledger(&self, _: &Record) -> Result<(), StoreError> {
        Ok(())
    }
}
