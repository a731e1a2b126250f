//! The client address of a request (contract, decision 10).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, request::Parts};
use ipnet::IpNet;

use handbill_pages::values::client::{Client, Peer};

/// Trusted proxies write `X-Forwarded-For: client, proxy, …`.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[derive(Clone, Debug)]
pub struct TrustedProxies {
    /// If empty, the peer is the client.
    pub networks: Vec<IpNet>,
}

impl TrustedProxies {
    /// As rate limits count it.
    pub fn client(&self, head: &Parts) -> Client {
        let Peer(peer) = head.extensions.get().copied().expect("the server adds the peer to every request");
        self.client_address(peer.ip(), &head.headers).into()
    }

    /// Each proxy appends its caller, so the first untrusted address from the right is the client. An unreadable entry
    /// ends the search at the last trusted address, because anyone may have written further entries.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let address = peer.to_canonical();
        if !self.trusts(address) {
            return address;
        }
        // Bytes that are not UTF-8 spoil only their own entry.
        let lines: Vec<Cow<'_, str>> =
            headers.get_all(X_FORWARDED_FOR).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        let lines = lines.join(",");
        let mut client = address;
        for node in lines.rsplit(',') {
            let Some(before) = node_address(node) else { break };
            client = before;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    /// The peer is not trusted.
    pub fn ignores(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        headers.contains_key(X_FORWARDED_FOR) && !self.trusts(peer.to_canonical())
    }

    /// `address` must be canonical.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// With or without a port; IPv6 with a port is in brackets.
fn node_address(node: &str) -> Option<IpAddr> {
    let node = node.trim();
    let unbracketed = node.strip_prefix('[').and_then(|node| node.strip_suffix(']'));
    unbracketed
        .unwrap_or(node)
        .parse::<IpAddr>()
        .or_else(|_| node.parse::<SocketAddr>().map(|address| address.ip()))
        .ok()
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Entries that a trusted proxy may append for a client, each with the client's address.
    const APPENDED: &[(&str, &str)] = &[
        ("198.51.100.7", "198.51.100.7"),
        ("198.51.100.7:4711", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
    ];

    fn proxies() -> TrustedProxies {
        TrustedProxies {
            networks: ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|network| network.parse().unwrap()).to_vec(),
        }
    }

    fn client(peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        proxies().client_address(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn trusted_addresses_are_skipped_from_the_right_over_all_lines() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9, 198.51.100.7, 10.0.0.3", "10.0.0.2"]), "198.51.100.7");
        assert_eq!(client("::ffff:10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("2001:db8:ffff::1", &["2001:db8::7"]), "2001:db8::7");
    }

    proptest! {
        #[test]
        fn only_the_entry_of_the_trusted_proxy_is_read(
            sent in r#"([ -~]|[",;=\\ ]|203\.0\.113\.9){0,24}"#,
            (entry, expected) in select(APPENDED.to_vec()),
            hop in select(vec!["", ", 10.0.0.2", ",10.0.0.2:80"]),
            on_a_line_of_its_own in any::<bool>(),
        ) {
            let appended = format!("{entry}{hop}");
            let read = if on_a_line_of_its_own {
                client("10.0.0.1", &[&sent, &appended])
            } else {
                client("10.0.0.1", &[&format!("{sent}, {appended}")])
            };
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn the_header_of_a_peer_that_is_not_trusted_is_ignored() {
        fn ignores(peer: &str, name: Option<HeaderName>) -> bool {
            let headers = name.map(|name| (name, "198.51.100.7".parse().unwrap()));
            proxies().ignores(peer.parse().unwrap(), &headers.into_iter().collect())
        }

        assert!(ignores("192.0.2.1", Some(X_FORWARDED_FOR)) && ignores("2001:db8::1", Some(X_FORWARDED_FOR)));
        assert!(!ignores("10.0.0.1", Some(X_FORWARDED_FOR)) && !ignores("::ffff:10.0.0.1", Some(X_FORWARDED_FOR)));
        assert!(
            !ignores("192.0.2.1", None) && !ignores("192.0.2.1", Some(HeaderName::from_static("x-forwarded-proto")))
        );
    }
}
