//! Networks that have limits of their own, such as shared egress or one's own systems.

use ipnet::IpNet;
use thiserror::Error;

use super::client::Client;

/// Longest IPv6 prefix of a tier, in bits: a client is a whole /64.
const MAX_IPV6_PREFIX: u8 = 64;

/// Limits of creates, and of updates and deletes; 0 means any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Pages that may be created within the window.
    pub create: u32,
    /// Updates and deletes that may be tried within the window.
    pub edit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitTier {
    pub network: IpNet,
    pub client: TierLimits,
    /// The limits of each subject within those of its client, if the network is believed about subjects.
    pub subject: Option<TierLimits>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LimitTierError {
    #[error(
        "give a network and two limits, such as 192.0.2.0/24=100/600, and perhaps two for each subject, such as 192.0.2.0/24=100/600:10/60; 0 switches a limit off"
    )]
    Form,
    /// A client would never reach the limit of a subject.
    #[error(
        "the limits of a subject are at most those of its client, and a client whose subjects have limits has limits too"
    )]
    SubjectAboveClient,
    #[error("an IPv6 network has a prefix of at most 64 bits, because a client is a /64")]
    SmallerThanAClient,
    #[error("a limit is at most {MAX_LIMIT}")]
    TooHigh,
}

/// Highest limit. A window remembers each of its attempts.
pub const MAX_LIMIT: u32 = 1_000_000;

impl LimitTier {
    /// Accepts `CIDR=CREATE/EDIT` and `CIDR=CREATE/EDIT:CREATE/EDIT`; an address without a prefix length is one client.
    pub fn parse(text: &str) -> Result<Self, LimitTierError> {
        let (network, limits) = text.trim().split_once('=').ok_or(LimitTierError::Form)?;
        let (client, subject) = match limits.split_once(':') {
            None => (TierLimits::parse(limits)?, None),
            Some((client, subject)) => (TierLimits::parse(client)?, Some(TierLimits::parse(subject)?)),
        };
        if subject.is_some_and(|subject| !subject.fits_into(client)) {
            return Err(LimitTierError::SubjectAboveClient);
        }
        let network: IpNet = match network.trim().parse() {
            Ok(network) => network,
            Err(_) => match network.trim().parse().map_err(|_| LimitTierError::Form)? {
                std::net::IpAddr::V4(address) => IpNet::from(std::net::IpAddr::V4(address)),
                std::net::IpAddr::V6(address) => {
                    IpNet::new(address.into(), MAX_IPV6_PREFIX).map_err(|_| LimitTierError::Form)?
                }
            },
        };
        if network.addr().is_ipv6() && network.prefix_len() > MAX_IPV6_PREFIX {
            return Err(LimitTierError::SmallerThanAClient);
        }
        Ok(Self { network: network.trunc(), client, subject })
    }

    fn has(&self, client: Client) -> bool {
        match client {
            Client::V4(address) => self.network.contains(&std::net::IpAddr::V4(address)),
            Client::V6Network(network) => self.network.contains(&std::net::IpAddr::V6(network)),
        }
    }
}

impl TierLimits {
    fn parse(text: &str) -> Result<Self, LimitTierError> {
        let (create, edit) = text.split_once('/').ok_or(LimitTierError::Form)?;
        let limit = |text: &str| text.trim().parse::<u32>().map_err(|_| LimitTierError::Form);
        let (create, edit) = (limit(create)?, limit(edit)?);
        if create.max(edit) > MAX_LIMIT { Err(LimitTierError::TooHigh) } else { Ok(Self { create, edit }) }
    }

    /// Whether these limits of a subject are within those of its `client`. Only a limit of the client bounds how many
    /// subjects it can name.
    fn fits_into(self, client: Self) -> bool {
        let fits = |own: u32, client: u32| own == 0 || (client > 0 && own <= client);
        fits(self.create, client.create) && fits(self.edit, client.edit)
    }
}

/// The tier of `client`: of the networks that contain the client, the smallest.
pub fn tier_of(tiers: &[LimitTier], client: Client) -> Option<LimitTier> {
    tiers.iter().filter(|tier| tier.has(client)).max_by_key(|tier| tier.network.prefix_len()).copied()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn limits(create: u32, edit: u32) -> TierLimits {
        TierLimits { create, edit }
    }

    fn tier(text: &str) -> LimitTier {
        LimitTier::parse(text).unwrap()
    }

    #[test]
    fn a_tier_is_a_network_and_two_limits() {
        let parsed = tier(" 192.0.2.7/24=100/600 ");
        assert_eq!(
            (parsed.network.to_string().as_str(), parsed.client, parsed.subject),
            ("192.0.2.0/24", limits(100, 600), None)
        );
        assert_eq!(tier("192.0.2.7=0/0").network.to_string(), "192.0.2.7/32");
        assert_eq!(tier("2001:db8::1=1/2").network.to_string(), "2001:db8::/64");
        for wrong in [
            "",
            "192.0.2.0/24",
            "192.0.2.0/24=100",
            "192.0.2.0/33=1/1",
            "a=1/1",
            "192.0.2.0/24=-1/1",
            "192.0.2.0/24=1/1/1",
            "192.0.2.0/24=1/1:",
            "192.0.2.0/24=1/1:1/1:1/1",
        ] {
            assert_eq!(LimitTier::parse(wrong), Err(LimitTierError::Form), "{wrong:?}");
        }
        assert_eq!(LimitTier::parse("2001:db8::/65=1/1"), Err(LimitTierError::SmallerThanAClient));
        assert_eq!(LimitTier::parse("10.0.0.0/8=1000001/1"), Err(LimitTierError::TooHigh));
    }

    #[test]
    fn a_tier_may_have_limits_of_each_subject_which_are_within_those_of_its_client() {
        let parsed = tier("2001:db8::/48=100/600:10/60");
        assert_eq!((parsed.client, parsed.subject), (limits(100, 600), Some(limits(10, 60))));
        assert_eq!(tier("192.0.2.1=1/0:1/0").subject, Some(limits(1, 0)));
        for wrong in ["192.0.2.1=9/60:10/60", "192.0.2.1=10/59:10/60", "192.0.2.1=0/60:10/60", "192.0.2.1=10/0:10/60"] {
            assert_eq!(LimitTier::parse(wrong), Err(LimitTierError::SubjectAboveClient), "{wrong}");
        }
    }

    #[test]
    fn the_smallest_network_that_contains_the_client_counts() {
        let tiers = ["10.0.0.0/8=1/1", "10.1.0.0/16=2/2", "2001:db8::/32=3/3"].map(tier);
        let create = |address: &str| {
            let client = Client::from(address.parse::<IpAddr>().unwrap());
            tier_of(&tiers, client).map(|tier| tier.client.create)
        };
        assert_eq!(create("10.2.3.4"), Some(1));
        assert_eq!(create("10.1.3.4"), Some(2));
        assert_eq!(create("::ffff:10.1.3.4"), Some(2));
        assert_eq!(create("2001:db8:1:2:3:4:5:6"), Some(3));
        assert_eq!((create("192.0.2.1"), create("2001:db9::1")), (None, None));
    }
}
