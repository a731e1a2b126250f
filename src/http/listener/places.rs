//! How many connections one client has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::request::client_addr::TrustedProxies;

/// Anyone can get a /48, in which rate limits see 65 536 clients.
const IPV6_SITE_BITS: u32 = 48;

pub(super) struct Places {
    per_client: usize,
    /// Not counted, because they connect for many clients.
    proxies: TrustedProxies,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// Until it is dropped.
pub(super) struct Place(Option<(Arc<Places>, IpAddr)>);

impl Places {
    pub(super) fn new(per_client: usize, proxies: TrustedProxies) -> Self {
        Self { per_client, proxies, taken: Mutex::default() }
    }

    /// `None` if the client has its share.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let peer = peer.to_canonical();
        if peer.is_loopback() || self.proxies.trusts(peer) {
            return Some(Place(None));
        }
        let client = client(peer);
        let mut taken = self.taken.lock();
        let count = taken.entry(client).or_default();
        if *count >= self.per_client {
            return None;
        }
        *count += 1;
        Some(Place(Some((Arc::clone(self), client))))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((places, client)) = &self.0 else { return };
        let mut taken = places.taken.lock();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn places(proxies: &[&str]) -> Arc<Places> {
        let networks = proxies.iter().map(|network| network.parse().unwrap()).collect();
        Arc::new(Places::new(2, TrustedProxies { networks }))
    }

    /// How many of ten connections from these addresses get a place.
    fn admitted(places: &Arc<Places>, addresses: [&str; 2]) -> usize {
        let all: Vec<_> =
            addresses.iter().cycle().take(10).filter_map(|peer| places.take(peer.parse().unwrap())).collect();
        all.len()
    }

    #[test]
    fn a_client_has_its_share_of_the_connections_and_gets_a_place_again_when_one_of_them_ends() {
        let places = places(&[]);
        assert_eq!(admitted(&places, ["192.0.2.1", "192.0.2.2"]), 4);
        assert!(places.taken.lock().is_empty(), "a client without connections takes no memory");
        assert_eq!(admitted(&places, ["192.0.2.1", "::ffff:192.0.2.1"]), 2);
    }

    #[test]
    fn an_ipv6_network_of_48_bits_is_one_client() {
        assert_eq!(admitted(&places(&[]), ["2001:db8::1", "2001:db8:0:ffff::1"]), 2);
        assert_eq!(admitted(&places(&[]), ["2001:db8::1", "2001:db8:1::1"]), 4);
    }

    #[test]
    fn this_machine_and_trusted_proxies_have_any_number_of_connections_and_nobody_else_has() {
        let places = places(&["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(admitted(&places, ["127.0.0.1", "::1"]), 10);
        assert_eq!(admitted(&places, ["10.1.2.3", "fd00::1"]), 10);
        assert_eq!(admitted(&places, ["11.0.0.1", "fe80::1"]), 4);
    }
}
