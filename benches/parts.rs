//! Times of the parts: rendering, slugs, keys, windows, JSON and the operations of the store (`docs/internals/performance.md`).

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use handbill::api::request::body::{self, NoFields};
use handbill::api::types::{FieldsBody, Included, PageBody};
use handbill_core::domain::client::Client;
use handbill_core::domain::content::Content;
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::markdown::render;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::page::{Page, PageHead};
use handbill_core::domain::quota::{Counted, Quota};
use handbill_core::domain::slug::{Slug, SlugSuffix};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::domain::title::Title;
use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::page_store::{PageStore, Record};
use handbill_core::ports::random::{Random, index_below};
use handbill_core::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_limiter::memory::MemoryRateLimiter;
use handbill_store_redb::RedbStore;
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};

const MIXED: &str = include_str!("documents/mixed.md");
const TITLE: &str = "How a small library moved its catalogue";

const TEN_AN_HOUR: Quota = Quota { limit: 10, window: Duration::from_hours(1) };

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn random_slug() -> Slug {
    Slug::derive(&Title::parse(TITLE).unwrap(), SlugSuffix::random(|bound| index_below(&Random::System, bound)))
}

fn page(content: &str) -> Page {
    let now = UnixMillis::new(1_795_246_988_171);
    let key_hash = EditKey::random(|bound| index_below(&Random::System, bound)).hash();
    let head = PageHead::first(random_slug(), Title::parse(TITLE).unwrap(), key_hash, now);
    Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content))
}

fn rendering(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("render");
    for (name, markdown) in [("mixed", MIXED), ("one line", "A *first* page.")] {
        group.throughput(Throughput::Bytes(markdown.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| render(black_box(markdown))));
    }
}

fn names(criterion: &mut Criterion) {
    let title = Title::parse(TITLE).unwrap();
    criterion.bench_function("slug/derive", |bencher| {
        bencher.iter(|| Slug::derive(black_box(&title), SlugSuffix::random(|bound| bound - 1)));
    });
    let slug = random_slug();
    criterion.bench_function("slug/parse", |bencher| bencher.iter(|| Slug::parse(black_box(slug.as_str()))));
    criterion.bench_function("edit key/random, with its hash", |bencher| {
        bencher.iter(|| EditKey::random(|bound| index_below(&Random::System, bound)).hash());
    });
}

fn windows(criterion: &mut Criterion) {
    criterion.bench_function("window/decide", |bencher| {
        let (mut counted, mut now) = (Counted::default(), Duration::ZERO);
        bencher.iter(|| {
            now += Duration::from_mins(5);
            TEN_AN_HOUR.decide(&mut counted, black_box(now))
        });
    });
    let (limiter, runtime) = (MemoryRateLimiter::new(Arc::new(SystemClock::new())), runtime());
    let mut number = 0_u32;
    criterion.bench_function("window/limiter, a client each time", |bencher| {
        bencher.iter(|| {
            number = number.wrapping_add(1);
            let client = Client::V4(number.into());
            runtime.block_on(limiter.check(Attempt::new(LimitKind::Create, TEN_AN_HOUR, client)))
        });
    });
}

fn json(criterion: &mut Criterion) {
    let request = serde_json::json!({"title": TITLE, "content": MIXED}).to_string();
    let mut group = criterion.benchmark_group("json");
    group.throughput(Throughput::Bytes(request.len() as u64));
    group.bench_function("parse a create", |bencher| {
        bencher.iter(|| body::parse::<FieldsBody, NoFields>(black_box(request.as_bytes())).unwrap());
    });
    let (page, base_url) = (Arc::new(page(MIXED)), Origin::parse("https://pages.example").unwrap());
    let runtime = runtime();
    group.bench_function("write a page", |bencher| {
        bencher.iter(|| {
            let body = PageBody::json(Arc::clone(&page), &base_url, Included::ALL).into_body();
            runtime.block_on(body.collect()).unwrap().to_bytes()
        });
    });
}

/// The store's file is in memory, so these times have no fsync.
fn store(criterion: &mut Criterion) {
    let (store, runtime) = (RedbStore::in_memory().unwrap(), runtime());
    let first = Arc::new(page(MIXED));
    runtime.block_on(store.insert_if_absent(Arc::clone(&first), None)).unwrap();
    let mut group = criterion.benchmark_group("store");
    group.bench_function("insert", |bencher| {
        let new = || {
            let mut page = Page::clone(&first);
            page.head.slug = random_slug();
            Arc::new(page)
        };
        let insert = |page| runtime.block_on(store.insert_if_absent(page, None)).unwrap();
        bencher.iter_batched(new, insert, BatchSize::SmallInput);
    });
    group
        .bench_function("lookup", |bencher| bencher.iter(|| runtime.block_on(store.lookup(&first.head.slug)).unwrap()));
    group.bench_function("update", |bencher| {
        let mut current = Page::clone(&first);
        bencher.iter(|| {
            let mut next = current.clone();
            next.head.version = current.head.version.next();
            let swapped = store.compare_and_set(current.head.version, Record::Active(Arc::new(next.clone())), None);
            runtime.block_on(swapped).unwrap();
            current = next;
        });
    });
}

criterion_group!(parts, rendering, names, windows, json, store);
criterion_main!(parts);
