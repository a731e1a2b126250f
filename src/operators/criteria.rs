//! Which pages an operator looks for.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use handbill_core::domain::blocklist::Blocklist;
use handbill_core::domain::fingerprint::Fingerprint;
use handbill_core::domain::link_hosts::{Place, image_places, is_within, link_hosts, parse_host};
use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;

/// Limit on the memory of a compiled pattern, in bytes. No pattern that a person writes comes near it.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// Longest pattern, in bytes. While it is compiled, `\pL` takes 2000 times its bytes.
const MAX_PATTERN_LENGTH: usize = 4096;

/// Criteria that a page must all meet.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    linking_to: Option<String>,
    matching: Option<Regex>,
    created_after: Option<UnixMillis>,
    created_before: Option<UnixMillis>,
    changed_after: Option<UnixMillis>,
    fingerprint: Option<Fingerprint>,
    image: Option<Place>,
    refused_by: Option<Arc<Blocklist>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CriteriaError {
    #[error("{0:?} is no host, such as spam.example")]
    Host(String),
    #[error("{0:?} is no address of an image, such as https://spam.example/i.png")]
    Image(String),
    #[error("{0:?} is no fingerprint, such as text:9f86…")]
    Fingerprint(String),
    /// No regular expression, or one that needs too much memory.
    #[error("the pattern is not valid: {0}")]
    Pattern(String),
}

impl Criteria {
    /// Only pages with a link or image at `host` or a subdomain of it.
    pub fn linking_to(self, host: &str) -> Result<Self, CriteriaError> {
        let host = parse_host(host).ok_or_else(|| CriteriaError::Host(host.to_owned()))?;
        Ok(Self { linking_to: Some(host), ..self })
    }

    /// Only pages whose title or Markdown has a match of `pattern`.
    pub fn matching(self, pattern: &str) -> Result<Self, CriteriaError> {
        if pattern.len() > MAX_PATTERN_LENGTH {
            return Err(CriteriaError::Pattern(format!("it has more than {MAX_PATTERN_LENGTH} bytes")));
        }
        let pattern =
            RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build();
        // The last line says what is wrong; those before show where.
        let reason = |error: regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        Ok(Self { matching: Some(pattern.map_err(|error| CriteriaError::Pattern(reason(error)))?), ..self })
    }

    #[must_use]
    pub fn created_after(self, time: UnixMillis) -> Self {
        Self { created_after: Some(time), ..self }
    }

    #[must_use]
    pub fn created_before(self, time: UnixMillis) -> Self {
        Self { created_before: Some(time), ..self }
    }

    /// Only pages that were created or changed at `time` or later.
    #[must_use]
    pub fn changed_after(self, time: UnixMillis) -> Self {
        Self { changed_after: Some(time), ..self }
    }

    /// Only pages with this fingerprint, as `handbill fingerprint` prints it.
    pub fn with_fingerprint(self, text: &str) -> Result<Self, CriteriaError> {
        let fingerprint = text.parse().map_err(|_| CriteriaError::Fingerprint(text.to_owned()))?;
        Ok(Self { fingerprint: Some(fingerprint), ..self })
    }

    /// Only pages that show the image at `address`, or one below it.
    pub fn showing(self, address: &str) -> Result<Self, CriteriaError> {
        let image = Place::parse(address).ok_or_else(|| CriteriaError::Image(address.to_owned()))?;
        Ok(Self { image: Some(image), ..self })
    }

    /// Only pages that `blocklist` refuses.
    #[must_use]
    pub fn refused_by(self, blocklist: Arc<Blocklist>) -> Self {
        Self { refused_by: Some(blocklist), ..self }
    }

    /// Whether there is none, so that every page meets them.
    pub fn are_none(&self) -> bool {
        let Self { linking_to, matching, created_after, created_before, changed_after, fingerprint, image, refused_by } =
            self;
        let are_times_none = created_after.is_none() && created_before.is_none() && changed_after.is_none();
        let are_links_none = linking_to.is_none() && image.is_none() && refused_by.is_none();
        are_times_none && are_links_none && matching.is_none() && fingerprint.is_none()
    }

    pub fn are_met_by(&self, page: &Page) -> bool {
        let html = &page.text.html;
        self.created_after.is_none_or(|time| page.head.created_at >= time)
            && self.created_before.is_none_or(|time| page.head.created_at < time)
            && self.changed_after.is_none_or(|time| page.head.updated_at >= time)
            && self.image.as_ref().is_none_or(|image| image_places(html).any(|place| image.includes(&place)))
            && self.linking_to.as_ref().is_none_or(|domain| link_hosts(html).iter().any(|host| is_within(host, domain)))
            && self.matching.as_ref().is_none_or(|pattern| {
                let title = page.head.title.as_ref().map_or("", |title| title.as_str());
                pattern.is_match(title) || pattern.is_match(page.text.content.as_str())
            })
            && self
                .fingerprint
                .as_ref()
                .is_none_or(|fingerprint| Fingerprint::of_page(html, &link_hosts(html)).contains(fingerprint))
            && self.refused_by.as_ref().is_none_or(|blocklist| blocklist.refuses(html))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_at_most_4096_bytes() {
        assert!(Criteria::default().matching(&"a".repeat(4096)).is_ok());
        let refused = Criteria::default().matching(&"a".repeat(4097)).unwrap_err();
        assert_eq!(refused.to_string(), "the pattern is not valid: it has more than 4096 bytes");
    }
    use handbill_core::domain::content::Content;
    use handbill_core::domain::edit_key::EditKey;
    use handbill_core::domain::markdown::render;
    use handbill_core::domain::page::PageHead;
    use handbill_core::domain::slug::Slug;
    use handbill_core::domain::title::Title;

    fn page(title: &str, content: &str, created: i64) -> Page {
        let (slug, title) = (Slug::parse("a-page-22222222").unwrap(), Title::parse(title).unwrap());
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(created));
        Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content))
    }

    #[test]
    fn a_page_is_selected_only_if_it_meets_every_criterion() {
        let spam = page("Cheap watches", "See https://www.spam.example/x now", 1000);
        let all = Criteria::default().linking_to("Spam.example").unwrap().matching("(?i)WATCH").unwrap();
        let all = all.created_after(UnixMillis::new(1000)).created_before(UnixMillis::new(1001));
        assert!(all.are_met_by(&spam));
        for other in [
            page("Cheap watches", "See https://notspam.example/x now", 1000),
            page("Cheap clocks", "See https://www.spam.example/x now", 1000),
            page("Cheap watches", "See https://www.spam.example/x now", 999),
            page("Cheap watches", "See https://www.spam.example/x now", 1001),
        ] {
            assert!(!all.are_met_by(&other), "{other:?}");
        }
    }

    #[test]
    fn a_pattern_is_looked_for_in_the_title_and_in_the_source() {
        let page = page("One title", "some **bold** text", 0);
        for (pattern, is_found) in [("^One", true), (r"\*\*bold", true), ("bold text", false), ("title\\s+some", false)]
        {
            assert_eq!(Criteria::default().matching(pattern).unwrap().are_met_by(&page), is_found, "{pattern}");
        }
    }

    #[test]
    fn pages_are_selected_by_their_fingerprint_their_images_and_what_a_list_refuses() {
        let shown = page(
            "T",
            "![](https://img.example/spam/1.png) [x](https://fine.example/) and a text that nobody else has",
            0,
        );
        let linked = page("T", "[x](https://img.example/spam/1.png)", 0);
        for (address, is_found) in
            [("https://img.example/spam/1.png", true), ("img.example/spam", true), ("img.example/spam/2.png", false)]
        {
            let image = Criteria::default().showing(address).unwrap();
            assert_eq!((image.are_met_by(&shown), image.are_met_by(&linked)), (is_found, false), "{address}");
        }
        for print in Fingerprint::of_page(&shown.text.html, &link_hosts(&shown.text.html)) {
            let same = Criteria::default().with_fingerprint(&print.to_string()).unwrap();
            assert_eq!((same.are_met_by(&shown), same.are_met_by(&linked)), (true, false), "{print}");
        }
        let list = Criteria::default().refused_by(Arc::new(Blocklist::parse("fine.example").unwrap()));
        assert_eq!((list.are_met_by(&shown), list.are_met_by(&linked)), (true, false));
        assert!(matches!(Criteria::default().showing("no image"), Err(CriteriaError::Image(_))));
        assert!(matches!(Criteria::default().with_fingerprint("text:1"), Err(CriteriaError::Fingerprint(_))));
    }

    #[test]
    fn no_criterion_is_known_as_such_and_one_without_sense_is_refused() {
        assert!(Criteria::default().are_none());
        assert!(!Criteria::default().created_after(UnixMillis::new(0)).are_none());
        assert!(matches!(Criteria::default().linking_to("https://a.example"), Err(CriteriaError::Host(_))));
        for wrong in ["(", "a{1000}{1000}{1000}"] {
            assert!(matches!(Criteria::default().matching(wrong), Err(CriteriaError::Pattern(_))), "{wrong}");
        }
    }
}
