//! Sliding windows in memory: exact and bounded.

use std::{collections::hash_map::RandomState, time::Duration};

use async_trait::async_trait;
use ipnet::IpNet;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};

use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_pages::values::client::Window;
use handbill_pages::values::quota::{Counted, Decision, Quota};
use handbill_pages::values::slug::{Reservation, Reserved};

/// Bytes, without the attempts.
const WINDOW_BYTES: usize = 200;

/// Bounds the time of a decision, which adds at most one window.
const ENDED_PER_DECISION: usize = 8;

/// By the last admitted attempt: the first window is the first to end.
struct Windows {
    counted: LruCache<IpNet, Counted, RandomState>,
    bytes: usize,
    most_bytes: usize,
}

/// A restart forgets the attempts. Clients choose their addresses, so the hash has a secret key.
pub struct MemoryRateLimiter {
    clock: SharedClock,
    creates: Mutex<Windows>,
    edits: Mutex<Windows>,
    tokens: Mutex<Windows>,
    previews: Mutex<Windows>,
}

impl MemoryRateLimiter {
    /// Takes at most `bytes`, unless one window alone is larger. A full table drops the window that ends soonest.
    pub fn within(bytes: usize, clock: SharedClock) -> Self {
        let [creates, edits, tokens, previews] = std::array::from_fn(|_| Mutex::new(Windows::new(bytes / 4)));
        Self { clock, creates, edits, tokens, previews }
    }

    /// Counts an attempt that Redis admitted, and forgets the oldest beyond the quota.
    pub fn count(&self, attempt: &Attempt) {
        let mut windows = self.windows(attempt.kind);
        let now = self.clock.monotonic();
        windows.drop_ended(attempt.own.quota, now);
        for &Window { network, quota } in attempt.windows() {
            windows.change(network, |counted| {
                counted.push(now);
                counted.keep_newest(quota.limit);
            });
        }
    }

    fn windows(&self, kind: LimitKind) -> MutexGuard<'_, Windows> {
        let windows = match kind {
            LimitKind::Create => &self.creates,
            LimitKind::Edit => &self.edits,
            LimitKind::Token => &self.tokens,
            LimitKind::Preview => &self.previews,
        };
        windows.lock()
    }
}

impl Windows {
    fn new(most_bytes: usize) -> Self {
        Self { counted: LruCache::unbounded_with_hasher(RandomState::new()), bytes: 0, most_bytes }
    }

    /// Then drops other windows until all fit.
    fn change<T>(&mut self, network: IpNet, change: impl FnOnce(&mut Counted) -> T) -> T {
        self.bytes += if self.counted.contains(&network) { 0 } else { bytes(&Counted::default()) };
        let counted = self.counted.get_or_insert_mut(network, Counted::default);
        let before = bytes(counted);
        let result = change(counted);
        self.bytes = self.bytes + bytes(counted) - before;
        while self.bytes > self.most_bytes && self.counted.len() > 1 {
            self.drop_first();
        }
        result
    }

    fn drop_ended(&mut self, quota: Quota, now: Duration) {
        for _ in 0..ENDED_PER_DECISION {
            let first = self.counted.peek_lru().and_then(|(_, counted)| counted.newest());
            if !first.is_some_and(|newest| quota.has_left(newest, now)) {
                break;
            }
            self.drop_first();
        }
    }

    fn has_room(&mut self, Window { network, quota }: &Window, now: Duration) -> bool {
        self.counted.peek_mut(network).is_none_or(|counted| quota.has_room(counted, now))
    }

    fn decide(&mut self, Window { network, quota }: &Window, admitted: bool, now: Duration) -> Decision {
        if admitted {
            return self.change(*network, |counted| quota.decide(counted, now));
        }
        quota.decision(admitted, self.counted.peek(network).unwrap_or(&Counted::default()), now)
    }

    fn drop_first(&mut self) {
        self.bytes -= self.counted.pop_lru().map_or(0, |(_, counted)| bytes(&counted));
    }
}

fn bytes(counted: &Counted) -> usize {
    WINDOW_BYTES + counted.bytes()
}

#[async_trait]
impl RateLimiter for MemoryRateLimiter {
    async fn check(&self, attempt: Attempt) -> Decision {
        let mut windows = self.windows(attempt.kind);
        // Under the lock, so decisions have the order of their times.
        let now = self.clock.monotonic();
        windows.drop_ended(attempt.own.quota, now);
        // Each look also drops old attempts, so there is no short circuit.
        let rooms: Vec<bool> = attempt.windows().map(|window| windows.has_room(window, now)).collect();
        let admitted = !rooms.contains(&false);
        let own = windows.decide(&attempt.own, admitted, now);
        own.restricted_by(attempt.wider.iter().map(|wider| windows.decide(wider, admitted, now)))
    }

    async fn reserve(&self, _: &Reservation) -> Reserved {
        Reserved::Unopposed
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::*;
    use handbill_pages::ports::clock::Clock;
    use handbill_pages::values::client::Client;
    use handbill_pages::values::client::{SharedNetwork, windows};
    use handbill_pages::values::timestamp::UnixMillis;

    const HOUR: Duration = Duration::from_hours(1);
    const MAX_LIMIT: u32 = 100_000;
    const TEN: Quota = Quota { limit: 10, window: HOUR };

    /// The memory of a window of at most four attempts.
    const SMALL_BYTES: usize = WINDOW_BYTES + 4 * size_of::<u64>();

    /// A clock that stands still until the test moves it.
    struct TestClock(Mutex<Duration>);

    impl TestClock {
        fn new() -> Self {
            Self(Mutex::default())
        }

        fn advance(&self, duration: Duration) {
            *self.0.lock() += duration;
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> UnixMillis {
            UnixMillis::new(0)
        }

        fn monotonic(&self) -> Duration {
            *self.0.lock()
        }
    }

    fn client(number: u32) -> Client {
        Client::from(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)))
    }

    /// The number of clients that have a window, including windows that have ended but were not dropped yet.
    fn clients(limiter: &MemoryRateLimiter, kind: LimitKind) -> usize {
        limiter.windows(kind).counted.len()
    }

    #[tokio::test]
    async fn ended_windows_are_dropped_though_no_client_returns() {
        let clock = Arc::new(TestClock::new());
        let limiter = MemoryRateLimiter::within(8 << 20, clock.clone());
        for number in 0..1000 {
            limiter.check(Attempt::new(LimitKind::Create, TEN, client(number))).await;
        }
        assert_eq!(clients(&limiter, LimitKind::Create), 1000);
        assert_eq!(clients(&limiter, LimitKind::Edit), 0);
        clock.advance(HOUR);
        for _ in 0..200 {
            limiter.check(Attempt::new(LimitKind::Create, TEN, client(5000))).await;
        }
        assert_eq!(clients(&limiter, LimitKind::Create), 1);
    }

    #[tokio::test]
    async fn a_refused_client_keeps_no_ended_windows_in_the_table() {
        let clock = Arc::new(TestClock::new());
        let limiter = MemoryRateLimiter::within(8 << 20, clock.clone());
        let quota = Quota { limit: 1, window: HOUR };
        limiter.check(Attempt::new(LimitKind::Create, quota, client(0))).await;
        clock.advance(Duration::from_mins(30));
        limiter.check(Attempt::new(LimitKind::Create, quota, client(1))).await;
        // This attempt is refused, so the window of client 0 is still the first to end.
        limiter.check(Attempt::new(LimitKind::Create, quota, client(0))).await;
        clock.advance(Duration::from_mins(30));
        limiter.check(Attempt::new(LimitKind::Create, quota, client(1))).await;
        assert_eq!(clients(&limiter, LimitKind::Create), 1);
    }

    #[tokio::test]
    async fn a_full_table_drops_the_window_that_ends_soonest() {
        let clock = Arc::new(TestClock::new());
        let limiter = MemoryRateLimiter::within(4 * 3 * SMALL_BYTES, clock.clone());
        let quota = Quota { limit: 2, window: HOUR };
        for number in [0, 1, 2, 0] {
            limiter.check(Attempt::new(LimitKind::Create, quota, client(number))).await;
            clock.advance(Duration::from_secs(1));
        }
        // Client 0 came last again, so the window of client 1 ends first.
        limiter.check(Attempt::new(LimitKind::Create, quota, client(3))).await;
        assert_eq!(clients(&limiter, LimitKind::Create), 3);
        assert!(!limiter.check(Attempt::new(LimitKind::Create, quota, client(0))).await.admitted);
        assert_eq!(limiter.check(Attempt::new(LimitKind::Create, quota, client(2))).await.remaining, 0);
        assert_eq!(limiter.check(Attempt::new(LimitKind::Create, quota, client(1))).await.remaining, 1);
    }

    #[tokio::test]
    async fn a_flood_of_clients_never_fills_more_than_the_table() {
        let limiter = MemoryRateLimiter::within(4 * 100 * SMALL_BYTES, Arc::new(TestClock::new()));
        for number in 0..10_000 {
            assert!(limiter.check(Attempt::new(LimitKind::Token, TEN, client(number))).await.admitted);
            assert!(clients(&limiter, LimitKind::Token) <= 100);
        }
    }

    #[tokio::test]
    async fn windows_of_any_size_take_no_more_than_the_table() {
        let clock = Arc::new(TestClock::new());
        let shared: [SharedNetwork; 1] = ["10.0.0.0/26=32".parse().unwrap()];
        let limiter = MemoryRateLimiter::within(4 * 50_000, clock.clone());
        let quota = Quota { limit: 600, window: HOUR };
        for number in 0..20_000 {
            let windows = windows(&shared, quota, client(number % 97 * (number / 5000 + 1)));
            let attempt = Attempt::within(LimitKind::Preview, windows).unwrap();
            if number % 7 == 0 {
                limiter.count(&attempt);
            } else {
                let _ = limiter.check(attempt).await;
            }
            clock.advance(Duration::from_millis(300));
            let windows = limiter.windows(LimitKind::Preview);
            let held: usize = windows.counted.iter().map(|(_, counted)| bytes(counted)).sum();
            assert_eq!(windows.bytes, held);
            // One window may be larger than the table.
            assert!(held <= 50_000 || windows.counted.len() == 1, "{held} bytes");
        }
    }

    #[tokio::test]
    async fn a_window_of_the_highest_limit_pushes_out_no_other() {
        // The windows of a process with 256 MiB.
        let limiter = MemoryRateLimiter::within(8 << 20, Arc::new(TestClock::new()));
        for number in 0..1000 {
            limiter.count(&Attempt::new(LimitKind::Edit, TEN, client(number)));
        }
        let highest = Attempt::new(LimitKind::Edit, Quota { limit: MAX_LIMIT, window: HOUR }, client(5000));
        for _ in 0..=MAX_LIMIT {
            limiter.count(&highest);
        }
        assert_eq!(clients(&limiter, LimitKind::Edit), 1001);
    }
}
