//! The secret of a deployment, from which a key and title derive a slug (contract, decision 22).
//!
//! A repeated create finds its page. Without the secret, nobody can test a guessed key against a slug, or choose an
//! address.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::edit_key::EditKey;
use super::slug::{Slug, SlugSuffix};
use super::title::Title;

/// As its hash.
pub const SECRET_BYTES: usize = 32;

/// In no log and no export; wiped when dropped.
#[derive(Clone)]
pub struct SlugSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl SlugSecret {
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// Above 0 if other pages have the slugs of all lower counters.
    pub fn slug(&self, title: &Title, key: &EditKey, counter: u32) -> Slug {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("a key of any length will do");
        // Of fixed length, so no two messages are the same.
        for part in [key.reveal().as_bytes(), Slug::words(title).as_bytes(), &counter.to_be_bytes()] {
            mac.update(part);
        }
        let hash = mac.finalize().into_bytes();
        let first_half = hash.first_chunk().expect("a hash has 32 bytes");
        // 28⁸ is far smaller than 2¹²⁸, so all suffixes are equally likely.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
