//! A line of the ledger.

use crate::domain::archive::{Entry, audit_line, entry_line};
use crate::domain::audit::NumberedEntry;

/// A line that an operation adds.
#[derive(Clone, Debug)]
pub(super) enum LedgerLine {
    /// The page was deleted, hidden or shown.
    Of(Entry),
    Audit(NumberedEntry),
}

/// The beginning of the key of an entry of the audit. No slug has it.
const AUDIT: char = '#';

impl LedgerLine {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Of(entry) => entry_line(entry),
            Self::Audit(entry) => audit_line(entry),
        }
    }

    /// The key under which it is noted until the ledger has it.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Of(entry) => entry.slug().to_string(),
            Self::Audit(entry) => format!("{AUDIT}{}", entry.number),
        }
    }

    /// The number of the audit's entry that is noted under `key`; `None` if that is a slug.
    pub(super) fn number_in(key: &str) -> Option<u64> {
        key.strip_prefix(AUDIT)?.parse().ok()
    }
}
