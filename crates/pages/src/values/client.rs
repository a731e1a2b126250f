//! The sender of a request as rate limits count it, and the windows of its networks: many addresses escape no limit, and
//! clients behind few addresses have room (contract, decision 10).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use thiserror::Error;

use super::quota::Quota;

const IPV6_PREFIX_BITS: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    V4(Ipv4Addr),
    V6Network(Ipv6Addr),
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) if let Some(address) = translated(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - IPV6_PREFIX_BITS);
                Self::V6Network(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }
}

/// In 6to4 (RFC 3056) or NAT64 (RFC 6052). Private addresses there are ignored, because their limits are often higher.
/// `64:ff9b:1::/48` (RFC 8215) has no fixed place for the address.
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let ([0x2002, high, low, ..] | [0x64, 0xff9b, 0, 0, 0, 0, high, low]) = address.segments() else { return None };
    let inner = Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    (private_network(inner.into()).is_none() && !inner.is_unspecified()).then_some(inner)
}

/// `None` for a public address, which may belong to a person.
pub fn private_network(address: IpAddr) -> Option<IpNet> {
    let (is_private, prefix) = match address.to_canonical() {
        IpAddr::V4(v4) => {
            // RFC 6598: shared between providers and their customers.
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            (v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared, 24)
        }
        IpAddr::V6(v6) => (v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local(), 64),
    };
    is_private.then(|| IpNet::new_assert(address.to_canonical(), prefix).trunc())
}

impl Client {
    pub fn network(self) -> IpNet {
        match self {
            Self::V4(address) => IpAddr::from(address).into(),
            Self::V6Network(network) => IpNet::new_assert(network.into(), IPV6_PREFIX_BITS),
        }
    }
}

/// The client or a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Peer {
    pub fn is_in(self, networks: &[IpNet]) -> bool {
        let address = self.0.ip().to_canonical();
        networks.iter().any(|network| network.contains(&address))
    }
}

/// Many providers give a customer a /48.
const WIDER_PREFIX: u8 = 48;

/// Times a client's quota.
const WIDER_FACTOR: u32 = 64;

/// Keeps the largest window under 2^32 attempts.
const MAX_FACTOR: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub network: IpNet,
    pub quota: Quota,
}

/// Its clients share one larger window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedNetwork {
    network: IpNet,
    factor: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "give CIDR=FACTOR with a factor from 1 to {MAX_FACTOR}, for example 192.0.2.0/24=30; an IPv6 prefix has at most 64 bits"
)]
pub struct NotASharedNetwork;

impl SharedNetwork {
    pub fn network(&self) -> IpNet {
        self.network
    }
}

impl FromStr for SharedNetwork {
    type Err = NotASharedNetwork;

    fn from_str(text: &str) -> Result<Self, NotASharedNetwork> {
        let (network, factor) = text.trim().split_once('=').ok_or(NotASharedNetwork)?;
        let network: IpNet = network.parse().map_err(|_| NotASharedNetwork)?;
        let factor = factor.parse().map_err(|_| NotASharedNetwork)?;
        let holds_clients = network.addr().is_ipv4() || network.prefix_len() <= 64;
        let fits = holds_clients && (1..=MAX_FACTOR).contains(&factor);
        fits.then_some(Self { network: network.trunc(), factor }).ok_or(NotASharedNetwork)
    }
}

/// The windows that count an attempt of `client`, the narrowest network first. A client in a network of `shared` has only
/// the window of the smallest such network.
pub fn windows(shared: &[SharedNetwork], quota: Quota, client: Client) -> Vec<Window> {
    let times =
        |network, factor| Window { network, quota: Quota { limit: quota.limit.saturating_mul(factor), ..quota } };
    let own = client.network();
    let around = shared.iter().filter(|shared| shared.network.contains(&own));
    if let Some(shared) = around.max_by_key(|shared| shared.network.prefix_len()) {
        return vec![times(shared.network, shared.factor)];
    }
    let wider = own.addr().is_ipv6().then(|| IpNet::new_assert(own.addr(), WIDER_PREFIX).trunc());
    [times(own, 1)].into_iter().chain(wider.map(|network| times(network, WIDER_FACTOR))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> String {
        Client::from(address.parse::<IpAddr>().unwrap()).network().to_string()
    }

    #[test]
    fn a_network_that_only_looks_translated_is_an_ipv6_network() {
        for (other, network) in [
            // RFC 8215: each operator decides where the IPv4 address stands.
            ("64:ff9b:1::198.51.100.7", "64:ff9b:1::/64"),
            ("64:ff9b:0:0:1::198.51.100.7", "64:ff9b::/64"),
            ("2003:c633:6407::1", "2003:c633:6407::/64"),
        ] {
            assert_eq!(client(other), network, "{other}");
        }
    }

    #[test]
    fn an_embedded_private_address_gives_no_private_limits() {
        for private in ["10.0.0.1", "172.16.0.1", "192.168.0.1", "127.0.0.1", "169.254.0.1", "100.64.0.1"] {
            let address = format!("64:ff9b::{private}");
            assert_eq!(client(&address), "64:ff9b::/64", "{address}");
        }
        assert_eq!(client("2002:a00:1::1"), "2002:a00:1::/64");
        // The address 0.0.0.0 stands for everyone.
        assert_eq!(client("2002::1"), "2002::/64");
    }

    #[test]
    fn only_addresses_that_no_person_has_are_told_by_their_network() {
        fn network(address: &str) -> Option<String> {
            private_network(address.parse().unwrap()).map(|network| network.to_string())
        }

        for (address, expected) in [
            ("127.0.0.1", "127.0.0.0/24"),
            ("10.42.7.9", "10.42.7.0/24"),
            ("::ffff:192.168.1.5", "192.168.1.0/24"),
            ("100.64.3.4", "100.64.3.0/24"),
            ("fd00:1:2:3::9", "fd00:1:2:3::/64"),
        ] {
            assert_eq!(network(address).as_deref(), Some(expected));
        }
        for address in ["198.51.100.7", "100.128.0.1", "2001:db8::1"] {
            assert_eq!(network(address), None);
        }
    }
}

#[cfg(test)]
mod window_tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;

    fn windows(shared: &[&str], address: &str) -> Vec<(String, u32)> {
        let client = Client::from(address.parse::<IpAddr>().unwrap());
        let shared: Vec<SharedNetwork> = shared.iter().map(|shared| shared.parse().unwrap()).collect();
        let quota = Quota { limit: 10, window: Duration::from_hours(1) };
        let windows = super::windows(&shared, quota, client);
        windows.into_iter().map(|window| (window.network.to_string(), window.quota.limit)).collect()
    }

    fn named(windows: &[(&str, u32)]) -> Vec<(String, u32)> {
        windows.iter().map(|&(network, limit)| (network.to_owned(), limit)).collect()
    }

    #[test]
    fn a_client_has_a_window_and_an_ipv6_client_its_48s_too() {
        let six = named(&[("2001:db8:1:203::/64", 10), ("2001:db8:1::/48", 640)]);
        assert_eq!(windows(&[], "2001:db8:1:203::4"), six);
        for four in ["192.0.2.7", "::ffff:192.0.2.7", "2002:c000:207:1::1", "64:ff9b::192.0.2.7"] {
            assert_eq!(windows(&[], four), named(&[("192.0.2.7/32", 10)]), "{four}");
        }
    }

    #[test]
    fn clients_of_a_shared_network_have_the_smallest_ones_window() {
        let shared = ["10.0.0.0/8=2", "10.1.2.3/16=30", "2001:db8::/32=500", "10.9.9.9/32=5"];
        assert_eq!(windows(&shared, "10.2.3.4"), named(&[("10.0.0.0/8", 20)]));
        assert_eq!(windows(&shared, "::ffff:10.1.0.9"), named(&[("10.1.0.0/16", 300)]));
        assert_eq!(windows(&shared, "10.9.9.9"), named(&[("10.9.9.9/32", 50)]));
        assert_eq!(windows(&shared, "2001:db8:1:203::4"), named(&[("2001:db8::/32", 5000)]));
        assert_eq!(windows(&shared, "192.0.2.7"), named(&[("192.0.2.7/32", 10)]));
    }

    #[test]
    fn a_network_or_factor_that_makes_no_sense_is_refused() {
        for text in ["", "none", "10.0.0.0/8", "10.0.0.0/33=2", "10.0.0.1=2", "2001:db8::/65=2", "10.0.0.0/8=0"] {
            assert_eq!(text.parse::<SharedNetwork>(), Err(NotASharedNetwork), "{text}");
        }
        for factor in ["4097", "-1", "2.5", ""] {
            let text = format!("10.0.0.0/8={factor}");
            assert_eq!(text.parse::<SharedNetwork>(), Err(NotASharedNetwork), "{text}");
        }
    }
}
