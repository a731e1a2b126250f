//! The blocklist: places that no page may link to, and texts that were taken down.
//!
//! A line is one of these:
//!
//! * a host, with its subdomains, or an address with its path: `docs.example/forms/x`;
//! * a line of a hosts file, such as `0.0.0.0 spam.example`; names without a dot are ignored;
//! * a filter for a host, `||spam.example^`;
//! * `text:` and the SHA-256 of the Markdown, as `sha256sum` prints it.
//!
//! Empty lines, comments from ` #` or `!` on, and a filter list's header are ignored. A slip must not block half of the
//! web: a top-level domain, a registry's suffix (`co.uk`) and the service's own host are errors. A host whose users
//! have subdomains (`github.io`) is allowed.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::hex;
use super::link_hosts::{UrlPrefix, link_hosts, link_prefixes, parse_host};

const TEXT: &str = "text:";

const NO_ENTRY: &str =
    "is no host, such as spam.example, no address, no line of a hosts file, no ||host^ and no text: with a SHA-256";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocklist {
    hosts: HashSet<String>,
    /// By host.
    places: HashMap<String, Vec<UrlPrefix>>,
    /// SHA-256 of Markdown.
    texts: HashSet<[u8; 32]>,
}

impl Blocklist {
    /// `own` are the service's hosts. An error names the line, counted from 1.
    pub fn parse(text: &str, own: &[String]) -> Result<Self, String> {
        let mut list = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.starts_with(['#', '!']) || line.starts_with("[Adblock") {
                continue;
            }
            let end = [" #", "\t#"].iter().filter_map(|mark| line.find(mark)).min();
            let entry = line[..end.unwrap_or(line.len())].trim();
            list.add(entry, own).map_err(|fault| format!("line {number} {fault}"))?;
        }
        Ok(list)
    }

    fn add(&mut self, entry: &str, own: &[String]) -> Result<(), &'static str> {
        if entry.is_empty() {
            return Ok(());
        }
        if let Some(digits) = entry.strip_prefix(TEXT) {
            self.texts.insert(hex::decode(digits).and_then(|hash| hash.try_into().ok()).ok_or(NO_ENTRY)?);
            return Ok(());
        }
        if let Some((address, names)) = hosts_line(entry) {
            for name in names.filter(|name| name.contains('.') && name.parse::<IpAddr>().is_err()) {
                let is_sink = address.is_unspecified() || address.is_loopback();
                self.add_host(parse_host(name).filter(|_| is_sink).ok_or(NO_ENTRY)?, own)?;
            }
            return Ok(());
        }
        let entry = match entry.strip_prefix("||") {
            Some(filter) => filter_of_host(filter).ok_or(NO_ENTRY)?,
            None => entry,
        };
        if let Some(host) = parse_host(entry) {
            return self.add_host(host, own);
        }
        let place = UrlPrefix::parse(entry).ok_or(NO_ENTRY)?;
        if place.path.is_empty() {
            return self.add_host(place.host, own);
        }
        self.places.entry(place.host.clone()).or_default().push(place);
        Ok(())
    }

    fn add_host(&mut self, host: String, own: &[String]) -> Result<(), &'static str> {
        let suffix = psl::suffix(host.as_bytes()).filter(|suffix| suffix.typ() == Some(psl::Type::Icann));
        if !host.contains(['.', '[']) || suffix.is_some_and(|suffix| suffix == host.as_str()) {
            return Err("is a public suffix, which would refuse the hosts of everybody below it");
        }
        if own.iter().any(|own| domains(own).any(|domain| domain == host)) {
            return Err("is the host of this service, or a domain above it");
        }
        self.hosts.insert(host);
        Ok(())
    }

    pub fn entries(&self) -> usize {
        self.hosts.len() + self.places.values().map(Vec::len).sum::<usize>() + self.texts.len()
    }

    /// Links and images of the page lead to `addresses`.
    pub fn refuses(&self, markdown: &str, addresses: &[String]) -> bool {
        (!self.texts.is_empty() && self.texts.contains(&<[u8; 32]>::from(Sha256::digest(markdown))))
            || (!self.hosts.is_empty() && link_hosts(addresses).iter().any(|host| self.has_host(host)))
            || (!self.places.is_empty() && link_prefixes(addresses).any(|place| self.has_place(&place)))
    }

    fn has_host(&self, host: &str) -> bool {
        domains(host).any(|domain| self.hosts.contains(domain))
    }

    fn has_place(&self, place: &UrlPrefix) -> bool {
        let mut listed = domains(&place.host).filter_map(|domain| self.places.get(domain)).flatten();
        listed.any(|listed| listed.includes(place))
    }
}

/// The entry for this text; titles do not count.
pub fn entry_of(markdown: &str) -> String {
    format!("{TEXT}{}", hex::encode(&Sha256::digest(markdown)))
}

fn domains(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, parent)| parent))
}

fn hosts_line(entry: &str) -> Option<(IpAddr, impl Iterator<Item = &str>)> {
    let mut words = entry.split_ascii_whitespace();
    let address = words.next()?.split('%').next()?.parse().ok()?;
    let mut names = words.peekable();
    names.peek()?;
    Some((address, names))
}

/// `None` if the filter covers only parts of a host, or only some readers.
fn filter_of_host(filter: &str) -> Option<&str> {
    let (pattern, options) = filter.split_once('$').unwrap_or((filter, ""));
    let place = pattern.strip_suffix('^').unwrap_or(pattern);
    (!place.contains(['*', '^', '|']) && !options.contains('=')).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::markdown::render;

    fn parse(list: &str) -> Result<Blocklist, String> {
        Blocklist::parse(list, &["pages.handbill.example".to_owned()])
    }

    fn refuses(list: &str, markdown: &str) -> bool {
        parse(list).unwrap().refuses(markdown, &render(markdown).shown.addresses)
    }

    const TAKEN_DOWN: &str = "A text that was taken down because nobody should read it.";

    #[test]
    fn a_host_is_refused_with_its_subdomains_in_links_and_images() {
        let list = "# known spammers\nspam.example # since May\n\n 192.0.2.1\n2001:db8::1\nBÜCHER.example\n";
        for refused in [
            "[x](https://spam.example/)",
            "http://www.SPAM.example:8080/x?y",
            "![](https://img.cdn.spam.example/i.png)",
            "<mailto:a@spam.example>",
            "[x](mailto:b@fine.example?cc=a%40spam.example)",
            "[x](http://192.0.2.1/)",
            "[x](http://[2001:db8::1]/)",
            "[x](https://xn--bcher-kva.example/)",
        ] {
            assert!(refuses(list, refused), "{refused}");
        }
        for fine in ["[x](https://notspam.example/)", "[x](https://spam.example.org/)", "spam.example is bad", "text"] {
            assert!(!refuses(list, fine), "{fine}");
        }
    }

    #[test]
    fn the_hash_of_a_text_refuses_exactly_this_text() {
        let entry = entry_of(TAKEN_DOWN);
        assert_eq!(entry, "text:8446d7bbbb867c5c1e13c6ab9bea8da6a86573876557a72eece75326cd72c5cb");
        assert!(refuses(&entry, TAKEN_DOWN) && refuses(&entry.to_uppercase().replace("TEXT", "text"), TAKEN_DOWN));
        assert!(!refuses(&entry, &format!("{TAKEN_DOWN} ")));
    }

    /// Looking up each parent of such a name takes time in the square of its length.
    #[test]
    fn a_name_that_no_host_can_have_is_not_compared() {
        for before in ["https://", "mailto:a@"] {
            let [possible, long] =
                [253, 255].map(|bytes| format!("[x]({before}{}.evil.example)", &"a.".repeat(bytes)[..bytes - 13]));
            assert!(refuses("evil.example", &possible) && !refuses("evil.example", &long), "{before}");
        }
    }

    #[test]
    fn an_empty_list_refuses_nothing() {
        assert!(!refuses("", TAKEN_DOWN) && !refuses(" \n# nothing\n", "[x](https://spam.example)"));
        assert_eq!(parse("a.example\nA.EXAMPLE.\n").unwrap().entries(), 1);
    }

    #[test]
    fn lists_are_taken_as_others_publish_them() {
        for (line, refused, fine) in [
            ("0.0.0.0 spam.example www.bad.example # since May", "https://www.bad.example/x", "https://bad.example/x"),
            ("127.0.0.1\tlocalhost\tspam.example", "https://spam.example", "http://localhost/"),
            ("::1 ip6-localhost spam.example", "https://spam.example", "https://fine.example"),
            ("||spam.example^", "https://a.spam.example/x", "https://notspam.example"),
            ("||spam.example^$third-party", "https://spam.example/x", "https://fine.example"),
            ("||docs.example/forms^", "https://docs.example/forms/1", "https://docs.example/form"),
            ("https://spam.example/", "https://spam.example/x", "https://fine.example"),
            ("http://docs.example/forms/x?a=1", "https://docs.example/forms/x?a=1&b", "https://docs.example/forms/x"),
            (
                "docs.example/forms/x # a form",
                "![](https://docs.example/forms/x/i.png)",
                "https://docs.example/forms/y",
            ),
        ] {
            assert!(
                refuses(line, &format!("<{}>", refused.trim_start_matches("![](").trim_end_matches(')'))),
                "{line}"
            );
            assert!(refuses(line, refused), "{line}");
            assert!(!refuses(line, &format!("[x]({fine})")), "{line}");
        }
        let header = "[Adblock Plus 2.0]\n! Title: A list\n# hosts\n0.0.0.0 0.0.0.0\n255.255.255.255 broadcasthost\n\
                      fe80::1%lo0 localhost\n";
        assert_eq!(parse(header), Ok(Blocklist::default()));
        for wrong in [
            "192.0.2.1 server.example",
            "||spam.*^",
            "||spam.example^$domain=a.example",
            "@@||fine.example^",
            "spam.example##.ad",
        ] {
            assert_eq!(parse(wrong), Err(format!("line 1 {NO_ENTRY}")), "{wrong}");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_and_the_list_is_refused() {
        for wrong in
            ["ftp://spam.example/x", "spam example", "*.spam.example", "text:123", "text:", "a@spam.example", "/path"]
        {
            assert_eq!(parse(&format!("a.example\n{wrong}")), Err(format!("line 2 {NO_ENTRY}")), "{wrong}");
        }
    }

    #[test]
    fn a_public_suffix_and_the_own_host_are_no_entries() {
        let fault = |list: &str| parse(list).unwrap_err();
        for suffix in ["com", "CO.UK", "||co.uk^", "https://co.uk/", "0.0.0.0 co.uk", "xn--p1ai", "рф", "localhost"] {
            assert!(fault(suffix).starts_with("line 1 is a public suffix"), "{suffix}");
        }
        for own in ["pages.handbill.example", "||handbill.example^", "http://handbill.example"] {
            assert!(fault(own).starts_with("line 1 is the host of this service"), "{own}");
        }
        for taken in ["spam.co.uk", "github.io", "co.uk/path", "a.pages.handbill.example", "andbill.example", "[::1]"] {
            assert_eq!(parse(taken).unwrap().entries(), 1, "{taken}");
        }
    }
}
