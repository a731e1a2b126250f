//! Guarantees across replicas while nothing is wrong.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use handbill::app::Deps;
use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::page_store::{Lookup, PageStore};
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::service::{
    CallMetrics, PageCache, PageCacheMetrics, PageFields, PageService, PublishingPolicy, ServiceParts, SharedStore,
};
use handbill_pages::values::client::Client;
use handbill_pages::values::edit_key::SECRET_CHARS;
use handbill_rate_limit::memory::MemoryRateLimiter;
use handbill_store_scylla::{Limits, ScyllaStore};
use rand::Rng;

use super::calls::{create, delete, publish, read, rewrite};
use super::service::{Service, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_shows_at_once_what_another_acknowledged() {
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
    for client in clients {
        let of_client = replies.iter().filter(|(of, _)| *of == client).map(|(_, reply)| reply);
        let (refused, admitted): (Vec<_>, Vec<_>) = of_client.partition(|reply| reply.status == 429);
        assert_eq!(admitted.len(), 10, "{client}");
        for reply in refused {
            assert!(reply.retry_after.is_some_and(|seconds| seconds > 0), "{reply:?}");
        }
    }
}

/// How many characters a slug's suffix has, each from one byte; it is drawn first.
const SUFFIX_BYTES: usize = 8;

/// Yields a random key, then the same suffix to every racer, then random bytes. No byte of the key is drawn again.
fn racing() -> Random {
    const KEY_AND_SUFFIX: usize = SECRET_CHARS + SUFFIX_BYTES;
    let drawn = AtomicUsize::new(0);
    Random::Controlled(Arc::new(move |bytes: &mut [u8]| {
        for byte in bytes {
            (&Random::System).fill_bytes(std::slice::from_mut(byte));
            match drawn.fetch_add(1, Ordering::Relaxed) {
                0..SECRET_CHARS => *byte %= 62,
                SECRET_CHARS..KEY_AND_SUFFIX => *byte = 7,
                _ => {}
            }
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_creates_one_gets_the_slug_and_others_their_own() {
    let service = Service::start(Settings::unlimited()).await;
    let clock = Arc::new(SystemClock::new());
    let settings = service.store_settings();
    let mut stores: Vec<Arc<dyn PageStore>> = Vec::new();
    for _ in 0..3 {
        let store = ScyllaStore::new(Limits::default(), Random::System, clock.clone());
        store.connect(&settings, |_| {}).await.unwrap();
        stores.push(Arc::new(store));
    }
    let unlimited = Quotas { create: None, edit: None, token: None };
    let racers = (0..24).map(|racer| {
        let service = PageService::new(ServiceParts {
            store: SharedStore::new(Arc::clone(&stores[racer % 3]), CallMetrics::default(), clock.clone()),
            limiter: Arc::new(MemoryRateLimiter::new(clock.clone())),
            renderer: Deps::system().renderer,
            clock: clock.clone(),
            random: racing(),
            quotas: unlimited,
            networks: Vec::new(),
            policy: PublishingPolicy::default(),
            large_bytes: 8 << 20,
            pages: PageCache::new(0, PageCacheMetrics::default()),
        });
        tokio::spawn(async move {
            let title = format!("Race {}", std::process::id());
            let content = Some(Some(format!("racer {racer}").into()));
            let fields = PageFields { title: Some(Some(title)), content, ..PageFields::default() };
            let client = Client::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
            service.create(client, Ok(fields)).await.outcome
        })
    });
    let created: Vec<_> = join_all(racers).await.into_iter().map(|create| create.unwrap().unwrap()).collect();
    let slugs: HashSet<_> = created.iter().map(|created| created.page.head.slug.clone()).collect();
    assert_eq!(slugs.len(), created.len(), "two pages have one slug");
    let contended = created.iter().filter(|created| {
        let suffix = created.page.head.slug.to_string();
        suffix[suffix.len() - SUFFIX_BYTES..].bytes().all(|byte| byte == suffix.as_bytes()[suffix.len() - 1])
    });
    assert_eq!(contended.count(), 1, "one racer got what all wanted");
    for created in &created {
        let Lookup::Active(page) = stores[0].lookup(&created.page.head.slug).await.unwrap() else {
            panic!("it is gone")
        };
        assert_eq!(page, created.page);
        assert!(page.head.key_hash.matches(&created.edit_key));
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
