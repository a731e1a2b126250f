//! Clients of two replicas of a side, which write without pause, and what they were told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use handbill_core::domain::page::{Page, PageVersion};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, TakedownReason};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_store_cql::CqlStore;
use tokio::task::JoinHandle;

use super::conflict::changed;
use crate::datacenters::moves::insert;
use crate::datacenters::ring::Ring;
use crate::environment::in_time;
use crate::support::pages::{CREATED, page};

/// Replicas of a side.
const REPLICAS: usize = 2;

/// Pause of a client between two pages.
const PACE: Duration = Duration::from_millis(20);

/// How often the clients are asked how far they are.
const AGAIN: Duration = Duration::from_millis(20);

/// The clients of one side, one for each of its replicas.
pub(super) struct Clients {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Told>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    acknowledged: AtomicUsize,
    first: OnceLock<Instant>,
}

impl Clients {
    /// Begins to write through two replicas of `datacenter`: pages of each client's own, and those of `pages`.
    pub(super) async fn begin(ring: &Ring, datacenter: &str, pages: &[Arc<Page>]) -> Self {
        let shared = Arc::new(Shared::default());
        let mut clients = Vec::new();
        for number in 0..REPLICAS {
            let name = format!("client {number} in the {datacenter}");
            let store = ring.store(datacenter).await;
            let told = Told { own: Vec::new(), shared: Vec::new(), last: None };
            let client = Client { name, store, counts: Arc::clone(&shared), told };
            let slugs = pages.iter().map(|page| page.head.slug.clone()).collect();
            clients.push(tokio::spawn(client.write(slugs)));
        }
        Self { shared, clients }
    }

    /// Waits until the clients have had so many more answers to writes.
    pub(super) async fn until_acknowledged(&self, more: usize) {
        let acknowledged = || self.shared.acknowledged.load(Ordering::Relaxed);
        let enough = acknowledged() + more;
        let writing = async {
            while acknowledged() < enough {
                tokio::time::sleep(AGAIN).await;
            }
        };
        in_time("the writes of the clients", writing).await;
    }

    /// When the first of their writes was acknowledged.
    pub(super) fn first_acknowledged(&self) -> Option<Instant> {
        self.shared.first.get().copied()
    }

    /// Ends them. Returns what they were told together.
    pub(super) async fn end(self) -> Told {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let mut all = Told { own: Vec::new(), shared: Vec::new(), last: None };
        for client in self.clients {
            let told = in_time("the end of a client", client).await.unwrap();
            all.own.extend(told.own);
            all.shared.extend(told.shared);
            all.last = all.last.max(told.last);
        }
        all
    }
}

struct Client {
    name: String,
    store: CqlStore,
    counts: Arc<Shared>,
    told: Told,
}

impl Client {
    async fn write(mut self, shared: Vec<Slug>) -> Told {
        for number in 0.. {
            if self.counts.is_over.load(Ordering::Relaxed) {
                break;
            }
            self.write_own(number).await;
            self.change_shared(&shared[number % shared.len()], number).await;
            tokio::time::sleep(PACE).await;
        }
        self.told
    }

    fn acknowledge(&mut self) {
        let now = Instant::now();
        self.counts.first.get_or_init(|| now);
        self.counts.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.told.last = Some(now);
    }

    /// Creates a page and leaves it, edits it, deletes it, or takes it down.
    async fn write_own(&mut self, number: usize) {
        let first = Arc::new(page(&format!("{number} by {}", self.name)));
        let mut own =
            Own { slug: first.head.slug.clone(), may_be: vec![Record::Active(Arc::clone(&first))], may_lack: false };
        match insert(&self.store, &first).await {
            Ok(InsertResult::Inserted) => self.acknowledge(),
            Err(StoreError::OutcomeUnknown(_)) => own.may_lack = true,
            Err(StoreError::Unavailable(_) | StoreError::Fenced(_)) => return,
            other => panic!("{other:?}"),
        }
        let at = UnixMillis::new(CREATED + 1000);
        let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
        let next = match number % 4 {
            1 => Record::Active(changed(&first, "edited", at)),
            2 => Record::Deleted(first.head.tombstone(at)),
            3 => Record::Deleted(first.head.taken_down(takedown, at)),
            _ => return self.told.own.push(own),
        };
        match self.store.compare_and_set(first.head.version, next.clone(), None).await {
            Ok(CasResult::Swapped) => {
                self.acknowledge();
                (own.may_be, own.may_lack) = (vec![next], false);
            }
            Err(StoreError::OutcomeUnknown(_)) => own.may_be.push(next),
            Err(StoreError::Unavailable(_) | StoreError::Fenced(_)) => {}
            // The create of unknown outcome was not done, or not yet.
            Ok(CasResult::Stale) if own.may_lack => {}
            other => panic!("{other:?}"),
        }
        self.told.own.push(own);
    }

    /// Changes a page that others change too.
    async fn change_shared(&mut self, slug: &Slug, number: usize) {
        let Ok(Lookup::Active(found)) = self.store.lookup(slug).await else { return };
        let next = changed(&found, &format!("change {number} by {}", self.name), UnixMillis::new(CREATED + 1000));
        let done = self.store.compare_and_set(found.head.version, Record::Active(Arc::clone(&next)), None).await;
        match done {
            Ok(CasResult::Swapped) => self.acknowledge(),
            Err(StoreError::OutcomeUnknown(_)) => {}
            Ok(CasResult::Stale) | Err(StoreError::Unavailable(_) | StoreError::Fenced(_)) => return,
            other @ Err(_) => panic!("{other:?}"),
        }
        self.told.shared.push((next, done.is_ok()));
    }
}

/// A page of one client, and what it may be by what the client was told.
struct Own {
    slug: Slug,
    may_be: Vec<Record>,
    /// Whether its create may not have been done.
    may_lack: bool,
}

/// The answers that clients got.
pub(super) struct Told {
    own: Vec<Own>,
    /// Each change of a shared page that was done, or may have been, and whether it was acknowledged.
    shared: Vec<(Arc<Page>, bool)>,
    /// When the last write was acknowledged.
    last: Option<Instant>,
}

impl Told {
    pub(super) fn last_acknowledged(&self) -> Option<Instant> {
        self.last
    }

    /// The pages whose takedown was confirmed.
    pub(super) fn taken_down(&self) -> impl Iterator<Item = &Slug> {
        let is_takedown =
            |record: &Record| matches!(record, Record::Deleted(tombstone) if tombstone.takedown.is_some());
        self.own.iter().filter(move |own| own.may_be.iter().all(is_takedown)).map(|own| &own.slug)
    }

    /// Checks that each page of a client is as the client was told.
    pub(super) async fn check_own(&self, store: &CqlStore) {
        for Own { slug, may_be, may_lack } in &self.own {
            let is_as_told = match store.lookup(slug).await.unwrap() {
                Lookup::Active(found) => may_be.contains(&Record::Active(found)),
                Lookup::Deleted(found) => may_be.contains(&Record::Deleted(found)),
                Lookup::Absent => *may_lack,
                Lookup::Hidden(_) => false,
            };
            assert!(is_as_told, "{:?} instead of {may_be:?}", store.lookup(slug).await);
        }
    }

    /// Checks that each page that both `sides` changed is as the last change of one of them has made it, whole.
    pub(super) async fn check_shared(sides: &[&Self], store: &CqlStore) {
        for (slug, may_be) in last_of(sides) {
            let found = store.lookup(&slug).await.unwrap();
            let Lookup::Active(found) = found else { panic!("{slug}: {found:?}") };
            assert!(may_be.contains(&&found), "{found:?} instead of {may_be:?}");
        }
    }
}

/// The last changes of each shared page on each side: the last that was acknowledged, and all above it that may have been done.
fn last_of<'a>(sides: &[&'a Told]) -> BTreeMap<Slug, Vec<&'a Arc<Page>>> {
    let mut all: BTreeMap<Slug, Vec<&Arc<Page>>> = BTreeMap::new();
    for side in sides {
        let mut acknowledged: BTreeMap<&Slug, PageVersion> = BTreeMap::new();
        for (page, _) in side.shared.iter().filter(|(_, is_acknowledged)| *is_acknowledged) {
            let version = acknowledged.entry(&page.head.slug).or_insert(page.head.version);
            *version = page.head.version.max(*version);
        }
        for (page, _) in &side.shared {
            if acknowledged.get(&page.head.slug).is_none_or(|last| page.head.version >= *last) {
                all.entry(page.head.slug.clone()).or_default().push(page);
            }
        }
    }
    all
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages and {} changes of shared ones", self.own.len(), self.shared.len())
    }
}
