//! Every key that is used in Redis. The part in braces decides the slot in a Redis Cluster.

use crate::domain::network_limits::Window;
use crate::ports::rate_limiter::LimitKind;

/// The keys of `windows`, which are those of one decision. All of them are in the slot of the widest network, because only
/// keys in one slot can be used in one atomic step.
pub(super) fn windows(limited: LimitKind, windows: &[Window]) -> Vec<String> {
    let Some(widest) = windows.last() else { return Vec::new() };
    let (kind, widest) = (limited.name(), widest.network);
    let key = |Window { network, .. }: &Window| {
        let within = if *network == widest { String::new() } else { format!(":{network}") };
        format!("handbill:limit:{{{kind}:{widest}}}{within}")
    };
    windows.iter().map(key).collect()
}

/// The key that the process called `name` writes to see whether Redis takes writes.
pub(super) fn probe(name: &str) -> String {
    format!("handbill:probe:{{{name}}}")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use crate::domain::client::Client;
    use crate::domain::network_limits::NetworkLimits;
    use crate::domain::quota::Quota;

    fn named(limits: &str, address: &str) -> Vec<String> {
        let quota = Quota { limit: 1, window: Duration::from_secs(1) };
        let client = Client::from(address.parse::<IpAddr>().unwrap());
        windows(LimitKind::Create, &limits.parse::<NetworkLimits>().unwrap().windows(quota, client, None))
    }

    #[test]
    fn the_windows_of_one_decision_have_the_widest_network_as_their_hash_tag() {
        assert_eq!(named("none", "192.0.2.7"), ["handbill:limit:{create:192.0.2.7}"]);
        assert_eq!(named("none", "2001:db8::1"), ["handbill:limit:{create:2001:db8::/64}"]);
        let expected = ["handbill:limit:{create:2001:db8::/48}:2001:db8::/64", "handbill:limit:{create:2001:db8::/48}"];
        assert_eq!(named("ipv6/48=2", "2001:db8::1"), expected);
    }
}
