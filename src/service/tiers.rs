//! Networks whose clients have other quotas than everyone.

use std::sync::Arc;
use std::time::Duration;

use super::PageService;
use crate::domain::client::Client;
use crate::domain::limit_tier::{LimitTier, tier_of};
use crate::domain::quota::Quota;
use crate::ports::rate_limiter::LimitKind;

/// The tiers, and the window of their limits. The default has none.
#[derive(Clone, Default)]
pub struct LimitTiers {
    tiers: Arc<[LimitTier]>,
    window: Duration,
}

impl LimitTiers {
    /// `tiers` whose limits count within `window`.
    pub fn new(tiers: &[LimitTier], window: Duration) -> Self {
        Self { tiers: tiers.into(), window }
    }
}

impl PageService {
    /// Gives the clients of some networks other quotas for creates and edits. Tokens keep theirs.
    #[must_use]
    pub fn with_tiers(self, tiers: LimitTiers) -> Self {
        Self { tiers, ..self }
    }

    /// The quota of `client`: that of its network, or of everyone; `None` if the limit is off.
    pub(super) fn quota(&self, kind: LimitKind, client: Client) -> Option<Quota> {
        let tier = tier_of(&self.tiers.tiers, client);
        let limit = match (kind, tier) {
            (LimitKind::Create, Some(tier)) => tier.create,
            (LimitKind::Edit, Some(tier)) => tier.edit,
            _ => return self.quotas.of(kind),
        };
        (limit > 0).then_some(Quota { limit, window: self.tiers.window })
    }
}
