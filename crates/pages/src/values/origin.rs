//! Origins (scheme, host and port), and the hosts that requests are addressed to.

use std::{fmt, net::SocketAddr};

use http::uri;
use thiserror::Error;
use url::{Host, Url};

/// Without trailing slash and default port, as the URL standard serialises it. Links to the service's origin are
/// internal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OriginError {
    #[error("it is not an absolute URL such as https://pages.example")]
    NotAUrl,
    #[error("its scheme is neither http nor https, as in https://pages.example")]
    Scheme,
    #[error("it is more than an origin such as https://pages.example: leave out path, query, fragment and credentials")]
    MoreThanAnOrigin,
}

impl Origin {
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        if text.len() > MAX_AUTHORITY_BYTES + "https://".len() {
            return Err(OriginError::NotAUrl);
        }
        let url = Url::parse(text).map_err(|_| OriginError::NotAUrl)?;
        let origin = Self::of(&url).ok_or(OriginError::Scheme)?;
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if is_bare { Ok(origin) } else { Err(OriginError::MoreThanAnOrigin) }
    }

    pub fn of(url: &Url) -> Option<Self> {
        matches!(url.scheme(), "http" | "https").then(|| Self(url.origin().ascii_serialization()))
    }

    pub fn of_listener(address: SocketAddr) -> Self {
        let text = format!("http://{address}");
        // A URL cannot contain an IPv6 zone.
        Self::parse(&text).unwrap_or(Self(text))
    }

    /// The unspecified address means all addresses of this machine.
    pub fn is_local(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
            Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
            None => false,
        })
    }

    pub fn host(&self) -> Option<Authority> {
        Url::parse(&self.0).ok().and_then(|url| Authority::parse(url.host_str()?).ok())
    }

    /// Without the port.
    pub fn host_text(&self) -> &str {
        let (_, authority) = self.0.split_once("://").unwrap_or(("", &self.0));
        let port = authority.rfind(':').filter(|colon| !authority[*colon..].ends_with(']'));
        &authority[..port.unwrap_or(authority.len())]
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parsing 30 KB takes 18 ms.
const MAX_AUTHORITY_BYTES: usize = 300;

/// The host of a request, with or without a port, written as in the URL standard.
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

    pub fn is_same_host(&self, other: &Self) -> bool {
        self.host == other.host
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_without_default_port_or_trailing_slash() {
        assert_eq!(Origin::parse("HTTPS://Pages.Example:443/").unwrap().as_str(), "https://pages.example");
        assert_eq!(Origin::parse("http://[::1]:8080").unwrap().as_str(), "http://[::1]:8080");
    }

    #[test]
    fn a_host_has_no_port() {
        for (origin, host) in [
            ("https://pages.example", "pages.example"),
            ("http://pages.example:8080", "pages.example"),
            ("http://127.0.0.1:8080", "127.0.0.1"),
            ("http://[::1]:8080", "[::1]"),
            ("http://[::1]", "[::1]"),
        ] {
            assert_eq!(Origin::parse(origin).unwrap().host_text(), host);
        }
    }

    #[test]
    fn the_origin_of_a_listener_has_no_default_port() {
        fn origin(address: &str) -> String {
            Origin::of_listener(address.parse().unwrap()).to_string()
        }

        assert_eq!(origin("127.0.0.1:80"), "http://127.0.0.1");
        assert_eq!(origin("[::1]:8080"), "http://[::1]:8080");
        assert_eq!(origin("[fe80::1%2]:8080"), "http://[fe80::1%2]:8080");
    }

    #[test]
    fn an_origin_knows_its_host() {
        let origin = Origin::parse("https://pages.example:8443").unwrap();
        assert_eq!(origin.host(), Authority::parse("pages.example").ok());
    }

    #[test]
    fn what_is_more_or_less_than_an_origin_is_refused() {
        assert_eq!(Origin::parse("pages.example"), Err(OriginError::NotAUrl));
        assert_eq!(Origin::parse("ftp://pages.example"), Err(OriginError::Scheme));
        for more in ["https://a.example/blog", "https://a.example/?q", "https://a.example/#f", "https://u@a.example/"] {
            assert_eq!(Origin::parse(more), Err(OriginError::MoreThanAnOrigin), "{more}");
        }
    }

    #[test]
    fn a_text_that_is_longer_than_any_authority_is_none() {
        let long = "ä".repeat(15_000);
        assert!(Authority::parse(&long).is_err() && Origin::parse(&format!("https://{long}")).is_err());
        let longest = [&"a".repeat(63), &*"b".repeat(63), &"c".repeat(63), &"d".repeat(61)].join(".");
        assert!(Authority::parse(&format!("{longest}:65535")).is_ok());
        assert!(Origin::parse(&format!("https://{longest}:65535")).is_ok());
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
        fn is_local(host: &str) -> bool {
            Origin::parse(&format!("http://{host}")).unwrap().is_local()
        }

        for local in ["localhost:80", "127.0.0.1", "127.9.8.7:1", "[::1]:8080", "0.0.0.0"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["pages.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"] {
            assert!(!is_local(other), "{other}");
        }
    }
}
