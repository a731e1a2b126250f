//! The client address of a request (contract, decision 10).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::request::Parts;
use ipnet::IpNet;

use super::forwarded::ForParameters;
use handbill_core::domain::client::{Client, ForwardedHeader, Peer};

#[derive(Clone, Debug)]
pub struct TrustedProxies {
    /// The networks of the proxies. If the list is empty, the peer is the client.
    pub networks: Vec<IpNet>,
    pub header: ForwardedHeader,
}

impl TrustedProxies {
    /// The client of the request with this `head`, as rate limits count it.
    pub fn client(&self, head: &Parts) -> Client {
        let Peer(peer) = head.extensions.get().copied().expect("the server adds the peer to every request");
        self.client_address(peer.ip(), &head.headers).into()
    }

    /// The address of the client, for a request that came from `peer`.
    ///
    /// Each trusted proxy appends the address that called it. So the header is read from the right, as long as the
    /// addresses are trusted; the first address that is not trusted is the client. An unreadable entry ends the search at
    /// the last trusted address, because anyone may have written the entries further left.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let address = peer.to_canonical();
        if !self.trusts(address) {
            return address;
        }
        // Bytes that are not UTF-8 spoil only their own entry.
        let lines: Vec<Cow<'_, str>> =
            headers.get_all(self.header.name()).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        let lines = lines.join(",");
        match self.header {
            ForwardedHeader::XForwardedFor => self.walk(address, lines.rsplit(',').map(Some)),
            ForwardedHeader::Forwarded => self.walk(address, ForParameters::of(&lines)),
        }
    }

    /// The client address: the first address in `nodes` that is not trusted, or the last readable one. `peer` is trusted.
    fn walk<'a>(&self, peer: IpAddr, nodes: impl Iterator<Item = Option<&'a str>>) -> IpAddr {
        let mut address = peer;
        for node in nodes {
            let Some(before) = node.and_then(node_address) else { break };
            address = before;
            if !self.trusts(address) {
                break;
            }
        }
        address
    }

    /// Whether `headers` name a client but are ignored, because `peer` is not a trusted proxy.
    pub fn ignores(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let names_a_client =
            [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded].iter().any(|h| headers.contains_key(h.name()));
        names_a_client && !self.trusts(peer.to_canonical())
    }

    /// Whether `address` is a trusted proxy. `address` must be canonical.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// Parses an address with or without a port. IPv6 is in brackets in `Forwarded`, and wherever a port follows.
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
        ("for=198.51.100.7", "198.51.100.7"),
        ("for=198.51.100.7;proto=https", "198.51.100.7"),
        (r#"for="198.51.100.7:4711""#, "198.51.100.7"),
        (r#"For="[2001:db8::7]:4711""#, "2001:db8::7"),
        (r#"by=x;for="[2001:db8::7]""#, "2001:db8::7"),
        // The proxy copies the client's `Host` header, whatever its value is.
        (r#"for=198.51.100.7;host="a, for=203.0.113.9""#, "198.51.100.7"),
        (r#"for=198.51.100.7;host="a\",for=203.0.113.9;b=\"c\\""#, "198.51.100.7"),
        (r#"host="x=";for="198.51.100.7";by=";y=""#, "198.51.100.7"),
    ];

    fn client(header: ForwardedHeader, peer: &str, lines: &[&str]) -> String {
        let networks = ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|network| network.parse().unwrap()).to_vec();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.name(), line.parse().unwrap());
        }
        TrustedProxies { networks, header }.client_address(peer.parse().unwrap(), &headers).to_string()
    }

    fn x_forwarded_for(peer: &str, lines: &[&str]) -> String {
        client(ForwardedHeader::XForwardedFor, peer, lines)
    }

    fn forwarded(lines: &[&str]) -> String {
        client(ForwardedHeader::Forwarded, "10.0.0.1", lines)
    }

    #[test]
    fn trusted_addresses_are_skipped_from_the_right_over_all_lines() {
        assert_eq!(x_forwarded_for("10.0.0.1", &["203.0.113.9, 198.51.100.7, 10.0.0.3", "10.0.0.2"]), "198.51.100.7");
        assert_eq!(x_forwarded_for("::ffff:10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(x_forwarded_for("2001:db8:ffff::1", &["2001:db8::7"]), "2001:db8::7");
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_before_it_the_entry_that_the_trusted_proxy_appended_is_read(
            // Mostly separators, quotes and escapes.
            sent in r#"([ -~]|[",;=\\ ]|for=|for="203\.0\.113\.9"?){0,24}"#,
            (entry, expected) in select(APPENDED.to_vec()),
            hops in select(vec!["", ", for=10.0.0.2", r#", for="10.0.0.2:80";by="x,\",y""#]),
            on_a_line_of_its_own in any::<bool>(),
        ) {
            let appended = format!("{entry}{hops}");
            let read = if on_a_line_of_its_own {
                forwarded(&[&sent, &appended])
            } else {
                forwarded(&[&format!("{sent}, {appended}")])
            };
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn either_header_from_a_peer_that_is_not_trusted_is_ignored() {
        let networks = vec!["10.0.0.0/8".parse().unwrap()];
        let proxies = TrustedProxies { networks, header: ForwardedHeader::XForwardedFor };
        let ignores = |peer: &str, name: Option<&'static str>| {
            let headers = name.map(|name| (name.parse().unwrap(), "for=198.51.100.7".parse().unwrap()));
            proxies.ignores(peer.parse().unwrap(), &headers.into_iter().collect())
        };
        assert!(ignores("192.0.2.1", Some("x-forwarded-for")) && ignores("2001:db8::1", Some("forwarded")));
        assert!(!ignores("10.0.0.1", Some("x-forwarded-for")) && !ignores("::ffff:10.0.0.1", Some("forwarded")));
        assert!(!ignores("192.0.2.1", None) && !ignores("192.0.2.1", Some("x-forwarded-proto")));
    }
}
