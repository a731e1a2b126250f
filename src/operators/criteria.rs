//! Which pages an operator looks for.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use handbill_core::domain::link_hosts::{is_within, link_hosts, parse_host};
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
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CriteriaError {
    #[error("{0:?} is no host, such as spam.example")]
    Host(String),
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

    /// Whether there is none, so that every page meets them.
    pub fn are_none(&self) -> bool {
        let Self { linking_to, matching, created_after, created_before } = self;
        linking_to.is_none() && matching.is_none() && created_after.is_none() && created_before.is_none()
    }

    pub fn are_met_by(&self, page: &Page) -> bool {
        self.created_after.is_none_or(|time| page.head.created_at >= time)
            && self.created_before.is_none_or(|time| page.head.created_at < time)
            && self
                .linking_to
                .as_ref()
                .is_none_or(|domain| link_hosts(&page.text.html).iter().any(|host| is_within(host, domain)))
            && self.matching.as_ref().is_none_or(|pattern| {
                let title = page.head.title.as_ref().map_or("", |title| title.as_str());
                pattern.is_match(title) || pattern.is_match(page.text.content.as_str())
            })
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
    fn no_criterion_is_known_as_such_and_one_without_sense_is_refused() {
        assert!(Criteria::default().are_none());
        assert!(!Criteria::default().created_after(UnixMillis::new(0)).are_none());
        assert!(matches!(Criteria::default().linking_to("https://a.example"), Err(CriteriaError::Host(_))));
        for wrong in ["(", "a{1000}{1000}{1000}"] {
            assert!(matches!(Criteria::default().matching(wrong), Err(CriteriaError::Pattern(_))), "{wrong}");
        }
    }
}
