//! Windows of whole networks: many addresses escape no limit, and clients behind few addresses have room (contract,
//! decision 10).

use std::str::FromStr;

use ipnet::IpNet;
use thiserror::Error;

use super::client::Client;
use super::quota::Quota;

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
