//! The listener's limits, over real sockets but in this process, so that they can be short. No test depends on a limit
//! passing soon, only on its passing at all: the limits that must not pass are set to an hour.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{get, post};
use handbill::api::request::client_addr::TrustedProxies;
use handbill::app::Deps;
use handbill::server::drain::Phase;
use handbill::server::{App, Routes, ServerLimits, ServerMetrics, serve};
use handbill_store_sqlite::SqliteStore;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::client::{Connection, get as get_once};
use crate::environment::TEST_TIMEOUT;
use crate::unlimited;

const SOON: Duration = Duration::from_millis(200);
const NEVER: Duration = Duration::from_hours(1);
const LARGE_BYTES: usize = 32 * 1024 * 1024;

const PATIENT: ServerLimits = ServerLimits {
    connections: 1000,
    head: NEVER,
    body: NEVER,
    idle: NEVER,
    write: NEVER,
    answer: NEVER,
    stalled_at_stop: NEVER,
    ..ServerLimits::PUBLIC
};

fn no_proxies() -> TrustedProxies {
    TrustedProxies { networks: Vec::new() }
}

/// A listener on a runtime of its own.
struct Listener {
    address: SocketAddr,
    metrics: ServerMetrics,
    phase: watch::Sender<Phase>,
    ended: mpsc::Receiver<()>,
    _runtime: Runtime,
}

impl Listener {
    fn start(limits: ServerLimits) -> Self {
        Self::serving(limits, Routes(app()))
    }

    fn serving(limits: ServerLimits, app: impl App) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = ServerMetrics::default();
        let ((phase, phases), (end, ended)) = (watch::channel(Phase::Serving), mpsc::channel());
        let serving = serve(listener, app, limits, no_proxies(), metrics.clone(), phases);
        runtime.spawn(async move {
            serving.await;
            end.send(()).unwrap();
        });
        Self { address, metrics, phase, ended, _runtime: runtime }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    fn stop(&self) {
        self.phase.send_replace(Phase::Stopping);
    }

    fn wait_for_end(&self) {
        self.ended.recv_timeout(TEST_TIMEOUT).expect("the last connection ends");
        assert_eq!(self.metrics.open.get(), 0);
        assert_eq!((self.metrics.receiving.held.get(), self.metrics.sending.held.get()), (0, 0));
    }
}

fn app() -> Router {
    Router::new()
        .route("/", get("here"))
        .route("/large", get(|| async { vec![b'x'; LARGE_BYTES] }))
        .route("/echo", post(|body: String| async { body }))
        .layer(axum::extract::DefaultBodyLimit::disable())
}

/// The same app with `/held`, which says that it was entered and answers once it is released.
fn holding_app() -> (Router, mpsc::Receiver<()>, watch::Sender<bool>) {
    let (entered, entries) = mpsc::channel();
    let (release, released) = watch::channel(false);
    let app = app().route(
        "/held",
        get(move || {
            let mut released = released.clone();
            entered.send(()).unwrap();
            async move { released.wait_for(|&released| released).await.map(|_| "held").unwrap() }
        }),
    );
    (app, entries, release)
}

#[test]
fn a_head_that_trickles_in_is_cut_off() {
    let listener = Listener::start(ServerLimits { head: SOON, ..PATIENT });
    let mut first = listener.connect();
    first.send("GET / HTTP/1.1\r\nHost: loc").unwrap();
    assert!(first.is_ended());

    let listener = Listener::start(ServerLimits { head: Duration::from_secs(2), ..PATIENT });
    let mut later = listener.connect();
    assert_eq!(later.get("/").unwrap().text(), "here");
    later.send("GET / HTTP/1.1\r\nHost: loc").unwrap();
    assert!(later.is_ended());
}

#[test]
fn a_resting_connection_is_closed_after_the_idle_limit_and_not_with_a_reset() {
    let listener = Listener::start(ServerLimits { idle: SOON, ..PATIENT });
    let mut connection = listener.connect();
    assert_eq!(connection.get("/").unwrap().text(), "here");
    assert_eq!(connection.rest().unwrap(), b"");
}

#[test]
fn a_client_that_never_reads_its_answer_is_cut_off() {
    let listener = Listener::start(ServerLimits { write: SOON, ..PATIENT });
    let mut connection = listener.connect();
    let asked = Instant::now();
    connection.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // The first byte shows that the answer is under way.
    connection.peek_one().unwrap();
    while listener.metrics.open.get() > 0 {
        assert!(asked.elapsed() < TEST_TIMEOUT, "it is cut off");
        std::thread::yield_now();
    }
    assert!(asked.elapsed() >= SOON, "it had the time to read that the limit grants");
    assert_is_a_part(&connection.cut_short());
    listener.stop();
    listener.wait_for_end();
}

/// Fails unless `sent` is the beginning of the large answer, and not all of it.
fn assert_is_a_part(sent: &[u8]) {
    assert!(sent.starts_with(b"HTTP/1.1 200 "), "{:?}", String::from_utf8_lossy(&sent[..sent.len().min(100)]));
    assert!(sent.len() < LARGE_BYTES, "{} bytes", sent.len());
}

#[test]
fn a_client_that_reads_slowly_gets_its_whole_answer_however_short_the_idle_limit() {
    let listener = Listener::start(ServerLimits { idle: SOON, ..PATIENT });
    let mut slow = listener.connect();
    slow.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    slow.peek_one().unwrap();
    for _ in 0..3 {
        let mut resting = listener.connect();
        assert_eq!(resting.get("/").unwrap().text(), "here");
        assert_eq!(resting.rest().unwrap(), b"", "the idle limit has passed");
    }
    assert_eq!(slow.answer().unwrap().body.len(), LARGE_BYTES);
    assert_eq!(slow.rest().unwrap(), b"", "and then it may rest no longer than any other");
}

#[test]
fn at_the_limit_a_new_connection_ends_one_that_rests_and_one_in_a_request_is_kept() {
    let (app, entries, release) = holding_app();
    let listener = Listener::serving(ServerLimits { connections: 3, ..PATIENT }, Routes(app));
    let mut working = listener.connect();
    working.send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    entries.recv_timeout(TEST_TIMEOUT).unwrap();
    let (mut first, mut second) = (listener.connect(), listener.connect());
    first.get("/").unwrap();
    second.get("/").unwrap();
    // This waits until the server has noticed that the connections are idle.
    let end = Instant::now() + TEST_TIMEOUT;
    while listener.connect().get("/").is_err() {
        assert!(Instant::now() < end);
    }
    assert!(listener.metrics.connections.resting.get() >= 1);
    assert_eq!(listener.metrics.connections.slow.get(), 0);
    release.send_replace(true);
    assert_eq!(working.answer().unwrap().text(), "held");
}

#[test]
fn a_client_that_closes_its_side_after_its_request_gets_its_answer() {
    let (app, entries, release) = holding_app();
    let listener = Listener::serving(PATIENT, Routes(app));
    let mut half = listener.connect();
    half.send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    half.finish_sending().unwrap();
    entries.recv_timeout(TEST_TIMEOUT).unwrap();
    // The end of input has arrived by now, as it was sent before this.
    assert_eq!(listener.connect().get("/").unwrap().text(), "here");
    release.send_replace(true);
    assert_eq!(half.answer().unwrap().text(), "held");
    assert_eq!(half.rest().unwrap(), b"");
}

#[test]
fn bytes_of_a_body_that_was_not_read_are_never_a_request() {
    let listener = Listener::start(PATIENT);
    for framing in
        ["Content-Length: 1000", "Content-Length: 1000\r\nExpect: 100-continue", "Transfer-Encoding: chunked"]
    {
        let mut connection = listener.connect();
        connection.send(format!("POST /nowhere HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n")).unwrap();
        let answer = connection.answer().unwrap();
        assert_eq!((answer.status, answer.closes()), (404, true), "{framing}");
        let _ = connection.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(connection.is_ended(), "{framing}");
    }
}

#[test]
fn a_stalled_body_and_a_client_that_does_not_read_do_not_hold_the_stop() {
    let listener = Listener::start(ServerLimits { stalled_at_stop: SOON, ..PATIENT });
    let (mut uploading, mut reading) = (listener.connect(), listener.connect());
    uploading.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nwh").unwrap();
    reading.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    reading.peek_one().unwrap();
    let told = Instant::now();
    listener.stop();
    let answer = uploading.cut_short();
    assert!(told.elapsed() >= SOON, "it had the time that the limit grants");
    assert!(!answer.starts_with(b"HTTP/1.1 200 "), "half a body is not answered");
    listener.wait_for_end();
    assert_is_a_part(&reading.cut_short());
}

/// Limits with little memory for requests and for answers.
const SCARCE: ServerLimits = ServerLimits { receiving: 1024 * 1024, sending: 4 * 1024 * 1024, ..PATIENT };

#[test]
fn heads_that_stall_hold_no_more_than_the_budget_and_keep_nobody_out() {
    let listener = Listener::start(SCARCE);
    let head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(30_000));
    let mut stalled = Vec::new();
    for _ in 0..400 {
        let mut connection = listener.connect();
        let _ = connection.send(&head);
        stalled.push(connection);
        assert!(listener.metrics.receiving.held.get() <= 1280 * 1024);
    }
    // A request is answered as soon as some of these connections have stalled for a moment.
    let end = Instant::now() + TEST_TIMEOUT;
    while !get_once(listener.address, "/").is_ok_and(|answer| answer.status == 200) {
        assert!(Instant::now() < end);
    }
    let receiving = &listener.metrics.receiving;
    assert!(receiving.refused.get() + receiving.evicted.get() > 0, "nothing was charged");
}

#[test]
fn clients_that_do_not_read_hold_no_more_than_the_budget_and_keep_nobody_out() {
    let app = app().route("/page", get(|| async { vec![b'x'; 700 * 1024] }));
    // The service's router asks for room. The router of this test has none of its layers, so this one is added.
    let app = app.layer(axum::middleware::from_fn(take_room));
    let listener = Listener::serving(SCARCE, Routes(app));
    let mut deaf = Vec::new();
    for _ in 0..200 {
        let mut connection = listener.connect();
        connection.send("GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        deaf.push(connection);
        assert!(listener.metrics.sending.held.get() <= 5 * 1024 * 1024);
    }
    let end = Instant::now() + TEST_TIMEOUT;
    while !get_once(listener.address, "/page").is_ok_and(|answer| answer.body.len() == 700 * 1024) {
        assert!(Instant::now() < end);
    }
    assert!(listener.metrics.sending.evicted.get() > 0);
}

async fn take_room(request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    use axum::response::IntoResponse;
    use http_body::Body as _;

    let room = request.extensions().get::<handbill::server::AnswerBudget>().expect("the server puts it there").clone();
    let unavailable = || http::StatusCode::SERVICE_UNAVAILABLE.into_response();
    if room.ask(u64::MAX).is_err() {
        return unavailable();
    }
    let response = next.run(request).await;
    if room.take(response.body().size_hint().lower()).is_err() { unavailable() } else { response }
}

#[test]
fn an_answer_that_is_under_way_at_the_stop_arrives_whole() {
    let listener = Listener::start(PATIENT);
    let mut connection = listener.connect();
    connection.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    connection.peek_one().unwrap();
    listener.stop();
    while Connection::open(listener.address).is_ok_and(|mut refused| refused.is_ended()) {}
    assert_eq!(connection.answer().unwrap().body.len(), LARGE_BYTES);
    listener.wait_for_end();
}

#[test]
fn while_leaving_each_answer_asks_its_client_to_go_and_new_clients_are_served() {
    let listener = Listener::start(PATIENT);
    let mut resting = listener.connect();
    assert!(!resting.get("/").unwrap().closes());
    listener.phase.send_replace(Phase::Leaving);
    let answer = resting.get("/").unwrap();
    assert_eq!((answer.text(), answer.closes()), ("here", true));
    assert_eq!(resting.rest().unwrap(), b"");
    assert!(listener.connect().get("/").unwrap().closes());
}

#[test]
fn a_client_that_goes_on_sending_what_nobody_reads_is_cut_off() {
    let listener = Listener::start(PATIENT);
    let mut endless = listener.connect();
    endless.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 65536, "x".repeat(65536));
    assert!((0..2000).any(|_| endless.send(&chunk).is_err()), "it took 125 MB");
    let mut silent = listener.connect();
    silent.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n").unwrap();
    assert_eq!(silent.answer().unwrap().status, 404);
    listener.stop();
    listener.wait_for_end();
}

#[test]
fn the_body_that_never_comes_is_answered_408() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let answer = runtime.block_on(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let store = SqliteStore::temporary().unwrap();
        let (_phase, phases) = watch::channel(Phase::Serving);
        let app = unlimited::front(Arc::new(store), &Deps::system());
        tokio::spawn(serve(listener, app, ServerLimits::PUBLIC, no_proxies(), ServerMetrics::default(), phases));
        let mut client = TcpSocket::new_v4().unwrap().connect(address).await.unwrap();
        let request = "POST /api/pages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{\"title\"";
        client.write_all(request.as_bytes()).await.unwrap();
        // Time advances by itself when there is nothing else to do, so that this takes none.
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    });
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains(r#""error":"timeout""#), "{answer}");
}
