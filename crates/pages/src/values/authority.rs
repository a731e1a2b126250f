//! The host that a request is addressed to, with or without a port.

use std::fmt;

use http::uri;
use thiserror::Error;
use url::Host;

/// Parsing 30 KB takes 18 ms.
pub(super) const MAX_AUTHORITY_BYTES: usize = 300;

/// The host is written as in the URL standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it is neither a host such as pages.example nor a host and port such as pages.example:8443")]
pub struct NotAnAuthority;

impl Authority {
    pub fn parse(text: &str) -> Result<Self, NotAnAuthority> {
        if text.len() > MAX_AUTHORITY_BYTES {
            return Err(NotAnAuthority);
        }
        let authority: uri::Authority = text.trim().parse().map_err(|_| NotAnAuthority)?;
        let host = Host::parse(authority.host()).map_err(|_| NotAnAuthority)?;
        let port = authority.port_u16();
        let written = port.map_or(authority.host().len(), |port| authority.host().len() + 1 + port.to_string().len());
        if let Host::Domain(name) = &host {
            // The URL standard also allows `*`, as in a wildcard.
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
                return Err(NotAnAuthority);
            }
        }
        // Refuses credentials, empty ports and leading zeros.
        if authority.as_str().len() == written { Ok(Self { host, port }) } else { Err(NotAnAuthority) }
    }

    /// Without a port here, any port will do.
    pub fn admits(&self, asked: &Self) -> bool {
        self.host == asked.host && self.port.is_none_or(|port| asked.port == Some(port))
    }

    pub fn is_same_host(&self, other: &Self) -> bool {
        self.host == other.host
    }

    /// An address has no name, so no website can have it.
    pub fn is_address(&self) -> bool {
        !matches!(self.host, Host::Domain(_))
    }

    pub fn is_local(&self) -> bool {
        is_local(&self.host)
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

/// The unspecified address means all addresses of a machine.
pub(super) fn is_local<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost",
        Host::Ipv4(address) => address.is_loopback() || address.is_unspecified(),
        Host::Ipv6(address) => address.is_loopback() || address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::origin::Origin;

    #[test]
    fn a_text_that_is_longer_than_any_authority_is_none() {
        let long = "ä".repeat(15_000);
        assert!(Authority::parse(&long).is_err() && Origin::parse(&format!("https://{long}")).is_err());
        let longest = [&"a".repeat(63), &*"b".repeat(63), &"c".repeat(63), &"d".repeat(61)].join(".");
        assert!(Authority::parse(&format!("{longest}:65535")).is_ok());
        assert!(Origin::parse(&format!("https://{longest}:65535")).is_ok());
    }

    fn admits(allowed: &str, asked: &str) -> bool {
        Authority::parse(allowed).unwrap().admits(&Authority::parse(asked).unwrap())
    }

    #[test]
    fn a_host_without_a_port_admits_every_port_and_one_with_a_port_only_that() {
        assert!(admits("pages.example", "Pages.Example:8443"));
        assert!(admits("pages.example:8443", "pages.example:8443"));
        assert!(!admits("pages.example:8443", "pages.example"));
        assert!(!admits("pages.example", "pages.example.evil.example"));
        assert!(admits("[::1]", "[0:0::1]:80"));
    }

    #[test]
    fn what_names_no_host_or_more_than_one_is_refused() {
        for text in [
            "",
            "a b",
            "https://pages.example",
            "pages.example/mcp",
            "user@pages.example",
            "a:b",
            "a:",
            "a:080",
            "*",
            "*.example",
        ] {
            assert_eq!(Authority::parse(text), Err(NotAnAuthority), "{text}");
        }
    }

    #[test]
    fn a_machine_calls_itself_by_its_loopback_names() {
        for local in ["localhost:80", "127.0.0.1", "127.9.8.7:1", "[::1]:8080", "0.0.0.0"] {
            assert!(Authority::parse(local).unwrap().is_local(), "{local}");
        }
        for other in ["localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"] {
            assert!(!Authority::parse(other).unwrap().is_local(), "{other}");
        }
    }
}
