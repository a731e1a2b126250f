//! Writes and reads of pages through a cache, and the check that no read is stale.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::{Open, connect, exchange, send};

/// Pages that are written and read at the same time.
const PAGES: usize = 4;

/// Readers of each page.
const READERS: u64 = 3;

/// A page whose text is a number. It begins with 0.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) slug: String,
    pub(super) key: String,
}

/// The result of a history.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) reads: u64,
    /// Requests that were answered 503, as any may be while a disk stalls.
    pub(super) refused: u64,
    pub(super) writes: u64,
    /// A number that was read, and the number of the write that had been acknowledged before that read began.
    pub(super) stale: Option<(u64, u64)>,
}

/// Publishes a page with the text of 0.
pub(super) async fn published(address: SocketAddr, title: &str) -> Page {
    let body = json!({"title": title, "content": text(0)}).to_string();
    let request = Request::post("/api/pages").header(CONTENT_TYPE, "application/json").body(Bytes::from(body)).unwrap();
    let answer = send(address, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED, "{answer:?}");
    let page: Value = serde_json::from_slice(answer.body()).unwrap();
    let field = |name: &str| page[name].as_str().unwrap().to_owned();
    Page { slug: field("slug"), key: field("edit_key") }
}

/// Writes `number` as the text of `page`, and waits for the answer.
pub(super) async fn write(address: SocketAddr, page: &Page, number: u64) {
    let mut connection = connect(address).await.unwrap();
    assert!(try_write(&mut connection, page, number).await, "the write of {number} is refused");
}

/// The number in `page`, at its address followed by `suffix`.
pub(super) async fn read(address: SocketAddr, page: &Page, suffix: &str) -> u64 {
    number_in(&page_at(address, &format!("{}{suffix}", page.slug), "").await)
}

/// The answer at `/name`, asked for as `accept`.
pub(super) async fn page_at(address: SocketAddr, name: &str, accept: &str) -> Response<Bytes> {
    let request = Request::get(format!("/{name}")).header(ACCEPT, if accept.is_empty() { "*/*" } else { accept });
    send(address, request.body(Bytes::new()).unwrap()).await.unwrap()
}

/// The number in an answer.
pub(super) fn number_in(answer: &Response<Bytes>) -> u64 {
    assert_eq!(answer.status(), StatusCode::OK, "{answer:?}");
    let mut text = String::new();
    if answer.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip") {
        GzDecoder::new(&answer.body()[..]).read_to_string(&mut text).unwrap();
    } else {
        text.push_str(std::str::from_utf8(answer.body()).unwrap());
    }
    let (_, rest) = text.split_once("The number is ").unwrap_or_else(|| panic!("{text}"));
    rest.split('.').next().unwrap().parse().unwrap()
}

/// Changes each of some pages `writes` times through the cache at `address`, while others read them. A reader ends once its page has had
/// all its changes and it has read as often as there were changes, so every history has both, however fast either is on a machine.
pub(super) async fn interleave(address: SocketAddr, writes: u64) -> Seen {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for number in 0..PAGES {
        let page = published(address, &format!("Page {number}")).await;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (is_over_here, page_here, newest) = (Arc::clone(&is_over), page.clone(), Arc::clone(&acknowledged));
        tasks.spawn(async move {
            let mut seen = Seen::default();
            let mut connection = connect(address).await.unwrap();
            for number in 1..=writes {
                if is_over_here.load(Ordering::SeqCst) {
                    break;
                }
                // A write whose outcome is unknown is sent again: it says what the text is, not how it changes.
                while !try_write(&mut connection, &page_here, number).await {
                    seen.refused += 1;
                }
                newest.store(number, Ordering::SeqCst);
                seen.writes += 1;
            }
            seen
        });
        for reader in 0..READERS {
            let (is_over, page, newest) = (Arc::clone(&is_over), page.clone(), Arc::clone(&acknowledged));
            tasks.spawn(async move {
                let mut seen = Seen::default();
                let mut connection = connect(address).await.unwrap();
                let has_more = |reads: u64| reads < writes || newest.load(Ordering::SeqCst) < writes;
                while !is_over.load(Ordering::SeqCst) && has_more(seen.reads) {
                    let (path, coding) = match (seen.reads + reader) % 3 {
                        0 => (format!("/{}", page.slug), "identity"),
                        1 => (format!("/{}.md", page.slug), "identity"),
                        _ => (format!("/{}", page.slug), "gzip"),
                    };
                    let before = newest.load(Ordering::SeqCst);
                    let request = Request::get(path).header(ACCEPT, "text/html,*/*").header(ACCEPT_ENCODING, coding);
                    let answer = exchange(&mut connection, request.body(Bytes::new()).unwrap()).await.unwrap();
                    if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                        seen.refused += 1;
                        continue;
                    }
                    let number = number_in(&answer);
                    seen.reads += 1;
                    if number < before {
                        seen.stale = Some((number, before));
                        is_over.store(true, Ordering::SeqCst);
                    }
                }
                seen
            });
        }
    }
    let mut all = Seen::default();
    while let Some(seen) = tasks.join_next().await {
        let seen = seen.expect("no task panics");
        all = Seen {
            reads: all.reads + seen.reads,
            refused: all.refused + seen.refused,
            writes: all.writes + seen.writes,
            stale: all.stale.or(seen.stale),
        };
    }
    all
}

/// Writes `number` as the text of `page`: true if it was acknowledged, false if the answer was 503.
async fn try_write(connection: &mut Open, page: &Page, number: u64) -> bool {
    let body = json!({"content": text(number)}).to_string();
    let request = Request::patch(format!("/api/pages/{}", page.slug))
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, format!("Bearer {}", page.key))
        .body(Bytes::from(body))
        .unwrap();
    let answer = exchange(connection, request).await.unwrap();
    assert!(matches!(answer.status(), StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE), "{answer:?}");
    answer.status() == StatusCode::OK
}

/// A text that is long enough to be compressed.
fn text(number: u64) -> String {
    format!("The number is {number}.\n\n{}", "Some words that are the same in every version. ".repeat(10))
}
