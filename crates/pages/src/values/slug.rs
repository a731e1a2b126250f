//! A page's name in every address, `<title-words>-<suffix>`, fixed at its creation.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::title::Title;

/// With hyphen and suffix a slug has at most 69.
pub const MAX_WORDS_CHARS: usize = 60;

/// 28⁸ ≈ 3.8 × 10¹¹ slugs for each title.
pub const SUFFIX_CHARS: usize = 8;

/// No vowels, so no words; none of `0 1 i l o`, which look alike.
pub const SUFFIX_ALPHABET: &[u8; 28] = b"23456789bcdfghjkmnpqrstvwxyz";

const NO_WORDS: &str = "page";

/// Only the store knows whether a page has this slug.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slug(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a slug")]
pub struct NotASlug;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlugSuffix([u8; SUFFIX_CHARS]);

impl SlugSuffix {
    /// `index_below` must return a uniform number.
    pub fn random(mut index_below: impl FnMut(usize) -> usize) -> Self {
        Self(std::array::from_fn(|_| SUFFIX_ALPHABET[index_below(SUFFIX_ALPHABET.len())]))
    }
}

impl Slug {
    pub fn derive(title: &Title, suffix: SlugSuffix) -> Self {
        let words = Self::words(title);
        let suffix = suffix.0.iter().map(|&byte| char::from(byte));
        Self(words.chars().chain(['-']).chain(suffix).collect())
    }

    pub fn parse(text: &str) -> Result<Self, NotASlug> {
        let (words, suffix) = text.rsplit_once('-').ok_or(NotASlug)?;
        let suffix_fits = suffix.len() == SUFFIX_CHARS && suffix.bytes().all(|byte| SUFFIX_ALPHABET.contains(&byte));
        let words_fit = words.len() <= MAX_WORDS_CHARS
            && words.split('-').all(|word| {
                !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            });
        if suffix_fits && words_fit { Ok(Self(text.to_owned())) } else { Err(NotASlug) }
    }

    pub fn words(title: &Title) -> String {
        words(title.as_str())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Cut at a word boundary, unless the first word is too long.
fn words(title: &str) -> String {
    let ascii = deunicode::deunicode(title).to_ascii_lowercase();
    let mut joined = String::new();
    for word in ascii.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if joined.is_empty() {
            joined.push_str(&word[..word.len().min(MAX_WORDS_CHARS)]);
        } else if joined.len() + 1 + word.len() <= MAX_WORDS_CHARS {
            joined.push('-');
            joined.push_str(word);
        } else {
            break;
        }
    }
    if joined.is_empty() { NO_WORDS.to_owned() } else { joined }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_in_the_grammar_is_no_slug() {
        for text in ["", "-", "page", "page-2222222", "page-2222222a", "-22222222", "a--b-22222222", "A-22222222"] {
            assert_eq!(Slug::parse(text), Err(NotASlug), "{text}");
        }
        let too_long = format!("{}-22222222", "x".repeat(61));
        assert_eq!(Slug::parse(&too_long), Err(NotASlug));
    }

    proptest! {
        #[test]
        fn every_title_gives_a_slug_that_parses(title in "\\PC{1,200}", seed in any::<[usize; SUFFIX_CHARS]>()) {
            let Ok(title) = Title::parse(&title) else { return Ok(()) };
            let mut seeds = seed.iter();
            let slug = Slug::derive(&title, SlugSuffix::random(|below| seeds.next().unwrap() % below));
            prop_assert_eq!(Slug::parse(slug.as_str()), Ok(slug.clone()));
            prop_assert!(slug.as_str().len() <= MAX_WORDS_CHARS + 1 + SUFFIX_CHARS);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = Slug::parse(&text);
        }
    }
}
