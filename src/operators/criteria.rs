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
    /// The page has a link or image at this host or a subdomain of it.
    pub(super) linking_to: Option<String>,
    /// The title or the Markdown has a match.
    pub(super) matching: Option<Regex>,
    pub(super) created_after: Option<UnixMillis>,
    pub(super) created_before: Option<UnixMillis>,
    /// The page was created or changed then or later.
    pub(super) changed_after: Option<UnixMillis>,
    pub(super) fingerprint: Option<Fingerprint>,
    /// The page shows the image at this place, or one below it.
    pub(super) image: Option<Place>,
    /// The list refuses the page.
    pub(super) refused_by: Option<Arc<Blocklist>>,
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
    pub(super) fn host(text: &str) -> Result<String, CriteriaError> {
        parse_host(text).ok_or_else(|| CriteriaError::Host(text.to_owned()))
    }

    pub(super) fn pattern(text: &str) -> Result<Regex, CriteriaError> {
        if text.len() > MAX_PATTERN_LENGTH {
            return Err(CriteriaError::Pattern(format!("it has more than {MAX_PATTERN_LENGTH} bytes")));
        }
        let pattern = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build();
        // The last line says what is wrong; those before show where.
        let reason = |error: regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        pattern.map_err(|error| CriteriaError::Pattern(reason(error)))
    }

    /// A fingerprint as `handbill fingerprint` prints it.
    pub(super) fn fingerprint(text: &str) -> Result<Fingerprint, CriteriaError> {
        text.parse().map_err(|_| CriteriaError::Fingerprint(text.to_owned()))
    }

    pub(super) fn image(address: &str) -> Result<Place, CriteriaError> {
        Place::parse(address).ok_or_else(|| CriteriaError::Image(address.to_owned()))
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
        assert!(Criteria::pattern(&"a".repeat(4096)).is_ok());
        let refused = Criteria::pattern(&"a".repeat(4097)).unwrap_err();
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
        let all = Criteria {
            linking_to: Some(Criteria::host("Spam.example").unwrap()),
            matching: Some(Criteria::pattern("(?i)WATCH").unwrap()),
            created_after: Some(UnixMillis::new(1000)),
            created_before: Some(UnixMillis::new(1001)),
            ..Criteria::default()
        };
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
            let criteria = Criteria { matching: Some(Criteria::pattern(pattern).unwrap()), ..Criteria::default() };
            assert_eq!(criteria.are_met_by(&page), is_found, "{pattern}");
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
            let image = Criteria { image: Some(Criteria::image(address).unwrap()), ..Criteria::default() };
            assert_eq!((image.are_met_by(&shown), image.are_met_by(&linked)), (is_found, false), "{address}");
        }
        for print in Fingerprint::of_page(&shown.text.html, &link_hosts(&shown.text.html)) {
            let fingerprint = Some(Criteria::fingerprint(&print.to_string()).unwrap());
            let same = Criteria { fingerprint, ..Criteria::default() };
            assert_eq!((same.are_met_by(&shown), same.are_met_by(&linked)), (true, false), "{print}");
        }
        let refused_by = Some(Arc::new(Blocklist::parse("fine.example").unwrap()));
        let list = Criteria { refused_by, ..Criteria::default() };
        assert_eq!((list.are_met_by(&shown), list.are_met_by(&linked)), (true, false));
        assert!(matches!(Criteria::image("no image"), Err(CriteriaError::Image(_))));
        assert!(matches!(Criteria::fingerprint("text:1"), Err(CriteriaError::Fingerprint(_))));
    }

    #[test]
    fn no_criterion_is_known_as_such_and_one_without_sense_is_refused() {
        assert!(Criteria::default().are_none());
        assert!(!Criteria { created_after: Some(UnixMillis::new(0)), ..Criteria::default() }.are_none());
        assert!(matches!(Criteria::host("https://a.example"), Err(CriteriaError::Host(_))));
        for wrong in ["(", "a{1000}{1000}{1000}"] {
            assert!(matches!(Criteria::pattern(wrong), Err(CriteriaError::Pattern(_))), "{wrong}");
        }
    }
}
