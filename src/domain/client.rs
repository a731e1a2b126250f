//! The sender of a request as rate limits count it: an IPv4 address or an IPv6 network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// Length of the IPv6 prefix that one subscriber usually gets, in bits. Limits count a whole prefix as one client,
/// because a subscriber can use any address in the prefix.
const IPV6_PREFIX_BITS: u32 = 64;

/// One client of the service, as limits count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// One IPv4 address, even if it was written as an IPv4-mapped IPv6 address.
    V4(Ipv4Addr),
    /// The /64 network of an IPv6 address.
    V6Network(Ipv6Addr),
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - IPV6_PREFIX_BITS);
                Self::V6Network(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => write!(f, "{address}"),
            Self::V6Network(network) => write!(f, "{network}/{IPV6_PREFIX_BITS}"),
        }
    }
}

/// The address at the other end of a connection: the client or a proxy. The server adds it to every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Peer {
    /// Whether one of `networks` contains the address. An IPv4-mapped address counts as IPv4.
    pub fn is_in(self, networks: &[IpNet]) -> bool {
        let address = self.0.ip().to_canonical();
        networks.iter().any(|network| network.contains(&address))
    }
}

/// The header in which trusted proxies name the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: client, proxy, …`.
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy, …` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    /// The header's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn one_ipv6_network_of_64_bits_is_one_client() {
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        assert_eq!(client("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
    }

    #[test]
    fn an_ipv4_mapped_address_is_its_ipv4_address() {
        assert_eq!(client("::ffff:192.0.2.7"), client("192.0.2.7"));
        assert_ne!(client("192.0.2.7"), client("192.0.2.8"));
    }
}
