//! The condition of a write: the record that it replaces.

use super::record::{self, RecordError};
use crate::domain::page::{PageState, PageVersion};
use crate::domain::slug::Slug;
use crate::ports::page_store::Lookup;

#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Version(PageVersion),
    State(PageState),
    /// The record cannot be read.
    Unreadable,
}

impl Expected {
    /// Whether the record with these `bytes` under `slug` is as expected, and whether it may be of a hidden page.
    pub(super) fn holds(self, slug: &Slug, bytes: &[u8]) -> Result<(bool, bool), RecordError> {
        let head = match (record::decode_head(slug, bytes), self) {
            (Err(_), Self::Unreadable) => return Ok((true, true)),
            (found, _) => match found? {
                Lookup::Active(head) => head,
                Lookup::Hidden(head) => *head,
                Lookup::Deleted(_) | Lookup::Absent => return Ok((false, false)),
            },
        };
        let is_expected = match self {
            Self::Version(version) => head.version == version,
            Self::State(state) => head.state() == state,
            Self::Unreadable => false,
        };
        Ok((is_expected, head.hidden.is_some()))
    }
}
