//! Guarantees across replicas while nothing is wrong.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use handbill::backends::cql::{CqlStore, CqlTimeouts};
use handbill::backends::redis::{Redis, TimeLimits};
use handbill::domain::client::Client;
use handbill::domain::network_limits::NetworkLimits;
use handbill::ports::clock::SystemClock;
use handbill::ports::page_store::{Lookup, PageStore};
use handbill::ports::random::Random;
use handbill::ports::rate_limiter::Quotas;
use handbill::ports::slug_reservations::{Reservation, SlugReservations};
use handbill::service::render_threads::RenderThreads;
use handbill::service::{CreateFields, PageService};
use handbill::telemetry::metrics::Metrics;
use rand::rand_core::utils::next_word_via_fill;
use rand::{Rng, TryRng};

use super::calls::{create, delete, publish, read, rewrite};
use super::service::{Service, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_shows_at_once_a_write_that_another_acknowledged() {
    let service = Service::start(Settings::unlimited()).await;
    for round in 0..30 {
        let at = |replica: usize| service.replicas[(round + replica) % 3].public;
        let page = publish(at(0)).await;
        for replica in 0..3 {
            assert_eq!(read(at(replica), &page).await.expect_status(200).text("content"), "first");
        }
        rewrite(at(1), &page, "second").await.expect_status(200);
        for replica in 0..3 {
            assert_eq!(read(at(replica), &page).await.expect_status(200).text("content"), "second");
        }
        delete(at(2), &page).await.expect_status(204);
        for replica in 0..3 {
            read(at(replica), &page).await.expect_status(410);
            rewrite(at(replica), &page, "third").await.expect_status(410);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_one_quota_over_all_replicas() {
    let service = Service::start(Settings { create_limit: 10, ..Settings::unlimited() }).await;
    let clients = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
    let attempts = (0..100).flat_map(|_| clients).map(|client| {
        let balancer = service.balancer;
        tokio::spawn(async move { (client, create(balancer, client).await) })
    });
    let replies: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    // A replica decides alone when Redis does not answer in time, which happens on a machine that stalls.
    let decided_alone: f64 = service.metric("handbill_rate_limit_fallback_decisions_total").await.iter().sum();
    for client in clients {
        let of_client = replies.iter().filter(|(of, _)| *of == client).map(|(_, reply)| reply);
        let (refused, admitted): (Vec<_>, Vec<_>) = of_client.partition(|reply| reply.status == 429);
        let at_most = 10.0 + decided_alone;
        let admitted = f64::from(u8::try_from(admitted.len()).expect("there are a hundred"));
        assert!((10.0..=at_most).contains(&admitted), "{client}: {admitted} of at most {at_most}");
        for reply in refused {
            assert!(reply.retry_after.is_some_and(|seconds| seconds > 0), "{reply:?}");
        }
    }
}

/// How many characters an edit key has, each from one byte; it is drawn first.
const KEY_BYTES: usize = 43;

/// How many characters a slug's suffix has, each from one byte.
const SUFFIX_BYTES: usize = 8;

/// Yields a key of its own to each racer, then the same suffix to all, then random bytes.
struct Racer {
    number: u8,
    drawn: usize,
}

impl TryRng for Racer {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for byte in bytes {
            match self.drawn {
                0..KEY_BYTES => *byte = self.number,
                drawn if drawn < KEY_BYTES + SUFFIX_BYTES => *byte = 7,
                _ => (&Random::System).fill_bytes(std::slice::from_mut(byte)),
            }
            self.drawn += 1;
        }
        Ok(())
    }
}

/// Reservations that were lost.
struct Lost;

#[async_trait::async_trait]
impl SlugReservations for Lost {
    async fn reserve(&self, _: &handbill::domain::slug::Slug) -> Reservation {
        Reservation::Held
    }

    async fn release(&self, _: &handbill::domain::slug::Slug) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_creates_of_one_slug_one_gets_it_and_each_other_gets_its_own() {
    let service = Service::start(Settings::unlimited()).await;
    let clock = Arc::new(SystemClock::new());
    let settings = service.store_settings();
    let mut stores: Vec<Arc<dyn PageStore>> = Vec::new();
    for _ in 0..3 {
        let store = CqlStore::connect(&settings, CqlTimeouts::default(), Random::System, |_| {}).await.unwrap();
        stores.push(Arc::new(store));
    }
    let metrics = Arc::new(Metrics::new());
    let redis = Redis::open(
        &service.redis_settings(),
        TimeLimits::of_calls(std::time::Duration::from_millis(500)),
        clock.clone(),
        Random::System,
        metrics,
    )
    .unwrap();
    let unlimited = Quotas { create: None, edit: None, token: None, preview: None };
    for (round, reservations) in
        [Arc::new(redis.reservations()) as Arc<dyn SlugReservations>, Arc::new(Lost)].iter().enumerate()
    {
        let racing = (0..24).map(|racer| {
            let racing = Racer { number: u8::try_from(racer).unwrap(), drawn: 0 };
            let random = Random::Controlled(Arc::new(Mutex::new(racing)));
            let limiter = Arc::new(redis.limiter(NetworkLimits::NONE));
            let (store, clock) = (Arc::clone(&stores[racer % 3]), clock.clone());
            let service = PageService::new(
                store,
                limiter,
                Arc::clone(reservations),
                Arc::new(RenderThreads::default()),
                clock,
                random,
                unlimited,
            );
            tokio::spawn(async move {
                let fields = CreateFields {
                    title: format!("Race {round} {}", std::process::id()),
                    content: format!("racer {racer}"),
                };
                let client = Client::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
                service.create(client, Ok(fields)).await.outcome
            })
        });
        let created: Vec<_> = join_all(racing).await.into_iter().map(|create| create.unwrap().unwrap()).collect();
        let slugs: HashSet<_> = created.iter().map(|created| created.page.slug.clone()).collect();
        assert_eq!(slugs.len(), created.len(), "two pages have one slug");
        let contended = created.iter().filter(|created| {
            let suffix = created.page.slug.to_string();
            suffix[suffix.len() - SUFFIX_BYTES..].bytes().all(|byte| byte == suffix.as_bytes()[suffix.len() - 1])
        });
        assert_eq!(contended.count(), 1, "one racer got what all wanted");
        for created in &created {
            let Lookup::Active(page) = stores[0].lookup(&created.page.slug).await.unwrap() else {
                panic!("it is gone")
            };
            assert_eq!(page, created.page);
            assert!(page.key_hash.matches(&created.edit_key));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_races_a_delete_is_before_it_or_answered_410() {
    let service = Service::start(Settings::unlimited()).await;
    for _ in 0..10 {
        let page = publish(service.balancer).await;
        let updates = (0..6).map(|update| {
            let (replica, page) = (service.replicas[update % 3].public, page.clone());
            tokio::spawn(async move { rewrite(replica, &page, &format!("update {update}")).await })
        });
        let updates: Vec<_> = updates.collect();
        delete(service.balancer, &page).await.expect_status(204);
        for replica in &service.replicas {
            rewrite(replica.public, &page, "too late").await.expect_status(410);
            delete(replica.public, &page).await.expect_status(410);
        }
        for update in join_all(updates).await {
            let update = update.unwrap();
            assert!(matches!(update.status, 200 | 410), "{update:?}");
        }
        for replica in &service.replicas {
            read(replica.public, &page).await.expect_status(410);
        }
    }
}
