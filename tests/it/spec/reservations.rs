//! Creates and the reservations of their slugs (contract, decision 23).

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::{Attempt, Quotas, RateLimiter};
use handbill_pages::service::{
    CallMetrics, Created, PageCache, PageCacheMetrics, PageFields, PageService, PublishingPolicy, RenderInPlace,
    ServiceError, ServiceParts, SharedStore,
};
use handbill_pages::values::client::Client;
use handbill_pages::values::details::{DetailsInput, Patch};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::quota::{Counted, Decision, Quota};
use handbill_pages::values::slug::{Reservation, Reserved};
use handbill_pages::values::title::Title;
use handbill_store_sqlite::SqliteStore;

use crate::in_process::stores::WatchedStore;
use crate::support::pages::new_key;

/// A limiter that says of every slug what the test wants.
struct Says {
    is_admitted: bool,
    /// The answer of the limiter's own step, and of the second call.
    answers: [Reserved; 2],
    /// The reservations that were named in either.
    named: Mutex<[Vec<Reservation>; 2]>,
}

impl Says {
    fn new(answers: [Reserved; 2]) -> Self {
        Self { is_admitted: true, answers, named: Mutex::default() }
    }

    fn named(&self) -> [Vec<Reservation>; 2] {
        self.named.lock().unwrap().clone()
    }
}

#[async_trait]
impl RateLimiter for Says {
    async fn check(&self, attempt: Attempt) -> Decision {
        let slug = if attempt.slug.is_some() { self.answers[0] } else { Reserved::NotAsked };
        self.named.lock().unwrap()[0].extend(attempt.slug);
        let decision = attempt.own.quota.decision(self.is_admitted, &Counted::default(), Duration::ZERO);
        Decision { slug, ..decision }
    }

    async fn reserve(&self, reservation: &Reservation) -> Reserved {
        self.named.lock().unwrap()[1].push(reservation.clone());
        self.answers[1]
    }
}

struct Fixture {
    limiter: Arc<Says>,
    store: Arc<WatchedStore>,
    service: PageService,
}

impl Fixture {
    fn new(limiter: Says) -> Self {
        let quota = Some(Quota { limit: 10, window: Duration::from_hours(1) });
        let limiter = Arc::new(limiter);
        let store = Arc::new(WatchedStore::around(Arc::new(SqliteStore::temporary().unwrap())));
        let service = PageService::new(ServiceParts {
            store: SharedStore::new(Arc::clone(&store) as _, CallMetrics::default(), Arc::new(SystemClock::new())),
            limiter: Arc::clone(&limiter) as Arc<dyn RateLimiter>,
            renderer: Arc::new(RenderInPlace),
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            quotas: Quotas { create: quota, edit: quota, token: quota },
            networks: Vec::new(),
            policy: PublishingPolicy::default(),
            large_bytes: 8 << 20,
            pages: PageCache::new(0, PageCacheMetrics::default()),
        });
        Self { limiter, store, service }
    }

    async fn create(&self, fields: PageFields) -> Result<Created, ServiceError> {
        let client = Client::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        self.service.create(client, Ok(fields)).await.outcome
    }
}

fn fields() -> PageFields {
    PageFields {
        details: DetailsInput { title: Patch::Set("T".to_owned()) },
        content: Patch::Set("# H".into()),
        ..PageFields::default()
    }
}

fn with_key(key: &str) -> PageFields {
    PageFields { edit_key: Some(EditKey::parse_new(key)), ..fields() }
}

/// A raw post, whose title is in its text.
fn untitled() -> PageFields {
    PageFields { details: DetailsInput::default(), file_name: Some(String::new()), ..fields() }
}

#[tokio::test]
async fn a_create_names_its_slug_and_its_keys_hash_to_the_limiter() {
    let fixture = Fixture::new(Says::new([Reserved::Unopposed, Reserved::NotAsked]));
    let Created { page, edit_key } = fixture.create(fields()).await.unwrap();
    let expected = Reservation::new(page.head.slug.clone(), &edit_key.hash());
    assert_eq!(expected.owner.len(), 16);
    assert_eq!(fixture.limiter.named(), [vec![expected], vec![]], "no second call is made");
}

#[tokio::test]
async fn a_slug_is_reserved_while_the_page_is_rendered() {
    let fixture = Fixture::new(Says::new([Reserved::NotAsked, Reserved::Unopposed]));
    for (first, fields) in [(1, fields()), (0, untitled())] {
        let [before, _] = fixture.limiter.named();
        let Created { page, edit_key } = fixture.create(fields).await.unwrap();
        let [named, reserved] = fixture.limiter.named();
        assert_eq!(named.len() - before.len(), first);
        assert_eq!(reserved.last(), Some(&Reservation::new(page.head.slug.clone(), &edit_key.hash())));
    }
}

#[tokio::test]
async fn a_random_slug_that_another_has_reserved_is_drawn_again() {
    for answers in [[Reserved::ByAnother, Reserved::NotAsked], [Reserved::NotAsked, Reserved::ByAnother]] {
        let fixture = Fixture::new(Says::new(answers));
        let created = fixture.create(fields()).await.unwrap();
        let named = fixture.limiter.named().concat();
        assert!(named.iter().all(|named| named.slug != created.page.head.slug), "{named:?}");
        assert_eq!(fixture.store.calls().inserts, 1);
    }
}

#[tokio::test]
async fn for_a_clients_key_the_store_is_asked_whoever_reserved_it() {
    let fixture = Fixture::new(Says::new([Reserved::ByAnother, Reserved::ByAnother]));
    let key = new_key();
    let secret = fixture.store.slug_secret().await.unwrap();
    let slug = secret.slug(&Title::parse("T").unwrap(), &EditKey::parse(&key).unwrap(), 0);
    for _ in 0..2 {
        assert_eq!(fixture.create(with_key(&key)).await.unwrap().page.head.slug, slug);
    }
    let expected = Reservation::new(slug, &EditKey::parse(&key).unwrap().hash());
    // The first create learnt the secret after the limiter had admitted it.
    assert_eq!(fixture.limiter.named(), [[expected.clone()], [expected]]);
}

#[tokio::test]
async fn a_refused_create_reserves_nothing() {
    let fixture = Fixture::new(Says { is_admitted: false, ..Says::new([Reserved::NotAsked, Reserved::Unopposed]) });
    fixture.create(fields()).await.unwrap_err();
    assert_eq!(fixture.limiter.named()[1], []);
}
