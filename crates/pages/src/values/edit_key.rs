//! The credential of one page, in clear only in the creation result and in the request that presents it.

use std::{collections::HashSet, fmt};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use super::{hex, plain_text::is_ignorable};

pub const PREFIX: &str = "hbk_";

/// 62⁴³ > 2²⁵⁶.
pub const SECRET_CHARS: usize = 43;

pub const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Refuses placeholders. A random key has fewer once in 25 million times.
pub const MIN_DIFFERENT_CHARS: usize = 20;

/// For the author of a page that may show a key.
pub const PUBLISHED_KEY_WARNING: &str = "Warning: this page holds something of the form of an edit key. If it is one, everybody who reads the page can change and delete the page that it opens. Tell the user. Remove it with update_page, and since it may have been read already, publish the page that it opens once more and delete the old one.";

/// Has no `Display`, a redacted `Debug`, and memory that is wiped.
#[derive(Clone)]
pub struct EditKey(Zeroizing<String>);

/// SHA-256. Nothing else of a key is ever stored.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EditKeyHash([u8; 32]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not an edit key")]
pub struct NotAnEditKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotANewKey {
    #[error("not an edit key")]
    Shape,
    #[error("fewer than {MIN_DIFFERENT_CHARS} different characters")]
    FewCharacters,
}

impl EditKey {
    /// `index_below` must return a uniform, unpredictable number.
    pub fn random(mut index_below: impl FnMut(usize) -> usize) -> Self {
        let mut key = Zeroizing::new(String::with_capacity(PREFIX.len() + SECRET_CHARS));
        key.push_str(PREFIX);
        for _ in 0..SECRET_CHARS {
            key.push(char::from(ALPHABET[index_below(ALPHABET.len())]));
        }
        Self(key)
    }

    pub fn parse(text: &str) -> Result<Self, NotAnEditKey> {
        let secret = text.strip_prefix(PREFIX).ok_or(NotAnEditKey)?;
        if secret.len() == SECRET_CHARS && secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            Ok(Self(Zeroizing::new(text.to_owned())))
        } else {
            Err(NotAnEditKey)
        }
    }

    /// A client's key for a new page (contract, decision 22).
    pub fn parse_new(text: &str) -> Result<Self, NotANewKey> {
        let key = Self::parse(text).map_err(|NotAnEditKey| NotANewKey::Shape)?;
        let different: HashSet<u8> = key.0.bytes().skip(PREFIX.len()).collect();
        if different.len() < MIN_DIFFERENT_CHARS { Err(NotANewKey::FewCharacters) } else { Ok(key) }
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> EditKeyHash {
        EditKeyHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

/// Whether something in `text` has the form of a key.
pub fn holds_any_key(text: &str) -> bool {
    text.match_indices(PREFIX).any(|(at, _)| {
        let after = text[at + PREFIX.len()..].bytes();
        after.take_while(u8::is_ascii_alphanumeric).take(SECRET_CHARS).count() == SECRET_CHARS
    })
}

/// Also between invisible characters. Takes time linear in the text.
pub fn holds_key(text: &str, key: &EditKey) -> bool {
    let seen: String = text.chars().filter(|&c| c.is_ascii() || !is_ignorable(c)).collect();
    seen.contains(key.reveal())
}

impl EditKeyHash {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// In constant time.
    pub fn matches(&self, key: &EditKey) -> bool {
        self.0.ct_eq(&key.hash().0).into()
    }
}

impl fmt::Debug for EditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EditKey(redacted)")
    }
}

impl From<EditKeyHash> for String {
    fn from(hash: EditKeyHash) -> Self {
        hex::encode(&hash.0)
    }
}

impl TryFrom<String> for EditKeyHash {
    type Error = &'static str;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        let bytes = hex::decode(&digits).and_then(|bytes| bytes.try_into().ok()).map(Self);
        // Each hash has one form only.
        bytes.filter(|hash| String::from(*hash) == digits).ok_or("a hash of a key has 64 hexadecimal digits")
    }
}

impl fmt::Debug for EditKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EditKeyHash(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_shows_nothing_of_itself_in_debug_output() {
        let key = EditKey::random(|_| 10);
        assert_eq!(format!("{key:?} {:?}", key.hash()), "EditKey(redacted) EditKeyHash(redacted)");
    }

    #[test]
    fn a_key_occurs_in_a_text_despite_invisible_characters() {
        let key = EditKey::random(|_| 10);
        assert!(holds_key(&format!("a {} b", key.reveal()), &key));
        assert!(holds_key(&key.reveal().replace('_', "\u{200b}_\u{ad}"), &key));
        assert!(!holds_key(&key.reveal().replace('_', " _"), &key));
        assert!(!holds_key(&key.reveal().replace('_', "\u{e9}_"), &key));
    }

    #[test]
    fn a_key_occurs_in_a_text_that_begins_it_more_than_once() {
        let secret = format!("hbkABhbkAChb{}", "A".repeat(31));
        let key = EditKey::parse(&format!("{PREFIX}{secret}")).unwrap();
        for beginning in ["h", "hb", "hbk", "hbk_", "hbk_hbk", "hbk_hbkABhbk", "hbk_hbkABhbkAChb"] {
            assert!(holds_key(&format!("{beginning}{}", key.reveal()), &key), "{beginning}");
        }
    }

    #[test]
    fn a_key_of_a_client_has_20_different_characters() {
        fn key(different: u8) -> Result<EditKey, NotANewKey> {
            let chars: String = (0..43).map(|at| char::from(b'A' + at % different)).collect();
            EditKey::parse_new(&format!("hbk_{chars}"))
        }

        assert!(key(20).is_ok());
        assert_eq!(key(19).unwrap_err(), NotANewKey::FewCharacters);
        assert_eq!(EditKey::parse_new("hbk_short").unwrap_err(), NotANewKey::Shape);
    }

    #[test]
    fn what_has_another_shape_is_no_key() {
        let right = EditKey::random(|_| 10);
        for wrong in ["", "hbk_", "hbk_short", &right.reveal()[1..], &format!("{}A", right.reveal())] {
            assert!(EditKey::parse(wrong).is_err());
        }
        assert!(EditKey::parse(&right.reveal().replace('A', "-")).is_err());
    }

    #[test]
    fn what_has_the_shape_of_a_key_is_found_in_any_text() {
        let key = EditKey::random(|_| 10);
        let key = key.reveal();
        for text in [key, &format!("Bearer {key}"), &format!("hbk_{key}"), &format!("x{key}y"), &format!("é{key}é")] {
            assert!(holds_any_key(text), "{text}");
        }
        for text in ["", "hbk_", &key[..46], &key[1..], &key.replacen("hbk_", "HBK_", 1), "hbk_é"] {
            assert!(!holds_any_key(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_key_parses_back_and_matches_its_own_hash_only(seed in any::<[usize; SECRET_CHARS]>(), at in 0..SECRET_CHARS) {
            let mut seeds = seed.iter();
            let key = EditKey::random(|below| seeds.next().unwrap() % below);
            prop_assert!(key.hash().matches(&EditKey::parse(key.reveal()).unwrap()));

            let mut other = key.reveal().to_owned().into_bytes();
            let place = PREFIX.len() + at;
            other[place] = if other[place] == b'x' { b'y' } else { b'x' };
            let other = EditKey::parse(&String::from_utf8(other).unwrap()).unwrap();
            prop_assert!(!key.hash().matches(&other));
        }

        #[test]
        fn a_key_occurs_where_the_visible_text_contains_it(
            pieces in proptest::collection::vec((0..47_usize, 1..48_usize, "[\u{ad}\u{200b}é h_]{0,2}"), 0..8),
        ) {
            let key = EditKey::parse(&format!("{PREFIX}hbkh{}", "hb".repeat(19) + "k")).unwrap();
            let piece = |(from, length, between): &(usize, usize, String)| {
                key.reveal().chars().skip(*from).take(*length).flat_map(|c| [c.to_string(), between.clone()]).collect::<String>()
            };
            let text: String = pieces.iter().map(piece).collect();
            prop_assert_eq!(holds_key(&text, &key), text.replace(is_ignorable, "").contains(key.reveal()));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = EditKey::parse(&text);
        }
    }
}
