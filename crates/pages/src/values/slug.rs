//! A page's name in every address, `<title-words>-<suffix>`, fixed at its creation.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

use super::edit_key::{EditKey, EditKeyHash};
use super::{hex, title::Title};

/// With hyphen and suffix a slug has at most 69.
pub const MAX_WORDS_CHARS: usize = 60;

/// 28⁸ ≈ 3.8 × 10¹¹ slugs for each title.
pub const SUFFIX_CHARS: usize = 8;

/// No vowels, so no words; none of `0 1 i l o`, which look alike.
pub const SUFFIX_ALPHABET: &[u8; 28] = b"23456789bcdfghjkmnpqrstvwxyz";

const NO_WORDS: &str = "page";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
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
        let mut slug = words(title.as_str()) + "-";
        slug.extend(suffix.0.map(char::from));
        Self(slug)
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

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Slug {
    type Error = NotASlug;

    fn try_from(text: String) -> Result<Self, NotASlug> {
        Self::parse(&text)
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name in a path that Handbill gives out: `/name`, `/name/edit`, `/name.md`, `/api/pages/name`, or the name alone.
pub fn name_in_path(path: &str) -> &str {
    let name = path.strip_prefix("/api/pages/").or_else(|| path.strip_prefix('/')).unwrap_or(path);
    ["/edit", "/", ".md"].into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// As typed, and as the transliteration writes them: Georgian `ქ` is ``k` ``. They divide no word.
const APOSTROPHES: [char; 2] = ['\'', '`'];

/// Cut at a word boundary, unless the first word is too long.
fn words(title: &str) -> String {
    let ascii = deunicode::deunicode(title).to_ascii_lowercase().replace(APOSTROPHES, "");
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

pub const SECRET_BYTES: usize = 32;

/// The secret of a deployment, with which a key and title give a slug (contract, decision 22), so that a repeated create
/// finds its page. Without the secret, nobody can test a guessed key against a slug or choose an address.
#[derive(Clone)]
pub struct SlugSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl SlugSecret {
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The slug of this key and title. Try the `counter` 0 first, and the next one only if another page has the slug.
    pub fn slug(&self, title: &Title, key: &EditKey, counter: u32) -> Slug {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("a key of any length will do");
        // Key and counter have fixed lengths, so different inputs never make the same message.
        for part in [key.reveal().as_bytes(), words(title.as_str()).as_bytes(), &counter.to_be_bytes()] {
            mac.update(part);
        }
        let hash = mac.finalize().into_bytes();
        let first_half = hash.first_chunk().expect("a hash has 32 bytes");
        // 28⁸ is far below 2¹²⁸, so all suffixes are equally likely.
        let mut number = u128::from_be_bytes(*first_half);
        let suffix = SlugSuffix::random(|bound| {
            let bound = bound as u128;
            let digit = number % bound;
            number /= bound;
            usize::try_from(digit).expect("it is below a small number")
        });
        Slug::derive(title, suffix)
    }
}

impl fmt::Debug for SlugSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlugSecret(redacted)")
    }
}

/// A slug reserved while its page is made, so that another create loses early (contract, decision 23). The store alone
/// decides who gets a slug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub slug: Slug,
    /// The first 16 hexadecimal digits of the key's hash: a repeated create meets its own reservation.
    pub owner: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Unopposed,
    ByAnother,
}

impl Reservation {
    pub fn new(slug: Slug, key: &EditKeyHash) -> Self {
        Self { slug, owner: hex::encode(&key.as_bytes()[..8]) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    #[test]
    fn apostrophes_divide_no_word_whoever_writes_them() {
        for (title, expected) in [
            ("Don't panic", "dont-panic"),
            ("Don’t panic", "dont-panic"),
            ("L´été à l`eau", "lete-a-leau"),
            ("ქართული ენა", "kartuli-ena"),
            ("объект", "obekt"),
            ("rock ’n’ roll", "rock-n-roll"),
            ("''", "page"),
            ("\"a\"b", "a-b"),
        ] {
            assert_eq!(words(title), expected, "{title}");
        }
    }

    fn slug(secret: u8, key: char, title: &str, counter: u32) -> String {
        let key = EditKey::parse(&format!("hbk_{}", key.to_string().repeat(43))).unwrap();
        let secret = SlugSecret::from_bytes([secret; SECRET_BYTES]);
        secret.slug(&Title::parse(title).unwrap(), &key, counter).to_string()
    }

    #[test]
    fn a_slug_is_that_of_its_secret_key_words_and_counter() {
        let all = [slug(1, 'a', "A b", 0), slug(2, 'a', "A b", 0), slug(1, 'b', "A b", 0), slug(1, 'a', "A b", 1)];
        let other_words = slug(1, 'a', "A c", 0);
        assert!(all.iter().all(|slug| slug.starts_with("a-b-") && Slug::parse(slug).is_ok()), "{all:?}");
        let suffixes: HashSet<_> = all.iter().chain([&other_words]).map(|slug| &slug[4..]).collect();
        assert_eq!(suffixes.len(), 5, "{suffixes:?}");
        assert_eq!(slug(1, 'a', " a, B! ", 0), all[0], "the words decide");
    }

    // If this fails, a create that was sent before an update and again after it makes a second page.
    #[test]
    fn a_slug_stays_the_same_from_version_to_version() {
        assert_eq!(slug(7, 'k', "Hello, world", 0), "hello-world-vb39y2cg");
    }

    #[test]
    fn a_secret_shows_nothing_of_itself_in_debug_output() {
        assert_eq!(format!("{:?}", SlugSecret::from_bytes([7; SECRET_BYTES])), "SlugSecret(redacted)");
    }
}
