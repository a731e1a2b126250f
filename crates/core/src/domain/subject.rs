//! One of those who share a client's address, as a network that the operators trust names it
//! (`--limit-tiers-file`).

use std::fmt;

use sha2::{Digest, Sha256};

use super::client::Client;
use super::hex;

/// Longest name of a subject, in bytes. Longer ones are ignored.
const MAX_BYTES: usize = 256;

/// The part of the hash that is kept, in bytes: nobody finds two names with the same one.
const HASH_BYTES: usize = 16;

/// A subject, known by a hash of its name: a name may be a person's, and belongs into no database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject([u8; HASH_BYTES]);

impl Subject {
    /// The subject of this name, from which white space around it is removed; `None` if it is empty or too long.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim();
        if name.is_empty() || name.len() > MAX_BYTES {
            return None;
        }
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&Sha256::digest(name)[..HASH_BYTES]);
        Some(Self(hash))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

/// The sender of an attempt that limits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    pub client: Client,
    /// The subject that the request names. Only some networks are believed.
    pub subject: Option<Subject>,
}

impl From<Client> for Requester {
    fn from(client: Client) -> Self {
        Self { client, subject: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_its_name_without_white_space_around_it() {
        let ada = Subject::named("ada").unwrap();
        assert_eq!(Subject::named(" ada\t"), Some(ada));
        assert_ne!(Subject::named("Ada"), Some(ada));
        assert!(!format!("{ada} {ada:?}").contains("ada"), "it does not show its name");
    }

    #[test]
    fn no_name_and_a_name_that_is_too_long_are_no_subject() {
        for name in ["", "  ", &"x".repeat(257)] {
            assert_eq!(Subject::named(name), None, "{name}");
        }
        assert!(Subject::named(&"x".repeat(256)).is_some());
    }
}
