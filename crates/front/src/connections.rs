//! The open connections of a listener by client: how many there may be, and which of them end so that new ones can begin.
//!
//! Near the limit a new connection ends the one that has been idle longest. If none is idle, [`super::shares`] decides:
//! the client with the most connections loses one, its slowest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use super::cut::Cut;
use super::shares::{HolderId, Shares};
use crate::clients::Client;

/// Share of the limit, in percent, from which on each new connection ends an idle one.
const NEARLY_FULL_PERCENT: usize = 90;

/// Counts connections that were refused, or ended to make room for others.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMetrics {
    /// Refused: the client had as many connections as one client may have.
    pub over_client_limit: Counter,
    /// Refused: the listener was full and no connection had to end for it.
    pub full: Counter,
    /// Ended while idle.
    pub resting: Counter,
    /// Ended during a request, because it was the slowest connection of a client with many.
    pub slow: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionError {
    OverClientLimit,
    Full,
}

pub(super) struct Connections {
    limit: usize,
    per_client: usize,
    state: Mutex<State>,
    metrics: ConnectionMetrics,
}

struct State {
    shares: Shares<Arc<Cut>>,
    /// Connections that are idle between two requests, by when they became idle.
    resting: BTreeSet<(Instant, HolderId, Client)>,
    resting_of: BTreeSet<(Client, Instant, HolderId)>,
    /// When this table was made; no connection has been idle for longer.
    began: Instant,
}

impl Connections {
    pub(super) fn new(limit: usize, per_client: usize, metrics: ConnectionMetrics) -> Arc<Self> {
        let (resting, resting_of) = (BTreeSet::new(), BTreeSet::new());
        let state = State { shares: Shares::new(limit as u64), resting, resting_of, began: Instant::now() };
        Arc::new(Self { limit, per_client, state: Mutex::new(state), metrics })
    }

    /// Admits a connection of `client`; `cut` ends it later if others need its place. `is_exempt` lifts the limit per client.
    pub(super) fn admit(
        self: &Arc<Self>,
        client: Client,
        is_exempt: bool,
        cut: &Arc<Cut>,
    ) -> Result<ConnectionPermit, AdmissionError> {
        let admitted = self.state.lock().admit(self, client, is_exempt, cut);
        match admitted {
            Ok(id) => Ok(ConnectionPermit { connections: Arc::clone(self), client, id, resting_since: None }),
            Err(error) => {
                let counter = match error {
                    AdmissionError::OverClientLimit => &self.metrics.over_client_limit,
                    AdmissionError::Full => &self.metrics.full,
                };
                counter.inc();
                Err(error)
            }
        }
    }
}

impl State {
    fn admit(
        &mut self,
        table: &Connections,
        client: Client,
        is_exempt: bool,
        cut: &Arc<Cut>,
    ) -> Result<HolderId, AdmissionError> {
        if !is_exempt && self.shares.held_by(client) >= table.per_client as u64 {
            let mut resting = self.resting_of.range((client, self.began, HolderId::FIRST)..);
            let longest = resting.next().copied().filter(|(of, ..)| *of == client);
            let (_, since, id) = longest.ok_or(AdmissionError::OverClientLimit)?;
            self.end_resting(since, id, client, table);
        }
        let nearly_full = table.limit * NEARLY_FULL_PERCENT / 100;
        if self.shares.held() >= nearly_full.max(1) as u64
            && let Some((since, id, of)) = self.resting.first().copied()
        {
            self.end_resting(since, id, of, table);
        }
        let mut evicted = Vec::new();
        let entered = self.shares.enter(client, 1, false, Instant::now(), Arc::clone(cut), &mut evicted);
        for slow in evicted {
            table.metrics.slow.inc();
            slow.handle.cut();
        }
        entered.map_err(|_| AdmissionError::Full)
    }

    fn end_resting(&mut self, since: Instant, id: HolderId, client: Client, table: &Connections) {
        self.works(since, id, client);
        if let Some(ended) = self.shares.leave(id) {
            table.metrics.resting.inc();
            ended.handle.cut();
        }
    }

    fn rests(&mut self, since: Instant, id: HolderId, client: Client) {
        self.resting.insert((since, id, client));
        self.resting_of.insert((client, since, id));
    }

    fn works(&mut self, since: Instant, id: HolderId, client: Client) {
        self.resting.remove(&(since, id, client));
        self.resting_of.remove(&(client, since, id));
    }
}

/// The place of one connection. Dropping this frees it.
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    client: Client,
    id: HolderId,
    resting_since: Option<Instant>,
}

impl ConnectionPermit {
    /// Records that a request was answered `now` and no other has begun.
    pub(super) fn rest(&mut self, now: Instant) {
        self.resting_since = Some(now);
        self.connections.state.lock().rests(now, self.id, self.client);
    }

    /// Records that from `now` on the connection waits for this process (`is_ours`) or for its client.
    pub(super) fn wait_for_us(&self, is_ours: bool, now: Instant) {
        self.connections.state.lock().shares.wait_for_us(self.id, is_ours, now);
    }

    pub(super) fn work(&mut self, now: Instant) {
        let Some(since) = self.resting_since.take() else { return };
        let mut state = self.connections.state.lock();
        state.works(since, self.id, self.client);
        state.shares.progress(self.id, now);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = self.connections.state.lock();
        if let Some(since) = self.resting_since {
            state.works(since, self.id, self.client);
        }
        state.shares.leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn client(address: &str) -> Client {
        Client::from(address.parse::<IpAddr>().unwrap())
    }

    struct Table(Arc<Connections>);

    struct Open {
        place: ConnectionPermit,
        cut: Arc<Cut>,
    }

    impl Open {
        fn was_ended(&self) -> bool {
            self.cut.happened().now_or_never().is_some()
        }
    }

    impl Table {
        fn new(limit: usize, per_client: usize) -> Self {
            Self(Connections::new(limit, per_client, ConnectionMetrics::default()))
        }

        async fn open(&self, address: &str) -> Result<Open, AdmissionError> {
            tokio::time::advance(Duration::from_millis(1)).await;
            let cut = Arc::new(Cut::default());
            self.0.admit(client(address), false, &cut).map(|place| Open { place, cut })
        }

        async fn opens(&self, address: &str) -> Open {
            self.open(address).await.expect("there is room")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_no_more_than_its_share() {
        let table = Table::new(100, 2);
        let first = table.opens("192.0.2.1").await;
        let _second = table.opens("192.0.2.1").await;
        assert_eq!(table.open("192.0.2.1").await.err(), Some(AdmissionError::OverClientLimit));
        let _other = table.opens("192.0.2.2").await;
        drop(first);
        let _third = table.opens("192.0.2.1").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_at_its_share_ends_the_one_of_its_own_that_has_rested_longest() {
        let table = Table::new(100, 2);
        let (mut first, mut second) = (table.opens("192.0.2.1").await, table.opens("192.0.2.1").await);
        let mut other = table.opens("192.0.2.2").await;
        other.place.rest(Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        second.place.rest(Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        first.place.rest(Instant::now());
        let _third = table.opens("192.0.2.1").await;
        assert!(second.was_ended() && !first.was_ended() && !other.was_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn an_exempt_client_may_have_all() {
        let table = Table::new(10, 2);
        let admit = || table.0.admit(client("127.0.0.1"), true, &Arc::default());
        let seats: Vec<_> = (0..10).map(|_| admit().unwrap()).collect();
        assert_eq!(admit().err(), Some(AdmissionError::Full));
        drop(seats);
        assert!(admit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn near_the_limit_the_one_that_rested_longest_ends_first() {
        let table = Table::new(10, 10);
        let mut open = Vec::new();
        for _ in 0..9 {
            open.push(table.opens("192.0.2.1").await);
        }
        open[3].place.rest(Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        open[1].place.rest(Instant::now());
        open[2].place.rest(Instant::now());
        open[2].place.work(Instant::now());
        for expected in [vec![3], vec![1]] {
            open.push(table.opens("192.0.2.2").await);
            let ended: Vec<_> = (0..9).filter(|&place| open[place].was_ended()).collect();
            assert_eq!(ended, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_any_that_rests_the_slowest_of_the_client_with_most_ends() {
        let table = Table::new(10, 10);
        let few = [table.opens("192.0.2.2").await, table.opens("192.0.2.2").await];
        let mut many = Vec::new();
        for _ in 0..8 {
            many.push(table.opens("192.0.2.1").await);
        }
        many[0].place.rest(Instant::now());
        many[0].place.work(Instant::now());
        let _honest = table.opens("192.0.2.3").await;
        assert!(many[1].was_ended() && !many[0].was_ended() && !few.iter().any(Open::was_ended));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_connections_of_one_client_or_of_a_hundred_keep_no_other_out() {
        for clients in [1, 100] {
            let table = Table::new(10_000, 10_000);
            let mut open = Vec::new();
            for number in 0..10_000 {
                open.push(table.opens(&format!("192.0.2.{}", number % clients)).await);
            }
            for number in 0..50 {
                open.push(table.opens(&format!("198.51.100.{number}")).await);
            }
            assert_eq!(open.iter().filter(|open| open.was_ended()).count(), 50);
        }
    }
}
