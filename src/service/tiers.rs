//! Networks whose clients have other quotas than everyone.

use std::sync::Arc;
use std::time::Duration;

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

    /// The quota of `client`, which is `usual` unless the client's network has its own; `None` if the limit is off.
    pub(super) fn quota(&self, kind: LimitKind, client: Client, usual: Option<Quota>) -> Option<Quota> {
        let limit = match (kind, tier_of(&self.tiers, client)) {
            (LimitKind::Create, Some(tier)) => tier.create,
            (LimitKind::Edit, Some(tier)) => tier.edit,
            _ => return usual,
        };
        (limit > 0).then_some(Quota { limit, window: self.window })
    }
}
