//! Creates and the reservations of their slugs (contract, decision 23).

use std::future;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::{Attempt, Quotas, RateLimiter};
use handbill_pages::service::{
    CallMetrics, Created, PageFields, PageService, PublishingPolicy, RenderInPlace, ServiceError, ServiceParts,
    SharedStore,
};
use handbill_pages::values::client::Client;
use handbill_pages::values::details::{DetailsInput, Patch};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::quota::{Counted, Decision, Quota};
use handbill_pages::values::slug::{Reservation, Reserved};
use handbill_pages::values::title::Title;
use handbill_store_sqlite::SqliteStore;
use handbill_test_support::pages::new_key;

use crate::in_process::stores::WatchedStore;

/// A limiter that says of every slug what the test wants.
struct Says {
    is_admitted: bool,
    /// `None` never comes.
    answer: Option<Reserved>,
    asked: Mutex<Vec<Reservation>>,
}

impl Says {
    fn new(answer: Reserved) -> Self {
        Self { is_admitted: true, answer: Some(answer), asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<Reservation> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl RateLimiter for Says {
    async fn check(&self, attempt: Attempt) -> Decision {
        attempt.own.quota.decision(self.is_admitted, &Counted::default(), Duration::ZERO)
    }

    /// Outside of this process.
    fn system(&self) -> Option<&'static str> {
        Some("redis")
    }

    async fn reserve(&self, reservation: &Reservation) -> Reserved {
        self.asked.lock().unwrap().push(reservation.clone());
        match self.answer {
            Some(answer) => answer,
            None => future::pending().await,
        }
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

#[tokio::test]
async fn a_slug_is_reserved_beside_the_rendering_and_not_waited_for() {
    for answer in [Some(Reserved::Unopposed), None] {
        let fixture = Fixture::new(Says { answer, ..Says::new(Reserved::Unopposed) });
        let Created { page, edit_key } = fixture.create(fields()).await.unwrap();
        let expected = Reservation::new(page.head.slug.clone(), &edit_key.hash());
        assert_eq!(expected.owner.len(), 16);
        assert_eq!(fixture.limiter.asked(), [expected]);
    }
}

#[tokio::test]
async fn a_slug_that_the_text_gives_is_not_reserved() {
    let fixture = Fixture::new(Says::new(Reserved::ByAnother));
    // A raw post has its title in its text.
    let raw = PageFields { details: DetailsInput::default(), file_name: Some(String::new()), ..fields() };
    fixture.create(raw).await.unwrap();
    assert_eq!(fixture.limiter.asked(), []);
}

#[tokio::test]
async fn a_random_slug_that_another_has_reserved_is_drawn_again() {
    let fixture = Fixture::new(Says::new(Reserved::ByAnother));
    let created = fixture.create(fields()).await.unwrap();
    assert!(fixture.limiter.asked().iter().all(|asked| asked.slug != created.page.head.slug));
    assert_eq!(fixture.store.calls().inserts, 1);
}

#[tokio::test]
async fn for_a_clients_key_the_store_is_asked_whoever_reserved_it() {
    let fixture = Fixture::new(Says::new(Reserved::ByAnother));
    let key = new_key();
    let secret = fixture.store.slug_secret().await.unwrap();
    let slug = secret.slug(&Title::parse("T").unwrap(), &EditKey::parse(&key).unwrap(), 0);
    for _ in 0..2 {
        assert_eq!(fixture.create(with_key(&key)).await.unwrap().page.head.slug, slug);
    }
    // The first create learnt the secret too late.
    assert_eq!(fixture.limiter.asked(), [Reservation::new(slug, &EditKey::parse(&key).unwrap().hash())]);
}

#[tokio::test]
async fn a_refused_create_reserves_nothing() {
    let fixture = Fixture::new(Says { is_admitted: false, ..Says::new(Reserved::Unopposed) });
    fixture.create(fields()).await.unwrap_err();
    assert_eq!(fixture.limiter.asked(), []);
}
