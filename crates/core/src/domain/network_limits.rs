//! Limits on whole networks, so that nobody escapes a limit by using many addresses (contract, decision 10).
//!
//! A client is one IPv4 address or one IPv6 /64. Whoever has a /48 has 65 536 of them. So each wider network that a
//! client is in has a window of its own, as many times larger as the settings say.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use super::client::Client;
use super::limit_tier::TierName;
use super::quota::Quota;
use super::subject::Subject;

/// The largest factor. With the largest limit, a window still counts fewer than 2^32 attempts.
const MAX_FACTOR: u32 = 4096;

/// The setting's value for no limits on networks.
const NONE: &str = "none";

/// Those whose attempts one window counts together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A network: that of one client, or a wider one.
    Network { address: IpAddr, prefix: u8 },
    /// All clients of a tier.
    Tier(TierName),
    /// A subject of a tier, whichever of its clients names it.
    Subject { tier: TierName, subject: Subject },
}

/// One window that an attempt must fit into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Those whose attempts are counted.
    pub source: Source,
    pub quota: Quota,
}

/// How many times larger the windows of wider networks are than those of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits(Vec<Wider>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wider {
    is_ipv6: bool,
    prefix: u8,
    factor: u32,
}

/// Why a text does not describe limits on networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("give networks with factors from 2 to {MAX_FACTOR}, for example ipv6/56=8,ipv6/48=64,ipv4/24=32, or none")]
pub struct NotNetworkLimits;

impl Source {
    fn network(address: IpAddr, prefix: u8) -> Self {
        let address = match address {
            IpAddr::V4(address) => {
                Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0))
                    .into()
            }
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0))
                    .into()
            }
        };
        Self::Network { address, prefix }
    }
}

impl From<Client> for Source {
    fn from(client: Client) -> Self {
        let prefix = if client.address().is_ipv6() { 64 } else { 32 };
        Self::network(client.address(), prefix)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { address: IpAddr::V4(address), prefix: 32 } => write!(f, "{address}"),
            Self::Network { address, prefix } => write!(f, "{address}/{prefix}"),
            Self::Tier(name) => write!(f, "{name}"),
            Self::Subject { tier, subject } => write!(f, "{tier}#{subject}"),
        }
    }
}

impl NetworkLimits {
    /// No limits on networks: only clients have windows.
    pub const NONE: Self = Self(Vec::new());

    /// The windows that an attempt of `client` must fit into: the client's own with `quota`, then those of wider networks,
    /// the widest last.
    pub fn windows(&self, quota: Quota, client: Client) -> Vec<Window> {
        let address = client.address();
        let wider = self.0.iter().filter(|wider| wider.is_ipv6 == address.is_ipv6()).map(|wider| Window {
            source: Source::network(address, wider.prefix),
            quota: Quota { limit: quota.limit.saturating_mul(wider.factor), ..quota },
        });
        [Window { source: client.into(), quota }].into_iter().chain(wider).collect()
    }
}

impl FromStr for NetworkLimits {
    type Err = NotNetworkLimits;

    fn from_str(text: &str) -> Result<Self, NotNetworkLimits> {
        if text.trim() == NONE {
            return Ok(Self::NONE);
        }
        let mut limits: Vec<Wider> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        limits.sort_by_key(|wider| (wider.is_ipv6, std::cmp::Reverse(wider.prefix)));
        let fits = |pair: &[Wider]| {
            // A network's window must be larger than those of the networks in it. Otherwise the inner windows would
            // never fill up.
            pair[0].is_ipv6 != pair[1].is_ipv6 || (pair[0].prefix != pair[1].prefix && pair[0].factor < pair[1].factor)
        };
        if limits.windows(2).all(fits) { Ok(Self(limits)) } else { Err(NotNetworkLimits) }
    }
}

impl FromStr for Wider {
    type Err = NotNetworkLimits;

    fn from_str(text: &str) -> Result<Self, NotNetworkLimits> {
        let parsed = || {
            let (network, factor) = text.trim().split_once('=')?;
            let (family, prefix) = network.split_once('/')?;
            let (prefix, factor) = (prefix.parse().ok()?, factor.parse().ok()?);
            let is_ipv6 = match family {
                "ipv4" => false,
                "ipv6" => true,
                _ => return None,
            };
            let widest = if is_ipv6 { 16..64 } else { 8..32 };
            (widest.contains(&prefix) && (2..=MAX_FACTOR).contains(&factor)).then_some(Self { is_ipv6, prefix, factor })
        };
        parsed().ok_or(NotNetworkLimits)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const QUOTA: Quota = Quota { limit: 10, window: Duration::from_hours(1) };

    fn windows(limits: &str, address: &str) -> Vec<(String, u32)> {
        let client = Client::from(address.parse::<IpAddr>().unwrap());
        let windows = limits.parse::<NetworkLimits>().unwrap().windows(QUOTA, client);
        windows.into_iter().map(|window| (window.source.to_string(), window.quota.limit)).collect()
    }

    fn named(windows: &[(&str, u32)]) -> Vec<(String, u32)> {
        windows.iter().map(|&(network, limit)| (network.to_owned(), limit)).collect()
    }

    #[test]
    fn a_client_has_its_own_window_and_those_of_the_networks_around_it() {
        let limits = "ipv6/32=1024, ipv6/56=8, ipv6/48=64, ipv4/24=32";
        let expected = [
            ("2001:db8:1:203::/64", 10),
            ("2001:db8:1:200::/56", 80),
            ("2001:db8:1::/48", 640),
            ("2001:db8::/32", 10_240),
        ];
        assert_eq!(windows(limits, "2001:db8:1:203::4"), named(&expected));
        assert_eq!(windows(limits, "192.0.2.7"), named(&[("192.0.2.7", 10), ("192.0.2.0/24", 320)]));
        for translated in ["::ffff:192.0.2.7", "2002:c000:207:1::1", "64:ff9b::192.0.2.7"] {
            assert_eq!(windows("ipv6/56=8", translated), named(&[("192.0.2.7", 10)]), "{translated}");
            assert_eq!(windows(limits, translated), windows(limits, "192.0.2.7"), "{translated}");
        }
        assert_eq!(windows("none", "2001:db8:1:203::4"), named(&[("2001:db8:1:203::/64", 10)]));
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        for text in [
            "",
            "56=8",
            "ipv6/56",
            "ipv6/64=8",
            "ipv6/15=8",
            "ipv4/32=8",
            "ipv4/7=8",
            "ipv6/56=1",
            "ipv6/56=4097",
            "ipv6/56=8,ipv6/56=9",
            "ipv6/56=64,ipv6/48=8",
            "ipv6/56=8,ipv6/48=8",
            "IPv6/56=8",
            "ipv6/56=-8",
            "ipv6/56=8,",
        ] {
            assert_eq!(text.parse::<NetworkLimits>(), Err(NotNetworkLimits), "{text}");
        }
    }
}
