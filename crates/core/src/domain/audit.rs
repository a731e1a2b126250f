//! The audit: a list of operators' actions, which is only ever appended to.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::slug::Slug;
use super::takedown::TakedownReason;
use super::timestamp::UnixMillis;

/// One thing that an operator did. It has no text of a page, no key and no hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub at: UnixMillis,
    /// The name of the operator, as checked by [`super::takedown::operator_name`].
    pub by: String,
    pub action: AuditAction,
}

/// An action of an operator. The order is part of the format of stored entries: a new action goes to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditAction {
    Takedown {
        slug: Slug,
        reason: TakedownReason,
    },
    /// Creates were paused or resumed, or their budget was changed.
    Creates {
        /// Whether creates are refused from now on.
        paused: bool,
        /// How many pages all clients together may create in an hour from now on; `None` means any number.
        hourly_budget: Option<u32>,
    },
    /// A page was to be hidden. Like every entry but that of a takedown, it is written before the act, which may have failed.
    Hide {
        slug: Slug,
        reason: TakedownReason,
    },
    /// A hidden page was to be shown again.
    Show {
        slug: Slug,
    },
    /// All records were to be copied, by an export or a backup.
    Export,
    /// The facts of one record were to be shown.
    Inspect {
        slug: Slug,
    },
    /// All records were to be looked at for pages that meet criteria.
    Scan,
    /// The filter of one process's log was changed. The log has the filter itself.
    Log,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedEntry {
    /// 1 for the first entry, one more with each. A gap shows that an entry is missing.
    pub number: u64,
    pub entry: AuditEntry,
}

/// An action as JSON has it, in the operators' API and in a ledger: for `#[serde(with = "ActionJson")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AuditAction", tag = "action", rename_all = "snake_case")]
pub enum ActionJson {
    Takedown {
        #[serde(deserialize_with = "checked")]
        slug: Slug,
        reason: TakedownReason,
    },
    Hide {
        #[serde(deserialize_with = "checked")]
        slug: Slug,
        reason: TakedownReason,
    },
    Show {
        #[serde(deserialize_with = "checked")]
        slug: Slug,
    },
    Creates {
        paused: bool,
        hourly_budget: Option<u32>,
    },
    Export,
    Inspect {
        #[serde(deserialize_with = "checked")]
        slug: Slug,
    },
    Scan,
    Log,
}

fn checked<'de, D: Deserializer<'de>>(slug: D) -> Result<Slug, D::Error> {
    Slug::parse(&String::deserialize(slug)?).map_err(D::Error::custom)
}
