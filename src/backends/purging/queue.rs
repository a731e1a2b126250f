//! Purges that wait to be repeated.
//!
//! They are in memory only. A purge that is lost with the process, or given up, does limited harm: no cache shows the
//! old page for longer than operators allow caches to keep one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::caches::{Caches, PurgeError};
use crate::telemetry::labels::PurgeLabels;
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::slug::Slug;

/// Pause before purges are repeated.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Shortest time for which a purge is repeated, even if caches may keep a page only for a shorter time.
const SHORTEST_REPEATING: Duration = Duration::from_mins(10);

/// Most purges that wait. Each takes about 100 bytes.
const MAX_WAITING: usize = 10_000;

/// Purges that are repeated at the same time.
const AT_ONCE: usize = 16;

/// Makes changes known to shared caches. Clones share one queue.
#[derive(Clone)]
pub struct Purges(Arc<Shared>);

struct Shared {
    caches: Caches,
    repeat_for: Duration,
    queue: Mutex<Queue>,
    added: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether the log says that purges fail.
    is_failing: bool,
}

struct Waiting {
    slug: Slug,
    /// When the purge is of no use any more.
    expires: Instant,
}

impl Purges {
    /// Purges from `caches`, and begins to repeat what fails for as long as a page may be kept, which is `bound`. This
    /// function must be called within the runtime that will repeat the purges.
    pub fn start(caches: Caches, bound: Duration, metrics: &Arc<Metrics>) -> Self {
        let shared = Arc::new(Shared {
            caches,
            repeat_for: bound.max(SHORTEST_REPEATING),
            queue: Mutex::default(),
            added: Notify::new(),
            metrics: Arc::clone(metrics),
        });
        tokio::spawn(Arc::clone(&shared).repeat());
        Self(shared)
    }

    /// Purges the page `slug`. After `patience`, or a failure, the purge is repeated in the background.
    pub(super) async fn purge(&self, slug: &Slug, patience: Duration) {
        match timeout(patience, self.0.caches.purge(slug)).await {
            Ok(Ok(())) => self.0.count("done", 1),
            Ok(Err(error)) => self.0.put_off(slug, &error.to_string()),
            Err(_) => self.0.put_off(slug, "a cache did not answer in time"),
        }
    }
}

impl Shared {
    fn count(&self, outcome: &'static str, purges: u64) {
        self.metrics.edge_purges.get_or_create(&PurgeLabels { outcome }).inc_by(purges);
    }

    fn put_off(&self, slug: &Slug, reason: &str) {
        self.count("put_off", 1);
        let mut queue = self.queue.lock();
        let expires = Instant::now() + self.repeat_for;
        // One purge of a page removes all of its changes, so a page waits only once.
        if let Some(waiting) = queue.waiting.iter_mut().find(|waiting| waiting.slug == *slug) {
            waiting.expires = expires;
        } else if queue.waiting.len() < MAX_WAITING {
            queue.waiting.push_back(Waiting { slug: slug.clone(), expires });
        } else {
            self.count("given_up", 1);
        }
        self.report(&mut queue, Some(reason));
        self.added.notify_one();
    }

    /// Updates the gauge, and logs when purges begin to fail and when none waits any more.
    fn report(&self, queue: &mut Queue, failure: Option<&str>) {
        self.metrics.edge_purges_waiting.set(i64::try_from(queue.waiting.len()).unwrap_or(i64::MAX));
        match failure {
            Some(reason) if !queue.is_failing => {
                tracing::warn!(
                    reason,
                    "a page could not be purged from a shared cache, which may show its old text; this is repeated"
                );
                queue.is_failing = true;
            }
            None if queue.is_failing && queue.waiting.is_empty() => {
                tracing::info!("no purge of a shared cache waits any more");
                queue.is_failing = false;
            }
            _ => {}
        }
    }

    async fn repeat(self: Arc<Self>) {
        loop {
            self.added.notified().await;
            while !self.queue.lock().waiting.is_empty() {
                sleep(REPEAT_PAUSE).await;
                self.repeat_all().await;
            }
        }
    }

    /// Repeats each waiting purge once, and stops at the first failure: its cache is probably down, and the other
    /// purges wait for the next round.
    async fn repeat_all(&self) {
        let mut left = self.queue.lock().waiting.len();
        while left > 0 {
            let some: Vec<Waiting> = {
                let mut queue = self.queue.lock();
                let size = left.min(AT_ONCE).min(queue.waiting.len());
                queue.waiting.drain(..size).collect()
            };
            left = if some.is_empty() { 0 } else { left - some.len() };
            let (valid, expired): (Vec<_>, Vec<_>) =
                some.into_iter().partition(|waiting| waiting.expires > Instant::now());
            let repeated = join_all(valid.iter().map(|waiting| self.caches.purge(&waiting.slug))).await;
            let failure = self.settle(valid, &repeated);
            self.count("given_up", expired.len() as u64);
            if failure {
                return;
            }
        }
    }

    /// Puts the purges that failed back behind the others. Returns whether there are any.
    fn settle(&self, purges: Vec<Waiting>, repeated: &[Result<(), PurgeError>]) -> bool {
        let mut queue = self.queue.lock();
        let mut failure = None;
        for (waiting, result) in purges.into_iter().zip(repeated) {
            match result {
                Ok(()) => self.count("repeated", 1),
                Err(error) => {
                    failure = Some(error.to_string());
                    // The page may have changed once more meanwhile.
                    if queue.waiting.iter().all(|other| other.slug != waiting.slug) {
                        queue.waiting.push_back(waiting);
                    }
                }
            }
        }
        self.report(&mut queue, failure.as_deref());
        failure.is_some()
    }
}
