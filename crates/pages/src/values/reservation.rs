//! A slug that is reserved while its page is made, so that another create that draws the same slug loses early (contract,
//! decision 23). A reservation decides nothing: the store alone decides whose a slug is.

use super::edit_key::EditKeyHash;
use super::hex;
use super::slug::Slug;

/// A slug, and who reserves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub slug: Slug,
    /// The first 16 hexadecimal digits of the hash of the page's key, so that a create that is sent again with its key meets
    /// its own reservation.
    pub owner: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserved {
    /// Nobody was asked.
    #[default]
    NotAsked,
    /// Nobody else has the slug, as far as is known.
    Unopposed,
    /// A create with another key has the slug.
    ByAnother,
}

impl Reservation {
    pub fn new(slug: Slug, key: &EditKeyHash) -> Self {
        Self { slug, owner: hex::encode(&key.as_bytes()[..8]) }
    }
}
