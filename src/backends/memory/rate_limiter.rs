//! Sliding windows in memory: exact, and bounded however many clients come.

use std::collections::hash_map::RandomState;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;

use crate::domain::client::Client;
use crate::domain::quota::{Counted, Decision, Quota};
use crate::ports::clock::SharedClock;
use crate::ports::rate_limiter::{LimitKind, RateLimiter};

/// Most clients whose windows are kept for one limit.
///
/// An entry is about 200 bytes and 16 for each attempt that its window may count, rounded up to a power of two: with the
/// specification's limits at most 45 MB of creates and 120 MB each of edits and tokens, if 100 000 clients
/// use their limits up within one window; 20 MB each if they come once. Beyond, the window that ends soonest is dropped,
/// and that client may begin a new one early. Whoever can fill the table has that many addresses to begin with.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

/// Ended windows that one decision drops at most: more than the one that it may add, so that they cannot pile up, and
/// few enough that no call waits for the clearing of a full table.
const ENDED_PER_DECISION: usize = 8;

/// Windows by client, ordered by the last admitted attempt. That attempt is the last to leave a window, so the first in
/// this order is also the first to end.
type Windows = LruCache<Client, Counted, RandomState>;

/// Counts attempts in this process. A restart forgets them.
///
/// Clients choose their addresses, so the tables are hashed with a key that they cannot know.
pub struct MemoryRateLimiter {
    clock: SharedClock,
    create: Mutex<Windows>,
    edit: Mutex<Windows>,
    token: Mutex<Windows>,
}

impl MemoryRateLimiter {
    /// A limiter that has counted nothing.
    pub fn new(clock: SharedClock) -> Self {
        Self::with_capacity(clock, MAX_CLIENTS)
    }

    /// One that keeps the windows of at most `clients` clients for each limit.
    pub fn with_capacity(clock: SharedClock, clients: NonZeroUsize) -> Self {
        let windows = || {
            // Made without room and then bounded, since `with_hasher` takes the memory of a full table at once.
            let mut windows = Windows::unbounded_with_hasher(RandomState::new());
            windows.resize(clients);
            Mutex::new(windows)
        };
        Self { clock, create: windows(), edit: windows(), token: windows() }
    }

    /// How many clients have a window for `kind`, ended ones that were not yet dropped included.
    pub fn clients(&self, kind: LimitKind) -> usize {
        self.windows(kind).len()
    }

    /// Counts an attempt that another limiter admitted just now. Where that makes more than `quota` allows, the oldest
    /// are forgotten: they would be the first to leave.
    pub fn count(&self, kind: LimitKind, quota: Quota, client: Client) {
        let mut windows = self.windows(kind);
        let now = self.clock.monotonic();
        drop_ended(&mut windows, quota, now);
        let counted = windows.get_or_insert_mut(client, Counted::new);
        counted.push_back(now);
        while counted.len() > usize::try_from(quota.limit).unwrap_or(usize::MAX) {
            counted.pop_front();
        }
    }

    fn windows(&self, kind: LimitKind) -> MutexGuard<'_, Windows> {
        let windows = match kind {
            LimitKind::Create => &self.create,
            LimitKind::Edit => &self.edit,
            LimitKind::Token => &self.token,
        };
        // Nothing in here panics half-way; if it did, a window that is off by one beats a service that is down.
        windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops a few of the windows that have ended.
fn drop_ended(windows: &mut Windows, quota: Quota, now: Duration) {
    for _ in 0..ENDED_PER_DECISION {
        let first = windows.peek_lru().and_then(|(_, counted)| counted.back());
        if !first.is_some_and(|&newest| quota.has_left(newest, now)) {
            break;
        }
        windows.pop_lru();
    }
}

#[async_trait]
impl RateLimiter for MemoryRateLimiter {
    async fn check(&self, kind: LimitKind, quota: Quota, client: Client) -> Decision {
        let mut windows = self.windows(kind);
        // Under the lock, so that the order of decisions is the order of their times.
        let now = self.clock.monotonic();
        drop_ended(&mut windows, quota, now);
        if let Some(counted) = windows.peek_mut(&client) {
            let decision = quota.decide(counted, now);
            if decision.admitted {
                windows.promote(&client);
            }
            decision
        } else {
            let mut counted = Counted::new();
            let decision = quota.decide(&mut counted, now);
            if decision.admitted {
                windows.put(client, counted);
            }
            decision
        }
    }
}
