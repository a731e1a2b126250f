//! Networks that have limits of their own, such as those of hosted agents, or one's own systems.
//!
//! Operators write them as a JSON array. Each tier has a name, by which its windows stay the same when its networks
//! change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Deserialize;
use thiserror::Error;

use super::client::Client;

/// Longest IPv6 prefix of a tier, in bits: a client is a whole /64.
const MAX_IPV6_PREFIX: u8 = 64;

/// Highest limit. A window remembers each of its attempts in 8 bytes, and one that fills the table of its limit would push
/// all others out.
pub const MAX_LIMIT: u32 = 100_000;

/// Longest name of a tier, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// Most networks of all tiers. The longest published list of a host of agents has some hundreds (2026-11).
const MAX_NETWORKS: usize = 10_000;

/// Limits of creates, and of updates and deletes; 0 means any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierLimits {
    /// Pages that may be created within the window.
    pub create: u32,
    /// Updates and deletes that may be tried within the window.
    pub edit: u32,
}

/// The name of a tier. It has no dot and no colon, so it is never the name of a network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierName(Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitTier {
    pub name: TierName,
    /// The limits of all clients of the tier together.
    pub shared: TierLimits,
    pub client: Option<TierLimits>,
    /// The limits of each subject, if the tier is believed about subjects.
    pub subject: Option<TierLimits>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiers(BTreeMap<IpNet, Arc<LimitTier>>);

#[derive(Debug, Error)]
pub enum LimitTierError {
    #[error(
        "{0}; the file is a JSON array of tiers such as {{\"name\": \"agents\", \"networks\": [\"192.0.2.0/24\"], \"shared\": {{\"create\": 100, \"edit\": 600}}}}"
    )]
    Form(#[from] serde_json::Error),
    #[error("the name {0:?} is not 1 to {MAX_NAME_BYTES} of a-z, 0-9 and -")]
    Name(String),
    #[error("two tiers have the name {0}")]
    NameTwice(TierName),
    #[error("{1:?} in the tier {0} is not a network, such as 192.0.2.0/24 or 2001:db8::/48")]
    Network(TierName, String),
    #[error(
        "{1} in the tier {0} is smaller than one client: an IPv6 network of a tier has a prefix of at most {MAX_IPV6_PREFIX} bits"
    )]
    SmallerThanAClient(TierName, IpNet),
    #[error("{1} is in the tier {0} and in another one")]
    NetworkTwice(TierName, IpNet),
    #[error("there are more than {MAX_NETWORKS} networks")]
    TooManyNetworks,
    #[error("a limit in the tier {0} is above {MAX_LIMIT}")]
    TooHigh(TierName),
    /// Only a shared limit bounds how many subjects a network can name.
    #[error(
        "in the tier {0} a limit of subject or client is above the shared one, or subjects have a limit and there is no shared one"
    )]
    AboveShared(TierName),
}

/// A tier as operators write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    networks: Vec<String>,
    shared: TierLimits,
    client: Option<TierLimits>,
    subject: Option<TierLimits>,
}

impl Tiers {
    pub fn parse(text: &str) -> Result<Self, LimitTierError> {
        let written: Vec<Written> = serde_json::from_str(text)?;
        if written.iter().map(|tier| tier.networks.len()).sum::<usize>() > MAX_NETWORKS {
            return Err(LimitTierError::TooManyNetworks);
        }
        let (mut tiers, mut names) = (Self::default(), BTreeSet::new());
        for Written { name, networks, shared, client, subject } in written {
            let name = TierName::parse(&name).ok_or(LimitTierError::Name(name))?;
            let tier = Arc::new(LimitTier { name: name.clone(), shared, client, subject });
            tier.check()?;
            for network in networks {
                let network = parse_network(&name, &network)?;
                let other = tiers.0.insert(network, Arc::clone(&tier));
                if other.is_some_and(|other| other.name != name) {
                    return Err(LimitTierError::NetworkTwice(name, network));
                }
            }
            if !names.insert(name.clone()) {
                return Err(LimitTierError::NameTwice(name));
            }
        }
        Ok(tiers)
    }

    pub fn networks(&self) -> usize {
        self.0.len()
    }

    /// The tier of `client`: that of the smallest network which contains the client.
    pub fn of(&self, client: Client) -> Option<&Arc<LimitTier>> {
        let address = client.address();
        let longest = if address.is_ipv6() { MAX_IPV6_PREFIX } else { 32 };
        // One lookup for each length, because a list may have thousands of networks.
        (0..=longest).rev().find_map(|prefix| self.0.get(&IpNet::new_assert(address, prefix).trunc()))
    }
}

impl TierName {
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        ((1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(fits)).then(|| Self(text.into()))
    }
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Accepts `CIDR`, and an address, which is one client.
fn parse_network(tier: &TierName, text: &str) -> Result<IpNet, LimitTierError> {
    let network = text.parse::<IpNet>().or_else(|_| {
        text.parse::<IpAddr>().map(|address| match address {
            IpAddr::V4(_) => address.into(),
            IpAddr::V6(_) => IpNet::new_assert(address, MAX_IPV6_PREFIX),
        })
    });
    let network = network.map_err(|_| LimitTierError::Network(tier.clone(), text.to_owned()))?;
    if network.addr().is_ipv6() && network.prefix_len() > MAX_IPV6_PREFIX {
        return Err(LimitTierError::SmallerThanAClient(tier.clone(), network));
    }
    Ok(network.trunc())
}

impl LimitTier {
    fn check(&self) -> Result<(), LimitTierError> {
        let Self { name, shared, client, subject } = self;
        let all = [Some(*shared), *client, *subject].into_iter().flatten();
        if all.flat_map(|limits| [limits.create, limits.edit]).any(|limit| limit > MAX_LIMIT) {
            return Err(LimitTierError::TooHigh(name.clone()));
        }
        let client_fits = |own: u32, shared: u32| shared == 0 || own <= shared;
        let subject_fits = |own: u32, shared: u32| own == 0 || (shared > 0 && own <= shared);
        let fits = client.is_none_or(|own| own.fits(*shared, client_fits))
            && subject.is_none_or(|own| own.fits(*shared, subject_fits));
        if fits { Ok(()) } else { Err(LimitTierError::AboveShared(name.clone())) }
    }
}

impl TierLimits {
    fn fits(self, shared: Self, fits: impl Fn(u32, u32) -> bool) -> bool {
        fits(self.create, shared.create) && fits(self.edit, shared.edit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::from(address.parse::<IpAddr>().unwrap())
    }

    /// The error of a file with one tier, which has these members besides its name and its networks.
    fn error(networks: &str, members: &str) -> String {
        let text = format!(r#"[{{"name": "agents", "networks": {networks}, {members}}}]"#);
        Tiers::parse(&text).unwrap_err().to_string()
    }

    const SHARED: &str = r#""shared": {"create": 100, "edit": 600}"#;

    #[test]
    fn a_tier_has_networks_and_limits_of_all_its_clients_of_each_client_and_of_each_subject() {
        let tiers = Tiers::parse(
            r#"[{"name": "agents", "networks": ["192.0.2.7/24", "2001:db8::/48", "198.51.100.7", "2001:db9::1"],
                 "shared": {"create": 100, "edit": 600}, "client": {"create": 50, "edit": 0}, "subject": {"create": 10, "edit": 60}},
                {"name": "nobody-yet", "networks": [], "shared": {"create": 0, "edit": 0}}]"#,
        )
        .unwrap();
        assert_eq!(tiers.networks(), 4);
        for inside in ["192.0.2.200", "::ffff:192.0.2.1", "2001:db8:0:ffff::1", "198.51.100.7", "2001:db9::2"] {
            let tier = tiers.of(client(inside)).unwrap();
            let limits = |create, edit| TierLimits { create, edit };
            assert_eq!((tier.name.to_string().as_str(), tier.shared), ("agents", limits(100, 600)), "{inside}");
            assert_eq!((tier.client, tier.subject), (Some(limits(50, 0)), Some(limits(10, 60))));
        }
        for outside in ["192.0.3.1", "198.51.100.8", "2001:db8:1::1", "2001:db9:0:1::1"] {
            assert_eq!(tiers.of(client(outside)), None, "{outside}");
        }
    }

    #[test]
    fn the_smallest_network_that_contains_the_client_counts() {
        let tier = |name: &str, network: &str| format!(r#"{{"name": "{name}", "networks": ["{network}"], {SHARED}}}"#);
        let networks =
            [("wide", "10.0.0.0/8"), ("narrow", "10.1.0.0/16"), ("six", "2001:db8::/32"), ("rest", "0.0.0.0/0")];
        let all = networks.map(|(name, network)| tier(name, network)).join(",");
        let tiers = Tiers::parse(&format!("[{all}]")).unwrap();
        let name = |address: &str| tiers.of(client(address)).map(|tier| tier.name.to_string());
        assert_eq!(name("10.2.3.4").as_deref(), Some("wide"));
        assert_eq!(name("10.1.3.4").as_deref(), Some("narrow"));
        assert_eq!(name("2001:db8:1::1").as_deref(), Some("six"));
        assert_eq!(name("192.0.2.1").as_deref(), Some("rest"));
        assert_eq!(name("2001:db9::1"), None);
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_what_is_wrong() {
        for (networks, members, message) in [
            (r#"["192.0.2.0/33"]"#, SHARED, r#""192.0.2.0/33" in the tier agents is not a network"#),
            (r#"["everyone"]"#, SHARED, "is not a network"),
            (r#"["2001:db8::/65"]"#, SHARED, "is smaller than one client"),
            ("[7]", SHARED, "expected a string at line 1"),
            ("[]", r#""shared": {"create": 1}"#, "missing field `edit`"),
            ("[]", r#""shared": {"create": -1, "edit": 1}"#, "invalid value"),
            ("[]", r#""shared": {"create": 1, "edit": 100001}"#, "above 100000"),
            ("[]", r#""client": {"create": 1, "edit": 1}"#, "missing field `shared`"),
            ("[]", r#""shared": {"create": 1, "edit": 1}, "subjects": {}"#, "unknown field `subjects`"),
            ("[]", r#""shared": {"create": 9, "edit": 9}, "subject": {"create": 10, "edit": 1}"#, "above the shared"),
            ("[]", r#""shared": {"create": 0, "edit": 0}, "subject": {"create": 1, "edit": 0}"#, "no shared one"),
            ("[]", r#""shared": {"create": 9, "edit": 9}, "client": {"create": 1, "edit": 10}"#, "above the shared"),
        ] {
            let error = error(networks, members);
            assert!(error.contains(message), "{error}");
        }
        let two = |first: &str, second: &str, network: &str| {
            let text = format!(
                r#"[{{"name": "{first}", "networks": ["10.0.0.0/8"], {SHARED}}}, {{"name": "{second}", "networks": ["{network}"], {SHARED}}}]"#
            );
            Tiers::parse(&text).unwrap_err().to_string()
        };
        assert_eq!(two("a", "b", "10.1.2.3/8"), "10.0.0.0/8 is in the tier b and in another one");
        assert_eq!(two("a", "a", "11.0.0.0/8"), "two tiers have the name a");
        assert!(two("a", "2001:db8::", "11.0.0.0/8").contains("is not 1 to 32 of a-z"));
        let many = format!(r#"["10.0.0.1"{}]"#, r#", "10.0.0.1""#.repeat(MAX_NETWORKS));
        assert_eq!(error(&many, SHARED), "there are more than 10000 networks");
        assert!(Tiers::parse("").unwrap_err().to_string().contains("is a JSON array of tiers"));
    }
}
