//! Times of whole requests through the router, in this process: every layer but the connection (`docs/internals/performance.md`).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

mod support;
use support::{MIXED, Service, create_2_kb};

fn reads(criterion: &mut Criterion) {
    let service = Service::new();
    let mut group = criterion.benchmark_group("read");
    for (name, request, status) in [
        ("json", service.read_json(), 200),
        ("html", service.read_html(), 200),
        ("markdown", service.read_markdown(), 200),
        ("not modified", service.revalidate(), 304),
        ("mcp", service.read_by_mcp(), 200),
    ] {
        assert_eq!(service.answer(&request).status, status, "{name}");
        group.throughput(Throughput::Bytes(MIXED.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| service.answer(&request)));
    }
}

fn create(criterion: &mut Criterion) {
    let service = Service::new();
    let request = create_2_kb();
    assert_eq!(service.answer(&request).status, 201);
    // The store is in memory, so this has no fsync. `loadtest/run` measures durable creates.
    criterion.bench_function("create/2 KB", |bencher| bencher.iter(|| service.answer(&request)));
}

criterion_group!(requests, reads, create);
criterion_main!(requests);
