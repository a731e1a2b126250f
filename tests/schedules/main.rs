//! Many orders of the steps of readers and writers of one page, through two replicas: joined reads, turns of writers and
//! pages that are ready never show a state that is older than the request or that no write made, and lose no edit.
//!
//! Every order is made from one seed: the pauses within each call of the store, its failures, the callers that disconnect,
//! and what everybody asks for. Time is virtual, so an order takes less than a millisecond and no clock of a machine
//! matters. `tests/schedules/run` runs this; `cargo test` does not.

mod history;
mod pages;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill::backends::rendering::RenderInPlace;
use handbill::backends::single_flight_store::SingleFlightStore;
use handbill::telemetry::metrics::Metrics;
use handbill_core::domain::client::Client;
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::network_limits::NetworkLimits;
use handbill_core::domain::slug::Slug;
use handbill_core::ports::page_store::{PageStore, StoreError};
use handbill_core::ports::random::{Random, index_below};
use handbill_core::ports::rate_limiter::Quotas;
use handbill_core::service::{
    Credential, LimitTiers, PageCache, PageCacheMetrics, PageFields, PageService, Precondition, PublishingPolicy,
    ServiceError, ServiceParts, TurnMetrics,
};
use handbill_limiter::memory::MemoryRateLimiter;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use self::history::{Answer, Field, History, Seen};
use self::pages::{Fault, Pages, SkewedClock, seeded};

/// Those who read and write at once, and what each of them asks for.
const CLIENTS: usize = 5;
const REQUESTS: usize = 3;

/// The replicas.
const REPLICAS: usize = 2;

/// An order in which a planted fault shows is found within this many.
const ENOUGH: u64 = 20_000;

const UNLIMITED: Quotas = Quotas { create: None, edit: None, token: None, preview: None };

fn client() -> Client {
    Client::from(IpAddr::from(Ipv4Addr::LOCALHOST))
}

/// A replica over `store`, whose clock is `behind` by this much.
fn replica(store: &Arc<Pages>, random: &Random, behind: Duration) -> PageService {
    let clock = Arc::new(SkewedClock::new(behind));
    let store: Arc<dyn PageStore> = Arc::clone(store) as _;
    let shared = Arc::new(SingleFlightStore::new(store, &Arc::new(Metrics::new())));
    let limiter = Arc::new(MemoryRateLimiter::new(clock.clone()));
    let renderer = Arc::new(RenderInPlace);
    PageService::new(ServiceParts {
        store: shared,
        limiter,
        renderer,
        clock,
        random: random.clone(),
        quotas: UNLIMITED,
        networks: NetworkLimits::NONE,
        tiers: LimitTiers::default(),
        policy: PublishingPolicy::default(),
        large_bytes: 8 << 20,
        renewed_bytes: 2 << 20,
        pages: PageCache::new(1024 * 1024, PageCacheMetrics::default()),
        turns: TurnMetrics::default(),
        writes_renewed_pages_back: false,
    })
}

/// One client of the page.
struct Actor<'a> {
    name: usize,
    replicas: &'a [PageService],
    slug: &'a Slug,
    key: &'a EditKey,
    random: &'a Random,
    history: &'a History,
}

impl Actor<'_> {
    async fn act(&self) {
        for request in 0..REQUESTS {
            sleep(Duration::from_millis(self.below(12))).await;
            let work = self.request(format!("{}-{request}", self.name));
            if self.below(8) == 0 {
                // The client disconnects, and never learns what came of it.
                let _ = timeout(Duration::from_millis(self.below(12)), work).await;
            } else {
                work.await;
            }
        }
    }

    fn below(&self, bound: usize) -> u64 {
        index_below(self.random, bound) as u64
    }

    async fn request(&self, value: String) {
        let service = &self.replicas[index_below(self.random, self.replicas.len())];
        match self.below(16) {
            0..=6 => self.read(service).await,
            7..=10 => self.edit(service, Field::Title, value).await,
            11..=14 => self.edit(service, Field::Content, value).await,
            _ => self.delete(service).await,
        }
    }

    async fn read(&self, service: &PageService) {
        let began = self.history.tick();
        let seen = match service.read(self.slug).await {
            Ok(page) => Seen::of(&page),
            Err(ServiceError::Gone) => Seen::Gone,
            Err(error) => return self.failed(&error, None),
        };
        self.history.answered(Answer { began, ended: self.history.tick(), seen, wrote: None });
    }

    async fn edit(&self, service: &PageService, field: Field, value: String) {
        let began = self.history.tick();
        let new = || Some(Some(value.clone()));
        let fields = match field {
            Field::Title => PageFields { title: new(), ..PageFields::default() },
            Field::Content => PageFields { content: new().map(|text| text.map(Into::into)), ..PageFields::default() },
        };
        let (credential, condition) = (Credential::Key(self.key.clone()), Precondition::default());
        let body = std::future::ready(Ok(fields));
        let done = service.update(client(), self.slug.as_str(), &credential, body, &condition).await.outcome;
        let (seen, wrote) = match done {
            Ok(page) => (Seen::of(&page), Some((field, value))),
            Err(ServiceError::Gone) => (Seen::Gone, None),
            Err(error) => return self.failed(&error, Some((field, value))),
        };
        self.history.answered(Answer { began, ended: self.history.tick(), seen, wrote });
    }

    async fn delete(&self, service: &PageService) {
        let began = self.history.tick();
        let (credential, condition) = (Credential::Key(self.key.clone()), Precondition::default());
        match service.delete(client(), self.slug.as_str(), &credential, Ok(()), &condition).await.outcome {
            Ok(()) | Err(ServiceError::Gone) => {}
            Err(error) => return self.failed(&error, None),
        }
        self.history.answered(Answer { began, ended: self.history.tick(), seen: Seen::Gone, wrote: None });
    }

    /// A request that failed says whether anything was changed.
    fn failed(&self, error: &ServiceError, edit: Option<(Field, String)>) {
        match (error, edit) {
            (ServiceError::Store(StoreError::Unavailable(_)), Some(edit)) => self.history.denied(edit),
            (ServiceError::Store(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_)), _) => {}
            (error, _) => self.history.unexpected(format!("{error:?}")),
        }
    }
}

/// One order: the rule that it breaks, if it breaks one.
async fn order(seed: u64, fault: Fault) -> Result<(), String> {
    let random = seeded(seed);
    let store = Arc::new(Pages::new(random.clone(), fault));
    let replicas: Vec<_> = (0..REPLICAS)
        .map(|number| replica(&store, &random, Duration::from_hours(1) * u32::try_from(number).unwrap()))
        .collect();
    let (title, content) = (Some(Some("first".to_owned())), Some(Some("first".into())));
    let fields = PageFields { title, content, ..PageFields::default() };
    let created = replicas[0].create(client(), Ok(fields)).await.outcome.map_err(|error| error.to_string())?;
    store.begin_to_fail();
    let history = History::default();
    let actors: Vec<_> = (0..CLIENTS)
        .map(|name| Actor {
            name,
            replicas: &replicas,
            slug: &created.page.head.slug,
            key: &created.edit_key,
            random: &random,
            history: &history,
        })
        .collect();
    join_all(actors.iter().map(Actor::act)).await;
    history.check(&store.log())
}

/// Runs the order of `seed` by itself.
fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("it can be built");
    runtime.block_on(order(seed, fault)).map_err(|broken| format!("SEED={seed}: {broken}"))
}

/// The number that the environment has under `name`.
fn number(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "these are arguments of the run, not settings of the service")]
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn in_every_order_each_answer_fits_one_page() {
    let (first, orders) = (number("SEED", 1), number("SCHEDULES", 100_000));
    for seed in first..first + orders {
        run(seed, Fault::None).unwrap();
    }
    println!("{orders} orders from the seed {first}, none breaks a rule");
}

#[test]
fn each_planted_fault_is_found() {
    for fault in [Fault::JoinsRunningReads, Fault::DoesNotCompare, Fault::MixesStates, Fault::DeniesWhatItDid] {
        let found = (1..=ENOUGH).find_map(|seed| run(seed, fault).err().map(|broken| (seed, broken)));
        let (orders, broken) = found.unwrap_or_else(|| panic!("{fault:?} is not found in {ENOUGH} orders"));
        println!("{fault:?} is found in order {orders}: {broken}");
    }
}
