//! Whether pages may be created, and how many.

use serde::{Deserialize, Serialize};

/// Highest budget of creates in an hour. A window remembers each of its attempts.
pub const MAX_HOURLY_BUDGET: u32 = 1_000_000;

/// The operators' limits on the creates of all clients together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Creates {
    #[serde(default)]
    pub paused: bool,
    /// How many pages all clients together may create within any hour, 1 to [`MAX_HOURLY_BUDGET`]; `None` means any
    /// number.
    #[serde(default)]
    pub hourly_budget: Option<u32>,
}

impl Creates {
    /// Whether the budget is within its range.
    pub fn is_valid(&self) -> bool {
        self.hourly_budget.is_none_or(|budget| (1..=MAX_HOURLY_BUDGET).contains(&budget))
    }
}
