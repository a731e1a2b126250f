//! Takedowns as clients and the log see them, at one process or at several replicas.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use super::client::{Answer, get, post};

/// The answer to a create at `address`.
pub(crate) fn create(address: SocketAddr, content: &str) -> Answer {
    post(address, "A page", content).unwrap()
}

/// Creates a page, and returns its slug.
pub(crate) fn publish(address: SocketAddr, content: &str) -> String {
    let answer = create(address, content);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["slug"].as_str().unwrap().to_owned()
}

/// Creates `count` pages at `addresses` in turn.
pub(crate) fn publish_some(addresses: &[SocketAddr], content: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| publish(addresses[number % addresses.len()], &format!("{content} {number}"))).collect()
}

pub(crate) fn status(address: SocketAddr, path: &str) -> u16 {
    get(address, path).unwrap().status
}

/// Clients that read some pages and create others until they are stopped.
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Four clients that read the pages `slugs` at `addresses`. A page that one of them has seen deleted stays deleted, at
    /// every address.
    pub(crate) fn begin(addresses: &[SocketAddr], slugs: &[String]) -> Self {
        let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |number: usize| {
            let (addresses, slugs) = (addresses.to_vec(), slugs.to_vec());
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            thread::spawn(move || {
                let mut gone = BTreeSet::new();
                let mut at = number;
                while !is_over.load(Ordering::SeqCst) {
                    let slug = &slugs[at % slugs.len()];
                    let (address, next) = (addresses[at % addresses.len()], addresses[(at + 1) % addresses.len()]);
                    match status(address, &format!("/{slug}")) {
                        200 => assert!(!gone.contains(slug), "a page that was gone can be read again"),
                        410 => {
                            gone.insert(slug.clone());
                            assert_eq!(status(next, &format!("/{slug}")), 410);
                        }
                        other => panic!("{other}"),
                    }
                    if at.is_multiple_of(5) {
                        assert_eq!(create(address, "More text.").status, 201);
                    }
                    answered.fetch_add(1, Ordering::SeqCst);
                    at += 1;
                }
            })
        };
        let clients = (0..4).map(client).collect();
        Self { is_over, answered, clients }
    }

    /// Stops the clients. Fails if one of them saw a fault, or if nothing was answered.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().unwrap();
        }
        assert!(self.answered.load(Ordering::SeqCst) > 0, "there was load");
    }
}

/// Whether every representation of the pages `slugs` is 410 at every address.
pub(crate) fn assert_gone(addresses: &[SocketAddr], slugs: &[String]) {
    for address in addresses {
        for slug in slugs {
            for path in [format!("/{slug}"), format!("/{slug}.md"), format!("/api/pages/{slug}")] {
                assert_eq!(status(*address, &path), 410, "{path}");
            }
        }
    }
}

/// Whether `printed` says of each page that it was taken down, in the order of `slugs`.
pub(crate) fn assert_taken_down(printed: &str, slugs: &[String]) {
    let lines: Vec<String> = slugs.iter().map(|slug| format!("{slug}\ttaken_down")).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines);
}

/// The lines of `log` about acts of operators.
pub(crate) fn acts(log: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(|line: &Value| line["audit"] == true).collect()
}

/// Whether `acts` has one of `desk` on each page, because of spam.
pub(crate) fn assert_logged(acts: &[Value], action: &str, outcome: &str, slugs: &[String]) {
    let acted: BTreeSet<_> = acts.iter().map(|act| act["slug"].as_str().unwrap().to_owned()).collect();
    assert_eq!((acts.len(), acted), (slugs.len(), slugs.iter().cloned().collect()));
    for act in acts {
        let facts = ["reason", "by", "action", "outcome"].map(|field| act[field].as_str().unwrap());
        assert_eq!(facts, ["spam", "desk", action, outcome]);
    }
}
