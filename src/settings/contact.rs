//! How readers reach the operators: by mail, or at a web address.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;
use url::Url;

use handbill_pages::values::link_hosts::parse_host;

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    Mail(String),
    /// `{url}` in its path or query stands for a page's address.
    Web(Url),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("give a mail address such as abuse@example.org, or an address such as https://example.org/abuse")]
pub struct NotAContact;

impl Contact {
    /// `mailto:` may be left out. A web address has no login and no fragment.
    pub fn parse(text: &str) -> Result<Self, NotAContact> {
        let text = text.trim();
        if text.contains("://") {
            let url = Url::parse(text).map_err(|_| NotAContact)?;
            let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
            let is_web = matches!(url.scheme(), "http" | "https");
            return if is_web && is_plain { Ok(Self::Web(url)) } else { Err(NotAContact) };
        }
        let (local, domain) = text.trim_start_matches("mailto:").rsplit_once('@').ok_or(NotAContact)?;
        let domain = parse_host(domain).filter(|domain| domain.contains('.')).ok_or(NotAContact)?;
        let mut chars = local.chars();
        let fits = !local.is_empty() && chars.all(|c| c.is_ascii_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(c));
        if fits { Ok(Self::Mail(format!("{local}@{domain}"))) } else { Err(NotAContact) }
    }

    /// The mail's subject, `{url}` or the parameter `url` names the page.
    pub fn report(&self, page_url: &str) -> String {
        let page = utf8_percent_encode(page_url, RESERVED).to_string();
        match self {
            Self::Mail(_) => format!("{self}?subject=Report%20of%20{page}"),
            Self::Web(url) => {
                let filled = filled(url, &page);
                let is_form = filled != url.as_str();
                if is_form {
                    filled
                } else {
                    format!("{url}{}url={page}", if url.query().is_some() { '&' } else { '?' })
                }
            }
        }
    }
}

fn filled(url: &Url, page: &str) -> String {
    url.as_str().replace("{url}", page).replace("%7Burl%7D", page)
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mail(address) => {
                let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
                write!(f, "mailto:{}@{domain}", utf8_percent_encode(local, RESERVED))
            }
            Self::Web(url) => f.write_str(&filled(url, "")),
        }
    }
}

const LABELS: [(&str, &str); 3] = [("privacy", "Privacy"), ("terms", "Terms"), ("support", "Support")];

/// A document of the operators: privacy, terms or support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLink {
    pub name: &'static str,
    pub label: &'static str,
    pub target: Contact,
}

impl SiteLink {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected = "give privacy=URL, terms=URL or support=URL";
        let (name, target) = text.split_once('=').ok_or(expected)?;
        let known = LABELS.into_iter().find(|(known, _)| *known == name.trim());
        let (name, label) = known.ok_or(expected)?;
        Ok(Self { name, label, target: Contact::parse(target).map_err(|_| expected)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_a_mail_address_or_a_web_address() {
        for (text, uri) in [
            ("abuse@example.org", "mailto:abuse@example.org"),
            (" mailto:a+b@Example.ORG ", "mailto:a%2Bb@example.org"),
            ("https://example.org", "https://example.org/"),
            ("https://example.org/abuse?lang=en", "https://example.org/abuse?lang=en"),
        ] {
            assert_eq!(Contact::parse(text).unwrap().to_string(), uri);
        }
        for wrong in [
            "",
            "abuse",
            "abuse@",
            "@example.org",
            "abuse@localhost",
            "a b@example.org",
            "a\n@example.org",
            "abuse@example.org?cc=x@example.org",
            "javascript://example.org",
            "https://user:pass@example.org/",
            "https://example.org/#form",
        ] {
            assert_eq!(Contact::parse(wrong), Err(NotAContact), "{wrong:?}");
        }
    }

    #[test]
    fn a_report_names_the_page_whose_address_cannot_add_anything() {
        let page = "https://pages.example/a-22222222?a=1&cc=x#y\"<";
        let encoded = "https%3A%2F%2Fpages.example%2Fa-22222222%3Fa%3D1%26cc%3Dx%23y%22%3C";
        let report = |contact: &str| Contact::parse(contact).unwrap().report(page);
        assert_eq!(report("abuse@example.org"), format!("mailto:abuse@example.org?subject=Report%20of%20{encoded}"));
        assert_eq!(report("https://example.org/abuse"), format!("https://example.org/abuse?url={encoded}"));
        for (form, filled, alone) in [
            (
                "https://example.org/f?page={url}&x=1",
                "https://example.org/f?page=PAGE&x=1",
                "https://example.org/f?page=&x=1",
            ),
            ("https://example.org/report/{url}", "https://example.org/report/PAGE", "https://example.org/report/"),
        ] {
            assert_eq!(report(form), filled.replace("PAGE", encoded));
            assert_eq!(Contact::parse(form).unwrap().to_string(), alone);
        }
        assert_eq!(report("https://example.org/abuse?x=1"), format!("https://example.org/abuse?x=1&url={encoded}"));
    }

    #[test]
    fn a_link_names_a_document_that_directories_ask_for() {
        let terms = SiteLink::parse("terms=https://pages.example/terms?a=b").unwrap();
        assert_eq!((terms.label, terms.target.to_string().as_str()), ("Terms", "https://pages.example/terms?a=b"));
        assert!(SiteLink::parse("support=help@pages.example").is_ok());
        for bad in ["", "terms", "imprint=https://pages.example/", "privacy=/privacy", "privacy=javascript:alert(1)"] {
            assert!(SiteLink::parse(bad).is_err(), "{bad}");
        }
    }
}
