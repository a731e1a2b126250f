//! The blocklist: operators publish no pages that link to certain hosts, or that were taken down before.
//!
//! The list is text. Each line is a host, which stands for its subdomains too, or a [`Fingerprint`]. Empty lines and
//! what follows `#` are left out.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use thiserror::Error;

use super::fingerprint::{Fingerprint, LOOKS};
use super::link_hosts::{link_hosts, parse_host};

/// Hosts and fingerprints that no page may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocklist {
    hosts: HashSet<String>,
    fingerprints: HashSet<Fingerprint>,
}

/// A line that cannot be part of a list. It is counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlocklistError {
    #[error("line {0} is neither a host, such as spam.example, nor a fingerprint, such as text:9f86…")]
    NotAnEntry(usize),
    #[error("line {0} is a host without a dot, which would refuse a whole top-level domain")]
    TopLevel(usize),
}

impl Blocklist {
    pub fn parse(text: &str) -> Result<Self, BlocklistError> {
        let mut list = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let entry = line.split('#').next().unwrap_or_default().trim();
            if entry.is_empty() {
                continue;
            }
            if let Ok(fingerprint) = entry.parse() {
                list.fingerprints.insert(fingerprint);
            } else {
                let host = parse_host(entry).ok_or(BlocklistError::NotAnEntry(number))?;
                if !host.contains(['.', '[']) {
                    return Err(BlocklistError::TopLevel(number));
                }
                list.hosts.insert(host);
            }
        }
        // This takes some tens of milliseconds, for which no create should wait.
        LazyLock::force(&LOOKS);
        Ok(list)
    }

    pub fn len(&self) -> usize {
        self.hosts.len() + self.fingerprints.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a page with this `html`, which the renderer wrote, is refused.
    pub fn refuses(&self, html: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let hosts = link_hosts(html);
        hosts.iter().any(|host| self.has_host(host)) || self.has_fingerprint(html, &hosts)
    }

    /// Whether `host` or a domain that it belongs to is on the list.
    fn has_host(&self, host: &str) -> bool {
        let mut domains = std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, parent)| parent));
        domains.any(|domain| self.hosts.contains(domain))
    }

    fn has_fingerprint(&self, html: &str, hosts: &BTreeSet<String>) -> bool {
        !self.fingerprints.is_empty()
            && Fingerprint::of_page(html, hosts).iter().any(|found| self.fingerprints.contains(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::markdown::render;

    fn refuses(list: &str, markdown: &str) -> bool {
        Blocklist::parse(list).unwrap().refuses(&render(markdown).html)
    }

    const TEXT: &str = "A text that was taken down because nobody should read it.";

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
    fn a_fingerprint_refuses_the_text_whatever_its_markup_or_the_links_whatever_the_text() {
        let listed = |markdown: &str| {
            let html = render(markdown).html;
            let prints = Fingerprint::of_page(&html, &link_hosts(&html)).into_iter().map(|print| print.to_string());
            prints.collect::<Vec<_>>().join("\n")
        };
        let text = listed(TEXT);
        assert!(refuses(&text, &format!("# {}", TEXT.to_uppercase())) && !refuses(&text, &format!("{TEXT} More.")));
        assert!(
            refuses(&text, "А tехt thаt wаs tаκеn dοwn bесаusе nοbοdу shοuld rеаd іt."),
            "Cyrillic and Greek letters"
        );
        let links = listed("[a](https://a.example) [b](https://b.example)");
        assert!(refuses(&links, "Other words: http://b.example/1 and http://a.example/2"));
        assert!(!refuses(&links, "[a](https://a.example)"));
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
        assert!(!refuses("", TEXT) && !refuses(" \n# nothing\n", "[x](https://spam.example)"));
        assert_eq!(Blocklist::parse("a.example\nA.EXAMPLE.\n").unwrap().len(), 1);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_and_the_list_is_refused() {
        for wrong in
            ["https://spam.example/x", "spam example", "*.spam.example", "text:123", "links:", "spam.example/path"]
        {
            assert_eq!(Blocklist::parse(&format!("a.example\n{wrong}")), Err(BlocklistError::NotAnEntry(2)), "{wrong}");
        }
        assert_eq!(Blocklist::parse("com"), Err(BlocklistError::TopLevel(1)));
    }
}
