//! The sender of a request as rate limits count it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// A subscriber can use any address in a /64.
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
        let network = |address: &str| private_network(address.parse().unwrap()).map(|network| network.to_string());
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
