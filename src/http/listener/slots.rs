//! How many connections one client has, and which of all gives way when there are too many.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, sync::Arc};

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Anyone can get a /48, in which rate limits see 65 536 clients.
const IPV6_SITE_BITS: u32 = 48;

pub(super) struct ClientSlots {
    per_client: usize,
    /// Networks whose connections are not counted, because they connect for many clients.
    exempt: Vec<IpNet>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of a client, counted until this is dropped.
pub(super) struct ClientSlot(Option<(Arc<ClientSlots>, IpAddr)>);

impl ClientSlots {
    pub(super) fn new(per_client: usize, exempt: Vec<IpNet>) -> Self {
        Self { per_client, exempt, taken: Mutex::default() }
    }

    /// `None` if the client has its share.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ClientSlot> {
        let peer = peer.to_canonical();
        if self.exempt.iter().any(|network| network.contains(&peer)) {
            return Some(ClientSlot(None));
        }
        let client = client(peer);
        let mut taken = self.taken.lock();
        let count = taken.entry(client).or_default();
        if *count >= self.per_client {
            return None;
        }
        *count += 1;
        Some(ClientSlot(Some((Arc::clone(self), client))))
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let Some((slots, client)) = &self.0 else { return };
        let mut taken = slots.taken.lock();
        if let Some(count) = taken.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                taken.remove(client);
            }
        }
    }
}

fn client(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - IPV6_SITE_BITS))).into(),
    }
}

/// Connections that wait for their client to send a request, or its body, or to read an answer.
///
/// When a new client finds no free connection, the connection that has waited longest ends. So clients that stall, or
/// that keep idle connections, do not lock others out.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    last: u64,
    /// Tells each connection to end. The oldest is the first.
    ends: BTreeMap<u64, Arc<Notify>>,
    /// A new client waits, and no connection could end for it yet.
    is_needed: bool,
}

/// One connection, as it waits for its client or answers a request.
pub(super) struct ConnectionState {
    waiting: Arc<Waiting>,
    number: AtomicU64,
    end: Arc<Notify>,
}

/// When a connection began to wait for a body, in the order of all waits.
#[derive(Clone, Copy)]
pub(super) struct BodyWait(u64);

impl Waiting {
    /// Ends the connection that has waited longest, or else the next one that answers its request.
    pub(super) fn end_oldest(&self) {
        let mut queue = self.0.lock();
        match queue.ends.pop_first() {
            Some((_, end)) => end.notify_one(),
            None => queue.is_needed = true,
        }
    }
}

impl ConnectionState {
    /// A new connection, which waits for its first request.
    pub(super) fn new(waiting: &Arc<Waiting>) -> Self {
        let state = Self { waiting: Arc::clone(waiting), number: AtomicU64::default(), end: Arc::default() };
        state.wait();
        state
    }

    /// A request begins, unless the connection is ending.
    pub(super) fn begin(&self) -> bool {
        self.waiting.0.lock().ends.remove(&self.number.load(Ordering::Relaxed)).is_some()
    }

    /// The request is answered. Returns whether the connection must end after that.
    pub(super) fn wait(&self) -> bool {
        let mut queue = self.waiting.0.lock();
        queue.last += 1;
        self.number.store(queue.last, Ordering::Relaxed);
        let last = queue.last;
        queue.ends.insert(last, Arc::clone(&self.end));
        mem::take(&mut queue.is_needed)
    }

    /// A request's body is awaited. To go on, give the time at which it was first: bytes that come one by one do not make
    /// the wait a new one.
    pub(super) fn wait_for_body(&self, since: Option<BodyWait>) -> BodyWait {
        let mut queue = self.waiting.0.lock();
        let since = since.unwrap_or_else(|| {
            queue.last += 1;
            BodyWait(queue.last)
        });
        if mem::take(&mut queue.is_needed) {
            self.end.notify_one();
        } else {
            queue.ends.insert(since.0, Arc::clone(&self.end));
        }
        since
    }

    /// More of the body came, or it is not needed. Returns `false` if the connection is ending.
    pub(super) fn end_body_wait(&self, since: BodyWait) -> bool {
        self.waiting.0.lock().ends.remove(&since.0).is_some()
    }

    /// Returns when the connection must end at once.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(exempt: &[&str]) -> Arc<ClientSlots> {
        Arc::new(ClientSlots::new(2, exempt.iter().map(|network| network.parse().unwrap()).collect()))
    }

    /// How many of ten connections from these addresses get a slot.
    fn admitted(slots: &Arc<ClientSlots>, addresses: [&str; 2]) -> usize {
        let all: Vec<_> =
            addresses.iter().cycle().take(10).filter_map(|peer| slots.take(peer.parse().unwrap())).collect();
        all.len()
    }

    #[test]
    fn a_client_gets_a_slot_again_when_one_of_its_share_ends() {
        let slots = slots(&[]);
        assert_eq!(admitted(&slots, ["192.0.2.1", "192.0.2.2"]), 4);
        assert!(slots.taken.lock().is_empty(), "a client without connections takes no memory");
        assert_eq!(admitted(&slots, ["192.0.2.1", "::ffff:192.0.2.1"]), 2);
    }

    #[tokio::test]
    async fn a_connection_gives_way_when_it_begins_to_wait_for_a_body() {
        let waiting = Arc::default();
        let connection = ConnectionState::new(&waiting);
        assert!(connection.begin());
        waiting.end_oldest();
        let wait = connection.wait_for_body(None);
        connection.ended().await;
        assert!(!connection.end_body_wait(wait));
    }

    #[test]
    fn an_ipv6_network_of_48_bits_is_one_client() {
        assert_eq!(admitted(&slots(&[]), ["2001:db8::1", "2001:db8:0:ffff::1"]), 2);
        assert_eq!(admitted(&slots(&[]), ["2001:db8::1", "2001:db8:1::1"]), 4);
    }

    #[test]
    fn exempt_networks_have_any_number_of_connections() {
        let slots = slots(&["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(admitted(&slots, ["10.1.2.3", "fd00::1"]), 10);
        assert_eq!(admitted(&slots, ["11.0.0.1", "fe80::1"]), 4);
    }
}
