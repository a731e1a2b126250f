//! The address at which a shared cache takes a purge.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

/// Placeholder of the page's slug in a template.
const SLUG: &str = "{slug}";

/// Placeholder of the page's whole address in a template, percent-encoded.
const ADDRESS: &str = "{url}";

/// The address of a cache, with `{slug}` or `{url}` in its path or query if each page has an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeUrl(String);

impl PurgeUrl {
    /// Checks that `template` is an http or https address, and leads to one host for every page.
    pub fn parse(template: &str) -> Result<Self, &'static str> {
        let advice = "give an http or https address, for example `http://cache.internal/{slug}`, with `{slug}` or `{url}` only in its path or query";
        let template = Self(template.trim().to_owned());
        let [one, other] = ["a-2222bbbb", "b-2222cccc"]
            .map(|slug| Url::parse(&template.for_page(slug, &format!("https://pages.example/{slug}"))).ok());
        let (Some(one), Some(other)) = (one, other) else { return Err(advice) };
        let is_plain = matches!(one.scheme(), "http" | "https")
            && one.host_str().is_some_and(|host| !host.is_empty())
            && one.username().is_empty()
            && one.password().is_none()
            && one.fragment().is_none();
        if is_plain && one.origin() == other.origin() { Ok(template) } else { Err(advice) }
    }

    pub fn for_page(&self, slug: &str, address: &str) -> String {
        let encoded = utf8_percent_encode(address, NON_ALPHANUMERIC).to_string();
        self.0.replace(SLUG, slug).replace(ADDRESS, &encoded)
    }

    /// Whether each page has an address of its own, which names it. Otherwise a purge must name the page in its body.
    pub fn names_page(&self) -> bool {
        self.0.contains(SLUG) || self.0.contains(ADDRESS)
    }

    /// Whether it is an https address.
    pub fn is_secure(&self) -> bool {
        self.0.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
    }

    /// The host, for messages.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.for_page("", "")).ok();
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_each_page_an_address_at_one_host() {
        for (template, address) in [
            ("http://cache.internal/{slug}", "http://cache.internal/a-2222bbbb"),
            ("http://[::1]:6081/{slug}.md ", "http://[::1]:6081/a-2222bbbb.md"),
            ("https://api.cdn.example/service/x/purge/{slug}", "https://api.cdn.example/service/x/purge/a-2222bbbb"),
            (
                "https://api.cdn.example/purge?url={url}",
                "https://api.cdn.example/purge?url=https%3A%2F%2Fp%2Eexample%2Fa%2D2222bbbb",
            ),
        ] {
            let url = PurgeUrl::parse(template).unwrap();
            assert_eq!(url.for_page("a-2222bbbb", "https://p.example/a-2222bbbb"), address);
        }
        let secure = PurgeUrl::parse("HTTPS://cdn.example:8443/{slug}").unwrap();
        assert_eq!((secure.host(), secure.is_secure()), ("cdn.example".to_owned(), true));
        assert!(!PurgeUrl::parse("http://cdn.example/{slug}").unwrap().is_secure());
        assert!(PurgeUrl::parse("http://cdn.example/purge?url={url}").unwrap().names_page());
        assert!(!PurgeUrl::parse("http://cdn.example/purge").unwrap().names_page());
        for template in [
            "",
            "cache.internal/{slug}",
            "http://{slug}.cache.internal/",
            "http://cache.internal/{slug}#page",
            "http://user:secret@cache.internal/{slug}",
            "ftp://cache.internal/{slug}",
            "http://cache.internal:99999/{slug}",
        ] {
            assert!(PurgeUrl::parse(template).is_err(), "{template}");
        }
    }
}
