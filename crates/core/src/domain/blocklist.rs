//! The blocklist: operators publish no pages that link to certain hosts, or that were taken down before.
//!
//! The list is text, as others publish such lists. A line is one of these:
//!
//! * a host, which stands for its subdomains too, or an address, with its path if it has one: `docs.example/forms/x`;
//! * a line of a hosts file, such as `0.0.0.0 spam.example`, whose names without a dot are left out;
//! * a filter for a host, `||spam.example^`;
//! * `text:` and the SHA-256 of a text, as `sha256sum` prints it for a file with the Markdown.
//!
//! Empty lines, comments from ` #` or `!` on, and the header of a list of filters are left out.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::hex;
use super::link_hosts::{Place, link_hosts, link_places, parse_host};

/// The beginning of an entry for a text.
const TEXT: &str = "text:";

/// Hosts, places and texts that no page may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocklist {
    hosts: HashSet<String>,
    /// Places that are less than a host, by their hosts.
    places: HashMap<String, Vec<Place>>,
    /// SHA-256 of Markdown.
    texts: HashSet<[u8; 32]>,
}

/// A line that cannot be part of a list. It is counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlocklistError {
    #[error(
        "line {0} is no host, such as spam.example, no address, no line of a hosts file, no ||host^ and no text: with a SHA-256"
    )]
    NotAnEntry(usize),
    #[error("line {0} is a host without a dot, which would refuse a whole top-level domain")]
    TopLevel(usize),
}

impl Blocklist {
    pub fn parse(text: &str) -> Result<Self, BlocklistError> {
        let mut list = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.starts_with(['#', '!']) || line.starts_with("[Adblock") {
                continue;
            }
            let end = [" #", "\t#"].iter().filter_map(|mark| line.find(mark)).min();
            list.add(line[..end.unwrap_or(line.len())].trim(), number)?;
        }
        Ok(list)
    }

    fn add(&mut self, entry: &str, number: usize) -> Result<(), BlocklistError> {
        let no_entry = BlocklistError::NotAnEntry(number);
        if entry.is_empty() {
            return Ok(());
        }
        if let Some(digits) = entry.strip_prefix(TEXT) {
            self.texts.insert(hex::decode(digits).and_then(|hash| hash.try_into().ok()).ok_or(no_entry)?);
            return Ok(());
        }
        if let Some((address, names)) = hosts_line(entry) {
            for name in names.filter(|name| name.contains('.') && name.parse::<IpAddr>().is_err()) {
                let is_sink = address.is_unspecified() || address.is_loopback();
                self.hosts.insert(parse_host(name).filter(|_| is_sink).ok_or(no_entry)?);
            }
            return Ok(());
        }
        let entry = match entry.strip_prefix("||") {
            Some(filter) => filter_of_host(filter).ok_or(no_entry)?,
            None => entry,
        };
        let whole = |host| Place { host, path: String::new() };
        let is_domain = |host: &str| host.contains(['.', '[']);
        let place = match parse_host(entry).map(whole) {
            Some(host) if !is_domain(&host.host) => return Err(BlocklistError::TopLevel(number)),
            Some(host) => host,
            None => Place::parse(entry).filter(|place| is_domain(&place.host)).ok_or(no_entry)?,
        };
        if place.path.is_empty() {
            self.hosts.insert(place.host);
        } else {
            self.places.entry(place.host.clone()).or_default().push(place);
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.hosts.len() + self.places.values().map(Vec::len).sum::<usize>() + self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a page with this `markdown`, whose links and images lead to `addresses`, is refused.
    pub fn refuses(&self, markdown: &str, addresses: &[String]) -> bool {
        if self.is_empty() {
            return false;
        }
        let has_host = || link_hosts(addresses).iter().any(|host| self.has_host(host));
        self.has_text(markdown) || has_host() || self.has_place(addresses)
    }

    /// Whether `host` or a domain that it belongs to is on the list.
    fn has_host(&self, host: &str) -> bool {
        domains(host).any(|domain| self.hosts.contains(domain))
    }

    fn has_place(&self, addresses: &[String]) -> bool {
        let is_listed = |place: &Place| {
            let mut listed = domains(&place.host).filter_map(|domain| self.places.get(domain)).flatten();
            listed.any(|listed| listed.includes_path(&place.path))
        };
        !self.places.is_empty() && link_places(addresses).any(|place| is_listed(&place))
    }

    fn has_text(&self, markdown: &str) -> bool {
        !self.texts.is_empty() && self.texts.contains(&<[u8; 32]>::from(Sha256::digest(markdown)))
    }
}

/// The entry that refuses exactly this text: its title does not count.
pub fn entry_of(markdown: &str) -> String {
    format!("{TEXT}{}", hex::encode(&Sha256::digest(markdown)))
}

/// `host` and the domains that it belongs to.
fn domains(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, parent)| parent))
}

/// The address and the names of a line of a hosts file.
fn hosts_line(entry: &str) -> Option<(IpAddr, impl Iterator<Item = &str>)> {
    let mut words = entry.split_ascii_whitespace();
    let address = words.next()?.split('%').next()?.parse().ok()?;
    let mut names = words.peekable();
    names.peek()?;
    Some((address, names))
}

/// The host or address that a filter names after its `||`; `None` if it refuses only parts of it, or only for some.
fn filter_of_host(filter: &str) -> Option<&str> {
    let (pattern, options) = filter.split_once('$').unwrap_or((filter, ""));
    let place = pattern.strip_suffix('^').unwrap_or(pattern);
    (!place.contains(['*', '^', '|']) && !options.contains('=')).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::markdown::render;

    fn refuses(list: &str, markdown: &str) -> bool {
        Blocklist::parse(list).unwrap().refuses(markdown, &render(markdown).shown.addresses)
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
        let host = |bytes: usize| format!("{}.evil.example", "a.".repeat(bytes).split_at(bytes - 13).0);
        for before in ["https://", "mailto:a@"] {
            let link = |bytes: usize| format!("[x]({before}{})", host(bytes));
            assert!(refuses("evil.example", &link(253)) && !refuses("evil.example", &link(255)), "{before}");
        }
    }

    #[test]
    fn an_empty_list_refuses_nothing() {
        assert!(!refuses("", TAKEN_DOWN) && !refuses(" \n# nothing\n", "[x](https://spam.example)"));
        assert_eq!(Blocklist::parse("a.example\nA.EXAMPLE.\n").unwrap().len(), 1);
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
        assert_eq!(Blocklist::parse(header), Ok(Blocklist::default()));
        for wrong in [
            "192.0.2.1 server.example",
            "||spam.*^",
            "||spam.example^$domain=a.example",
            "@@||fine.example^",
            "spam.example##.ad",
        ] {
            assert_eq!(Blocklist::parse(wrong), Err(BlocklistError::NotAnEntry(1)), "{wrong}");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_and_the_list_is_refused() {
        for wrong in
            ["ftp://spam.example/x", "spam example", "*.spam.example", "text:123", "text:", "a@spam.example", "/path"]
        {
            assert_eq!(Blocklist::parse(&format!("a.example\n{wrong}")), Err(BlocklistError::NotAnEntry(2)), "{wrong}");
        }
        assert_eq!(Blocklist::parse("com"), Err(BlocklistError::TopLevel(1)));
    }
}
