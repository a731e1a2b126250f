//! The listener over real sockets. Time is paused in most tests: it advances by itself when nothing else happens, so a
//! limit of a minute takes none.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::{sync::Arc, time::Duration};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::{get, post};
use futures_util::future::join_all;
use handbill::http::listener::{ConnectionLimits, Phase, listen, serve};
use handbill::telemetry::metrics::Metrics;
use handbill_pages::values::client::Peer;
use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use crate::in_process::app::Setup;

const LARGE_BYTES: usize = 16 * 1024 * 1024;

const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 100, connections_per_client: 100, exempt: Vec::new(), bodies: 1024 * 1024 };

const GET: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";
const GET_HELD: &str = "GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n";

const PEER: Peer = Peer(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1));

struct Listener {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    phase: watch::Sender<Phase>,
    serving: JoinHandle<()>,
    entered: mpsc::UnboundedReceiver<()>,
    release: watch::Sender<bool>,
}

impl Listener {
    fn start(limits: ConnectionLimits) -> Self {
        tokio::time::pause();
        let ((enter, entered), (release, released)) = (mpsc::unbounded_channel(), watch::channel(false));
        let held = move || {
            enter.send(()).unwrap();
            let mut released = released.clone();
            async move { released.wait_for(|&released| released).await.map(|_| "held").unwrap() }
        };
        let app = Router::new()
            .route("/", get("here"))
            .route("/held", get(held))
            .route("/large", get(|| async { vec![b'x'; LARGE_BYTES] }))
            .route("/echo", post(|body: Bytes| async { body }));
        Self { entered, release, ..Self::of(app, limits) }
    }

    /// Serves `app`, in which nothing is held.
    fn of(app: Router, limits: ConnectionLimits) -> Self {
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap(), "--listen").unwrap();
        let metrics = Arc::<Metrics>::default();
        let (phase, phases) = watch::channel(Phase::Serving);
        let serving = tokio::spawn(serve(listener, app, limits, Arc::clone(&metrics), phases));
        let (entered, release) = (mpsc::unbounded_channel().1, watch::channel(false).0);
        Self { address, metrics, phase, serving, entered, release }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// A new client that was answered once.
    async fn answered(&self) -> Client {
        let mut client = self.connect().await;
        client.ask().await;
        client
    }

    async fn stop(self) {
        self.phase.send_replace(Phase::Stopping);
        ends("the listener should have stopped", self.serving).await.unwrap();
        assert_eq!(self.metrics.connections.get(), 0);
    }
}

/// Longer than every time limit of the listener.
const LONGEST: Duration = Duration::from_hours(1);

/// Fails if `work` does not end, which takes no real time while the clock is paused.
async fn ends<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(LONGEST, work).await.unwrap_or_else(|_| panic!("{what}, but nothing happened in {LONGEST:?}"))
}

struct Client(TcpStream);

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Asks for `/`, and returns the answer.
    async fn ask(&mut self) -> String {
        self.send(GET).await;
        self.until("here").await
    }

    async fn until(&mut self, end: &str) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let byte = ends("the server should have answered", self.0.read_u8()).await;
            answer.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&answer))));
        }
        String::from_utf8(answer).unwrap()
    }

    /// Fails unless the connection ends, by a reset or not, before anything else comes.
    async fn is_ended(&mut self) {
        let mut rest = Vec::new();
        let _ = ends("the connection should have ended", self.0.read_to_end(&mut rest)).await;
        assert_eq!(rest, b"");
    }

    /// Reads to the end of the connection, which must not be a reset.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        ends("the connection should have ended", self.0.read_to_end(&mut rest)).await.unwrap();
        rest
    }
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_its_connection() {
    let listener = Listener::start(LIMITS);
    let (began, mut stalled) = (Instant::now(), listener.connect().await);
    stalled.send("GET / HTTP/1.1\r\nHost: loc").await;
    assert_eq!(stalled.rest().await, b"");
    assert!((75..80).contains(&began.elapsed().as_secs()));

    let mut resting = listener.answered().await;
    let began = Instant::now();
    assert_eq!(resting.rest().await, b"");
    assert!((75..80).contains(&began.elapsed().as_secs()));
    listener.stop().await;
}

#[tokio::test]
async fn a_head_that_never_ends_is_refused_at_its_limit() {
    let listener = Listener::start(LIMITS);
    let mut endless = listener.connect().await;
    endless.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}", "x".repeat(20 * 1024))).await;
    let began = Instant::now();
    assert!(endless.until("\r\n\r\n").await.starts_with("HTTP/1.1 431 "));
    assert!(began.elapsed() < Duration::from_mins(1), "it was not the time that ended it");
    drop(endless);
    listener.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut_off() {
    let listener = Listener::start(LIMITS);
    let mut deaf = listener.connect().await;
    deaf.send(GET_LARGE).await;
    deaf.0.readable().await.unwrap();
    let cut_off = async {
        while listener.metrics.connections.get() > 0 {
            sleep(Duration::from_secs(1)).await;
        }
    };
    ends("a client that does not read should have been cut off", cut_off).await;
    let mut sent = Vec::new();
    let _ = deaf.0.read_to_end(&mut sent).await;
    assert!(sent.starts_with(b"HTTP/1.1 200 ") && sent.len() < LARGE_BYTES, "{} bytes", sent.len());
    listener.stop().await;
}

#[tokio::test]
async fn beyond_the_number_of_connections_a_client_waits() {
    let mut listener = Listener::start(ConnectionLimits { connections: 1, ..LIMITS });
    let mut first = listener.connect().await;
    first.send(GET_HELD).await;
    listener.entered.recv().await.unwrap();
    let mut second = listener.connect().await;
    second.send(GET).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(listener.metrics.connections.get(), 1);
    listener.release.send_replace(true);
    assert!(first.until("held").await.contains("connection: close"));
    second.until("here").await;
    listener.stop().await;
}

#[tokio::test]
async fn for_a_new_client_the_one_that_stalls_longest_gives_way() {
    let listener = Listener::start(ConnectionLimits { connections: 2, ..LIMITS });
    let mut stalled = listener.connect().await;
    stalled.send("GET / HTTP/1.1\r\nHost: loc").await;
    let mut resting = listener.answered().await;
    let _fresh = listener.answered().await;
    stalled.is_ended().await;
    resting.ask().await;
    assert_eq!(listener.metrics.connections.get(), 2);
    listener.stop().await;
}

#[tokio::test]
async fn for_a_new_client_the_one_whose_body_is_awaited_longest_gives_way() {
    let listener = Listener::start(ConnectionLimits { connections: 2, ..LIMITS });
    let mut stalled = [listener.connect().await, listener.connect().await];
    for client in &mut stalled {
        client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n").await;
    }
    // A byte now and then does not make the wait a new one.
    for _ in 0..10 {
        sleep(Duration::from_secs(1)).await;
        stalled[0].send("x").await;
    }
    let began = Instant::now();
    let mut kept = Vec::new();
    for mut stalled in stalled {
        kept.push(listener.answered().await);
        stalled.is_ended().await;
    }
    assert!(began.elapsed() < Duration::from_secs(1), "no time limit ended them: {:?}", began.elapsed());
    listener.stop().await;
}

#[tokio::test]
async fn beyond_its_share_a_client_is_refused_at_once() {
    let listener = Listener::start(ConnectionLimits { connections_per_client: 1, ..LIMITS });
    let mut first = listener.answered().await;
    let mut second = listener.connect().await;
    assert_eq!(second.rest().await, b"");
    assert_eq!((listener.metrics.connections.get(), listener.metrics.connections_refused.get()), (1, 1));
    first.ask().await;
    drop((first, second));
    listener.stop().await;
}

/// Time that stands still while this lives, whatever else happens, and passes only by `tokio::time::advance`.
struct Stopped {
    _end: std::sync::mpsc::Sender<()>,
}

impl Stopped {
    /// Tokio lets no paused time pass while a thread works.
    fn clock() -> Self {
        let (end, ended) = std::sync::mpsc::channel();
        drop(tokio::task::spawn_blocking(move || ended.recv()));
        Self { _end: end }
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_its_whole_answer() {
    const STEP: usize = 1024 * 1024;
    let listener = Listener::start(LIMITS);
    let stopped = Stopped::clock();
    let socket = TcpSocket::new_v4().unwrap();
    // The system must not keep a step of the answer, or the server would not take part in it.
    socket.set_recv_buffer_size(128 * 1024).unwrap();
    let mut slow = Client(socket.connect(listener.address).await.unwrap());
    slow.send(GET_LARGE).await;
    slow.until("\r\n\r\n").await;
    let mut step = vec![0; STEP];
    for _ in 0..LARGE_BYTES / STEP {
        tokio::time::advance(Duration::from_secs(10)).await;
        slow.0.read_exact(&mut step).await.unwrap();
    }
    drop((stopped, slow));
    listener.stop().await;
}

#[tokio::test]
async fn kept_connections_lose_no_request_at_a_stop_without_delay() {
    let listener = Listener::start(LIMITS);
    let stopped = Stopped::clock();
    let mut kept = Vec::new();
    for _ in 0..20 {
        kept.push(listener.answered().await);
    }
    listener.phase.send_replace(Phase::Stopping);
    for client in &mut kept {
        assert!(client.ask().await.contains("connection: close"));
        assert_eq!(client.rest().await, b"");
    }
    assert!(listener.connect().await.ask().await.contains("connection: close"));
    drop(stopped);
    listener.stop().await;
}

#[tokio::test]
async fn connections_that_wait_to_be_accepted_at_a_stop_are_answered() {
    let listener = Listener::start(LIMITS);
    let stopped = Stopped::clock();
    listener.phase.send_replace(Phase::Stopping);
    tokio::task::yield_now().await;
    // The server has no turn until all of them wait.
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut client = std::net::TcpStream::connect(listener.address).unwrap();
        client.write_all(GET.as_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        waiting.push(Client(TcpStream::from_std(client).unwrap()));
    }
    tokio::time::advance(Duration::from_millis(60)).await;
    for client in &mut waiting {
        assert!(client.until("here").await.contains("connection: close"));
    }
    drop(stopped);
    listener.stop().await;
}

#[tokio::test]
async fn a_client_that_connected_before_a_stop_may_still_ask() {
    let listener = Listener::start(LIMITS);
    let stopped = Stopped::clock();
    let mut distant = listener.connect().await;
    listener.phase.send_replace(Phase::Stopping);
    for _ in 0..24 {
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert!(distant.ask().await.contains("connection: close"));
    drop(stopped);
    listener.stop().await;
}

#[tokio::test]
async fn a_client_that_closes_its_side_gets_its_answer() {
    let mut listener = Listener::start(LIMITS);
    let mut half = listener.connect().await;
    half.send(GET_HELD).await;
    half.0.shutdown().await.unwrap();
    listener.entered.recv().await.unwrap();
    sleep(Duration::from_mins(1)).await;
    listener.release.send_replace(true);
    assert!(half.rest().await.ends_with(b"held"));
    listener.stop().await;
}

#[tokio::test]
async fn bytes_of_a_body_that_was_not_read_are_never_a_request() {
    let listener = Listener::start(LIMITS);
    for framing in [
        "Content-Length: 1000",
        "Content-Length: 1000\r\nExpect: 100-continue",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
    ] {
        let mut client = listener.connect().await;
        client.send(format!("POST /nowhere HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n")).await;
        let answer = client.until("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("connection: close\r\n"), "{framing}: {answer}");
        let _ = client.0.write_all(GET.as_bytes()).await;
        client.is_ended().await;
    }
    listener.stop().await;
}

#[tokio::test]
async fn a_length_beside_chunks_ends_the_connection() {
    let listener = Listener::start(LIMITS);
    for lengths in
        ["Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 4"]
    {
        let mut client = listener.connect().await;
        let head = format!("POST /echo HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n");
        client.send(format!("{head}2\r\nab\r\n0\r\n\r\n{GET}")).await;
        assert!(client.until("\r\n\r\nab").await.starts_with("HTTP/1.1 200 "), "{lengths}");
        client.is_ended().await;
    }
    listener.stop().await;
}

#[tokio::test]
async fn different_lengths_are_refused_before_any_of_the_body() {
    let listener = Listener::start(LIMITS);
    for lengths in ["Content-Length: 2\r\nContent-Length: 4", "Content-Length: 2, 4"] {
        let mut client = listener.connect().await;
        client.send(format!("POST /echo HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\nabcd")).await;
        assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 400 "), "{lengths}");
        client.is_ended().await;
    }
    listener.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_on_sending_what_nobody_reads_is_cut_off() {
    let listener = Listener::start(LIMITS);
    let mut endless = listener.connect().await;
    endless.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let chunk = format!("{:x}\r\n{}\r\n", 65536, "x".repeat(65536));
    let mut sent = 0;
    while ends("the sender should have been cut off", endless.0.write_all(chunk.as_bytes())).await.is_ok() {
        sent += chunk.len();
        assert!(sent < 64 * 1024 * 1024);
    }
    listener.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_under_way_at_the_stop_arrives_whole() {
    let listener = Listener::start(LIMITS);
    // The time that the system takes to carry an answer must not count as nobody's.
    tokio::time::resume();
    let mut client = listener.connect().await;
    client.send(GET_LARGE).await;
    client.0.readable().await.unwrap();
    listener.phase.send_replace(Phase::Stopping);
    assert!(client.rest().await.len() > LARGE_BYTES);
    listener.stop().await;
}

#[tokio::test]
async fn while_leaving_each_answer_asks_its_client_to_go() {
    let listener = Listener::start(LIMITS);
    let mut resting = listener.connect().await;
    assert!(!resting.ask().await.contains("connection: close"));
    listener.phase.send_replace(Phase::Leaving);
    assert!(resting.ask().await.contains("connection: close"));
    assert_eq!(resting.rest().await, b"");
    assert!(listener.connect().await.ask().await.contains("connection: close"));
    listener.stop().await;
}

/// A create whose body has `bytes` bytes, of which `sent` are there.
fn create(bytes: usize, sent: usize) -> String {
    let head = "POST /api/pages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    format!("{head}Connection: close\r\nContent-Length: {bytes}\r\n\r\n{}", " ".repeat(sent))
}

#[tokio::test]
async fn bodies_together_hold_no_more_than_they_may() {
    let listener = Listener::of(Setup::unlimited().start().front(), ConnectionLimits { bodies: 1000, ..LIMITS });
    let mut stalled = listener.connect().await;
    stalled.send(create(2000, 900)).await;
    let answer = async || {
        let mut client = listener.connect().await;
        client.send(create(200, 200)).await;
        String::from_utf8(client.rest().await).unwrap()
    };
    let mut accepted = 0;
    while answer().await.starts_with("HTTP/1.1 400 ") {
        accepted += 1;
        assert!(accepted < 10_000, "the stalled body is not counted");
    }
    let refused = answer().await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: "), "{refused}");
    drop(stalled);
    let mut refused = 0;
    while answer().await.starts_with("HTTP/1.1 503 ") {
        refused += 1;
        assert!(refused < 10_000, "the stalled body is still counted");
    }
    listener.stop().await;
}

#[tokio::test]
async fn large_answers_together_hold_no_more_than_they_may() {
    let app = Setup::unlimited().start();
    let page = app.publish("Large", &"&".repeat(100_000)).await;
    let ask = async |method: &str, target: &str, body: String| {
        let fields = Request::builder().header("host", "pages.example").header("content-type", "application/json");
        let fields = fields.header("accept", "application/json, text/event-stream").extension(PEER);
        let request = fields.header("mcp-protocol-version", "2025-11-25").method(method).uri(target);
        app.front().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
    };
    let read = async || ask("GET", &format!("/{}", page.slug), String::new()).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "get_page", "arguments": {"slug": page.slug, "include_html": true},
    }});
    // Many readers of one page hold its bytes once: the first one put them into the cache.
    drop(read().await);
    let readers = join_all((0..200).map(|_| read())).await;
    assert!(readers.iter().all(|answer| answer.status() == StatusCode::OK));
    let mut held = Vec::new();
    let refused = loop {
        let answer = ask("POST", "/mcp", call.to_string()).await;
        if answer.status() != StatusCode::OK {
            break answer;
        }
        held.push(answer);
        assert!(held.len() < 1000);
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(read().await.status(), StatusCode::OK, "its bytes are counted already");
    drop(readers);
    held.pop();
    assert_eq!(ask("POST", "/mcp", call.to_string()).await.status(), StatusCode::OK);
}
