//! A slug reserved while its page is made, so that another create loses early (contract, decision 23). The store alone
//! decides who gets a slug.

use super::edit_key::EditKeyHash;
use super::hex;
use super::slug::Slug;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub slug: Slug,
    /// The first 16 hexadecimal digits of the key's hash: a repeated create meets its own reservation.
    pub owner: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserved {
    #[default]
    NotAsked,
    Unopposed,
    ByAnother,
}

impl Reservation {
    pub fn new(slug: Slug, key: &EditKeyHash) -> Self {
        Self { slug, owner: hex::encode(&key.as_bytes()[..8]) }
    }
}
