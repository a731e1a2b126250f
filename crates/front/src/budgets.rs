//! Budgets of bytes: one for requests being received, one for answers being sent.
//!
//! Bytes are reserved before they are held and given back when they are freed. If they do not fit, [`super::shares`]
//! decides which connections end to make room. If no connection has to end, the caller gets [`Full`] before any work is
//! done.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::cut::Cut;
pub use super::shares::Full;
use super::shares::{Evicted, HolderId, Shares};
use crate::clients::Client;

/// Bytes that must move to count as progress. A client that moves fewer may only want to keep its place.
const PROGRESS_BYTES: u64 = 16 * 1024;

#[derive(Clone, Debug, Default)]
pub struct BudgetMetrics {
    /// Bytes held.
    pub held: Gauge,
    /// The most bytes that may be held.
    pub limit: Gauge,
    /// How often there was no room.
    pub refused: Counter,
    /// How many connections were ended to make room.
    pub evicted: Counter,
}

pub(super) struct Budget {
    limit: u64,
    state: Mutex<State>,
    metrics: BudgetMetrics,
}

struct State {
    shares: Shares<Arc<Cut>>,
    /// Bytes that ended connections have not given back yet.
    leaving: u64,
}

impl Budget {
    pub(super) fn new(limit: u64, metrics: BudgetMetrics) -> Arc<Self> {
        metrics.limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
        Arc::new(Self { limit, state: Mutex::new(State { shares: Shares::new(limit), leaving: 0 }), metrics })
    }

    /// Reserves `bytes` for `client`, which wait for this process (`is_ours`) or for the client. `cut` ends the client's
    /// connection if others need the room.
    pub(super) fn take(
        self: &Arc<Self>,
        client: Client,
        bytes: u64,
        is_ours: bool,
        cut: &Arc<Cut>,
    ) -> Result<Permit, Full> {
        let cut = Arc::clone(cut);
        let entered = self.reserve(
            |_| Some(client),
            bytes,
            |shares, now, evicted| shares.enter(client, bytes, is_ours, now, cut, evicted),
        );
        entered.map(|id| Permit { budget: Arc::clone(self), id, bytes, moved: 0 })
    }

    /// A time limit that shrinks as the budget fills up: `limit` at first, then a part of it.
    pub(super) fn tightened(&self, limit: Duration) -> Duration {
        let held = {
            let state = self.state.lock();
            state.shares.held() + state.leaving
        };
        tightened(limit, held, self.limit)
    }

    fn reserve<T>(
        &self,
        client: impl FnOnce(&Shares<Arc<Cut>>) -> Option<Client>,
        bytes: u64,
        enter: impl FnOnce(&mut Shares<Arc<Cut>>, Instant, &mut Vec<Evicted<Arc<Cut>>>) -> Result<T, Full>,
    ) -> Result<T, Full> {
        let mut evicted = Vec::new();
        let reserved = {
            let mut state = self.state.lock();
            // Evicted bytes stay in memory for a moment. These bytes must not add up, and clients that cause many
            // evictions must not keep others out.
            let is_behind = state.leaving > 0 && {
                let is_light = client(&state.shares).is_some_and(|client| state.shares.is_light(client, bytes));
                state.leaving + bytes > if is_light { self.limit / 2 } else { self.limit / 4 }
            };
            let reserved = if is_behind && state.shares.held() + state.leaving + bytes > self.limit {
                Err(Full)
            } else {
                enter(&mut state.shares, Instant::now(), &mut evicted)
            };
            state.leaving += evicted.iter().map(|evicted| evicted.units).sum::<u64>();
            self.measure(&state);
            reserved
        };
        for Evicted { handle, .. } in evicted {
            self.metrics.evicted.inc();
            handle.cut();
        }
        if reserved.is_err() {
            self.metrics.refused.inc();
        }
        reserved
    }

    fn update<T>(&self, update: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = update(&mut state);
        self.measure(&state);
        result
    }

    fn measure(&self, state: &State) {
        self.metrics.held.set(i64::try_from(state.shares.held() + state.leaving).unwrap_or(i64::MAX));
    }
}

/// The whole `limit` while less than half of `most` is held; then half of `limit`; from three quarters of `most` on a
/// quarter of `limit`; and in the last tenth of `most` an eighth of `limit`.
fn tightened(limit: Duration, held: u64, most: u64) -> Duration {
    match held.saturating_mul(100) / most.max(1) {
        0..50 => limit,
        50..75 => limit / 2,
        75..90 => limit / 4,
        _ => limit / 8,
    }
}

/// Reserved bytes. Dropping this gives them back.
pub(super) struct Permit {
    budget: Arc<Budget>,
    id: HolderId,
    bytes: u64,
    /// Bytes received or sent since progress was last recorded.
    moved: u64,
}

impl Permit {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the reservation to `bytes` in total.
    pub(super) fn resize(&mut self, bytes: u64) -> Result<(), Full> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => {
                let id = self.id;
                let client = |shares: &Shares<_>| shares.client_of(id);
                self.budget.reserve(client, more, |shares, now, evicted| shares.grow(id, more, now, evicted))?;
            }
            None => {
                // The bytes of an evicted holder count until this permit is dropped.
                if self.budget.update(|state| state.shares.shrink_to(self.id, bytes)).is_none() {
                    return Ok(());
                }
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Reserves `bytes` more, even beyond the limit, for data that exists already and must not be lost.
    pub(super) fn force(&mut self, bytes: u64) {
        if self.budget.update(|state| state.shares.force(self.id, bytes)).is_some() {
            self.bytes += bytes;
        }
    }

    /// Counts `bytes` that were received or sent.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        if self.moved >= PROGRESS_BYTES {
            self.moved = 0;
            self.budget.update(|state| state.shares.progress(self.id, Instant::now()));
        }
    }

    /// Records that from `now` on the bytes wait for this process (`is_ours`) or for the client.
    pub(super) fn wait_for_us(&self, is_ours: bool, now: Instant) {
        self.budget.update(|state| state.shares.wait_for_us(self.id, is_ours, now));
    }

    /// Charges the bytes to `client`, which is known only after the head was read.
    pub(super) fn move_to(&self, client: Client) {
        self.budget.update(|state| state.shares.move_to(self.id, client));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.update(|state| {
            // An evicted holder has no share any more.
            if state.shares.leave(self.id).is_none() {
                state.leaving = state.leaving.saturating_sub(self.bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::FutureExt;

    use super::*;

    fn client(number: u8) -> Client {
        Client::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_held_until_their_holder_is_dropped_and_the_metrics_tell_both() {
        let metrics = BudgetMetrics::default();
        let budget = Budget::new(100, metrics.clone());
        let cut = Arc::new(Cut::default());
        let mut permit = budget.take(client(1), 60, false, &cut).unwrap();
        permit.resize(80).unwrap();
        assert_eq!((metrics.held.get(), metrics.limit.get()), (80, 100));
        assert!(budget.take(client(1), 81, false, &cut).is_err());
        assert_eq!(metrics.refused.get(), 1);
        permit.resize(10).unwrap();
        permit.force(200);
        assert_eq!(metrics.held.get(), 210);
        drop(permit);
        assert_eq!(metrics.held.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn making_room_ends_the_connection_that_held_it_and_its_bytes_count_until_it_is_gone() {
        let metrics = BudgetMetrics::default();
        let budget = Budget::new(1000, metrics.clone());
        let (theirs, mine) = (Arc::new(Cut::default()), Arc::new(Cut::default()));
        let taken: Vec<_> = (0..10).map(|_| budget.take(client(1), 100, false, &theirs).unwrap()).collect();
        let honest = budget.take(client(2), 100, false, &mine).unwrap();
        assert!(theirs.happened().now_or_never().is_some() && mine.happened().now_or_never().is_none());
        assert_eq!((metrics.held.get(), metrics.evicted.get()), (1100, 1));
        let more: Vec<_> = (0..2).map(|_| budget.take(client(2), 100, false, &mine).unwrap()).collect();
        assert!(budget.take(client(2), 100, false, &mine).is_err(), "those that were ended are still there");
        drop(taken);
        assert_eq!(metrics.held.get(), 300);
        drop((honest, more));
        assert_eq!(metrics.held.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_no_progress() {
        let budget = Budget::new(100, BudgetMetrics::default());
        let (trickling, moving) = (Arc::new(Cut::default()), Arc::new(Cut::default()));
        let mut trickle = budget.take(client(1), 50, false, &trickling).unwrap();
        let mut stream = budget.take(client(1), 50, false, &moving).unwrap();
        tokio::time::advance(super::super::shares::STALLED).await;
        trickle.moved(1);
        stream.moved(16 * 1024);
        let _newcomer = budget.take(client(1), 50, false, &Arc::default()).unwrap();
        assert!(trickling.happened().now_or_never().is_some() && moving.happened().now_or_never().is_none());
    }

    #[test]
    fn the_fuller_a_budget_the_less_time_there_is() {
        let seconds = |held| tightened(Duration::from_secs(8), held, 1000).as_secs();
        assert_eq!([0, 499, 500, 749, 750, 899, 900, 1000, 1250].map(seconds), [8, 8, 4, 4, 2, 2, 1, 1, 1]);
    }
}
