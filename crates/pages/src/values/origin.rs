//! Scheme, host and port, as the URL standard defines an origin.

use std::fmt;
use std::net::SocketAddr;

use thiserror::Error;
use url::Url;

use super::authority::{Authority, MAX_AUTHORITY_BYTES, is_local};

/// Without trailing slash and default port, as the URL standard serialises it. Links to the service's origin are
/// internal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OriginError {
    #[error("it is not an absolute URL such as https://pages.example")]
    NotAUrl,
    #[error("its scheme is neither http nor https")]
    Scheme,
    #[error("it is more than an origin: leave out path, query, fragment and credentials")]
    MoreThanAnOrigin,
}

impl Origin {
    /// Accepts `scheme://host[:port]`, with or without a trailing slash.
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

    pub fn is_local(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| url.host().is_some_and(|host| is_local(&host)))
    }

    /// `None` if the address cannot be in a URL.
    pub fn host(&self) -> Option<Authority> {
        Url::parse(&self.0).ok().and_then(|url| Authority::parse(url.host_str()?).ok())
    }

    /// An IPv6 address is in brackets.
    pub fn host_text(&self) -> &str {
        let (_, authority) = self.0.split_once("://").unwrap_or(("", &self.0));
        let name = authority.rfind(']').map_or(0, |end| end + 1);
        let port = authority[name..].find(':').map_or(authority.len(), |colon| name + colon);
        &authority[..port]
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
        let origin = |address: &str| Origin::of_listener(address.parse().unwrap()).to_string();
        assert_eq!(origin("127.0.0.1:80"), "http://127.0.0.1");
        assert_eq!(origin("[::1]:8080"), "http://[::1]:8080");
        assert_eq!(origin("[fe80::1%2]:8080"), "http://[fe80::1%2]:8080");
    }

    #[test]
    fn an_origin_knows_its_host_and_whether_that_is_this_machine() {
        let origin = |text| Origin::parse(text).unwrap();
        assert_eq!(origin("https://pages.example:8443").host(), Authority::parse("pages.example").ok());
        assert!(origin("http://[::1]:8080").is_local() && origin("http://localhost").is_local());
        assert!(!origin("https://pages.example").is_local() && !origin("http://localhost.example").is_local());
    }

    #[test]
    fn what_is_more_or_less_than_an_origin_is_refused() {
        assert_eq!(Origin::parse("pages.example"), Err(OriginError::NotAUrl));
        assert_eq!(Origin::parse("ftp://pages.example"), Err(OriginError::Scheme));
        for more in ["https://a.example/blog", "https://a.example/?q", "https://a.example/#f", "https://u@a.example/"] {
            assert_eq!(Origin::parse(more), Err(OriginError::MoreThanAnOrigin), "{more}");
        }
    }
}
