//! The name of a text's row, to which a head points.

use super::nonces::Nonce;
use crate::domain::page::PageVersion;

/// The name of a text's row among all texts that a page has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextId {
    /// The version of the write that made this the page's text.
    pub(super) version: PageVersion,
    /// Random bits of that write, because several writers may try to make the same version.
    pub(super) nonce: Nonce,
}
