//! Counts the instructions of whole requests and of rendering, with Valgrind's callgrind.
//!
//! A count is repeatable on a busy machine, where a time is not. `benches/check` compares the counts with the committed ones.
//! Callgrind hides AVX-512 and the SHA extensions. A request counts with its line of the log.

use std::hint::black_box;

use axum::body::Bytes;
use gungraun::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use handbill::settings::{LogFormat, LogSettings};
use handbill::telemetry::logs;
use handbill_pages::values::markdown::{Rendered, render};
use http::{Request, StatusCode};

mod support;
use support::{Answer, MIXED, Service};

/// Requests sent before those that count: they fill caches and make what is made only once.
const WARM_UP: usize = 3;

/// Requests in one count. The count of a single request differs by 3 % from run to run, because of hash seeds and of the moments at
/// which threads meet.
const REQUESTS: usize = 32;

/// A service that is warm, and the request that counts.
fn warm(request: fn(&Service) -> Request<Bytes>) -> (Service, Request<Bytes>) {
    let settings = LogSettings { log_format: Some(LogFormat::Json), log: "info".parse().unwrap() };
    // The log is written for as long as the process runs.
    std::mem::forget(logs::install(&settings, None));
    let service = Service::new();
    let request = request(&service);
    for _ in 0..WARM_UP {
        service.answer(&request);
    }
    (service, request)
}

/// A refused request would be cheap, so a benchmark of a refusal must fail.
fn expect<const STATUS: u16>((_service, answer): (Service, Answer)) {
    assert_eq!(answer.status, StatusCode::from_u16(STATUS).unwrap());
}

/// Sends `request` as often as it counts. Returns the last answer.
fn answer_all(service: &Service, request: &Request<Bytes>) -> Answer {
    for _ in 1..REQUESTS {
        black_box(service.answer(black_box(request)));
    }
    service.answer(black_box(request))
}

#[library_benchmark(setup = warm, teardown = expect::<200>)]
#[bench::json(Service::read_json)]
#[bench::html(Service::read_html)]
#[bench::markdown(Service::read_markdown)]
#[bench::mcp(Service::read_by_mcp)]
fn read((service, request): (Service, Request<Bytes>)) -> (Service, Answer) {
    let answer = answer_all(&service, &request);
    (service, answer)
}

#[library_benchmark(setup = warm, teardown = expect::<304>)]
#[bench::json(Service::revalidate)]
fn revalidate((service, request): (Service, Request<Bytes>)) -> (Service, Answer) {
    let answer = answer_all(&service, &request);
    (service, answer)
}

#[library_benchmark(setup = warm, teardown = expect::<201>)]
#[bench::json(|_| support::create_2_kb())]
fn create((service, request): (Service, Request<Bytes>)) -> (Service, Answer) {
    let answer = answer_all(&service, &request);
    (service, answer)
}

/// `markdown` after the process has rendered it once: the tables of languages are made at their first use.
fn rendered_once(markdown: &'static str) -> &'static str {
    black_box(render(markdown));
    markdown
}

#[library_benchmark]
#[bench::mixed(args = [MIXED], setup = rendered_once)]
fn rendering(markdown: &str) -> Rendered {
    render(black_box(markdown))
}

library_benchmark_group!(name = instructions, benchmarks = [read, revalidate, create, rendering]);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = instructions
);
