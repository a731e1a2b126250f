//! The hosts that a page's links and images lead to.

use std::{collections::BTreeSet, net::IpAddr};

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::{client::Client, markdown::is_short_enough};

pub fn link_hosts(addresses: &[String]) -> BTreeSet<String> {
    addresses.iter().flat_map(|address| hosts(address)).collect()
}

pub fn link_prefixes(addresses: &[String]) -> impl Iterator<Item = UrlPrefix> {
    addresses.iter().filter_map(|address| UrlPrefix::of(&Url::parse(address).ok()?))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UrlPrefix {
    pub host: String,
    /// Without percent-encoding and repeated slashes, which many servers ignore; empty for the whole host.
    pub path: String,
}

impl UrlPrefix {
    /// With or without the scheme.
    pub fn parse(text: &str) -> Option<Self> {
        if ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Self::of(&Url::parse(text).ok()?);
        }
        let host = text.split('/').next().unwrap_or_default();
        if host.is_empty() || host.contains('@') || text.contains('#') || text.contains("://") {
            return None;
        }
        Self::of(&Url::parse(&format!("https://{text}")).ok()?)
    }

    fn of(url: &Url) -> Option<Self> {
        let host = ["http", "https"].contains(&url.scheme()).then(|| url.host_str().and_then(parse_host))??;
        let mut path = decoded(url.path());
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        if let Some(query) = url.query() {
            path.extend(["?", &decoded(query)]);
        }
        Some(Self { host, path: if path == "/" { String::new() } else { path } })
    }

    /// Whether `other` is this place, below its path, or on a subdomain.
    pub fn includes(&self, other: &Self) -> bool {
        is_within(&other.host, &self.host) && self.includes_path(&other.path)
    }

    fn includes_path(&self, path: &str) -> bool {
        let is_end =
            |rest: &str| rest.is_empty() || rest.starts_with(['/', '?', '&']) || self.path.ends_with(['/', '=']);
        path.strip_prefix(self.path.as_str()).is_some_and(is_end)
    }
}

pub fn parse_host(text: &str) -> Option<String> {
    let text = text.trim();
    if !is_short_enough(text) {
        return None;
    }
    let is_bare_ipv6 = text.contains(':') && !text.starts_with('[');
    let host = if is_bare_ipv6 { Host::parse(&format!("[{text}]")) } else { Host::parse(text) }.ok()?;
    // The URL standard also allows characters such as `*`.
    if matches!(&host, Host::Domain(name) if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))) {
        return None;
    }
    let host = match host {
        Host::Ipv6(address) if let Client::V4(inner) = IpAddr::from(address).into() => inner.to_string(),
        host => host.to_string(),
    };
    let host = host.trim_end_matches('.');
    (!host.is_empty()).then(|| host.to_owned())
}

fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// A mail link (RFC 6068) has recipients in its path, `to`, `cc` and `bcc`.
fn hosts(address: &str) -> Vec<String> {
    let Ok(url) = Url::parse(address) else { return Vec::new() };
    if url.scheme() != "mailto" {
        return url.host_str().and_then(parse_host).into_iter().collect();
    }
    let fields = url.query_pairs().filter(|(name, _)| ["to", "cc", "bcc"].contains(&&*name.to_ascii_lowercase()));
    let fields = fields.map(|(_, value)| value);
    let recipients: Vec<_> = fields.chain([percent_decode_str(url.path()).decode_utf8_lossy()]).collect();
    // Programs disagree on separators, so each `@` counts.
    recipients.iter().flat_map(|recipients| recipients.split('@').skip(1)).filter_map(host_of_recipient).collect()
}

fn host_of_recipient(rest: &str) -> Option<String> {
    let rest = rest.trim_start_matches(['[', ' ', '\t']);
    let end = rest.find(|c: char| c.is_whitespace() || c.is_control() || ",;:<>()[]\"&".contains(c));
    parse_host(&rest[..end.unwrap_or(rest.len())])
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::markdown::render;

    fn hosts(markdown: &str) -> Vec<String> {
        link_hosts(&render(markdown).shown.addresses).into_iter().collect()
    }

    #[test]
    fn links_images_bare_addresses_and_mail_are_found_once_each() {
        let markdown = "[a](https://A.example/x?a=1&b=2) ![i](https://img.example:8443/i.png)\n\nhttp://bare.example/ \
            <mailto:x@mail.example> [again](http://a.example) [here](/a-page-22222222)";
        assert_eq!(hosts(markdown), ["a.example", "bare.example", "img.example", "mail.example"]);
    }

    #[test]
    fn every_recipient_of_a_mail_link_counts_in_any_spelling() {
        for link in [
            "a@evil.example,b@ok.example",
            "b@ok.example;a@evil.example",
            "?to=a@evil.example",
            "b@ok.example?cc=a@evil.example",
            "b@ok.example?subject=x&BCC=b@ok.example,a@evil.example",
            "b@ok.example?subject=x&%74o=%61%40evil.example",
            "a%40evil.example",
            "a@evil.example%20",
            "a@evil.example;",
            "a%40%65vil%2Eexample#x",
            "a@%20evil.example.%0A",
            "%22b@ok.example%22%20%3Ca@EVIL.example%3E",
            "%22a,b%22@evil.example?to",
        ] {
            let found = hosts(&format!("[x](<mailto:{link}>)"));
            assert!(found.contains(&"evil.example".to_owned()), "{link}: {found:?}");
            assert_eq!(found.len(), 1 + usize::from(link.contains("ok.example")), "{link}: {found:?}");
        }
        assert_eq!(hosts("[x](mailto:a@b%C3%BCcher.example)"), ["xn--bcher-kva.example"]);
        assert_eq!(hosts("[x](mailto:a@%5B192.0.2.1%5D)"), ["192.0.2.1"]);
    }

    #[test]
    fn a_mail_link_without_recipients_leads_nowhere() {
        for link in ["mailto:", "mailto:?subject=a@evil.example&body=https://evil.example", "mailto:evil.example"] {
            assert!(hosts(&format!("[x]({link})")).is_empty(), "{link}");
        }
    }

    #[test]
    fn an_address_in_text_or_code_is_no_link() {
        assert!(hosts("`https://a.example`, `[b](https://b.example)` and `<a href=\"https://c.example\">`").is_empty());
        assert!(hosts("    <img src=\"https://a.example/i.png\">\n").is_empty());
    }

    #[test]
    fn a_host_has_one_spelling() {
        assert_eq!(
            hosts("[x](https://xn--bcher-kva.example) [y](https://bücher.example./)"),
            ["xn--bcher-kva.example"]
        );
        assert_eq!(parse_host(" BÜCHER.example. ").as_deref(), Some("xn--bcher-kva.example"));
        assert_eq!(parse_host("192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(parse_host("2001:DB8::1").as_deref(), Some("[2001:db8::1]"));
        for mapped in ["[::ffff:192.0.2.1]", "::FFFF:c000:201", "64:ff9b::192.0.2.1", "[2002:c000:201::1]"] {
            assert_eq!(parse_host(mapped).as_deref(), Some("192.0.2.1"), "{mapped}");
        }
        for wrong in ["", ".", "a b", "*.a.example", "https://a.example", "a.example/x"] {
            assert_eq!(parse_host(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_place_includes_all_below_it_and_nothing_beside_it() {
        fn place(text: &str) -> UrlPrefix {
            UrlPrefix::parse(text).unwrap()
        }

        let form = place("docs.example/forms/x");
        for below in [
            "https://docs.example/forms/x",
            "http://DOCS.example:8080/forms/%78?y#z",
            "https://docs.example/a/../forms/x/view",
            "https://docs.example//forms/%2f/x",
            "https://www.docs.example/forms/x/",
        ] {
            assert!(form.includes(&place(below)), "{below}");
        }
        for beside in ["https://docs.example/forms/xy", "https://docs.example/forms", "https://other.example/forms/x"] {
            assert!(!form.includes(&place(beside)), "{beside}");
        }
        let numbered = place("https://docs.example/view?id=5");
        assert!(numbered.includes(&place("https://docs.example/view?id=5&x=1")));
        assert!(!numbered.includes(&place("https://docs.example/view?id=51")));
        assert!(place("docs.example/").includes(&place("https://docs.example/anything")));
        for no_place in ["", "/forms/x", "mailto:a@docs.example", "ftp://docs.example/x", "*.example/x"] {
            assert_eq!(UrlPrefix::parse(no_place), None, "{no_place}");
        }
    }

    #[test]
    fn a_domain_includes_its_subdomains_but_no_similar_name() {
        assert!(is_within("a.example", "a.example") && is_within("x.y.a.example", "a.example"));
        assert!(!is_within("ba.example", "a.example") && !is_within("example", "a.example"));
    }
}
