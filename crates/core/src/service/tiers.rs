//! Networks whose clients have other quotas than everyone.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::client::Client;
use crate::domain::limit_tier::{LimitTier, TierLimits, tier_of};
use crate::domain::network_limits::SubjectQuota;
use crate::domain::quota::Quota;
use crate::domain::subject::Requester;
use crate::ports::rate_limiter::LimitKind;

/// The tiers, and the window of their limits. The default has none.
#[derive(Clone, Default)]
pub struct LimitTiers {
    tiers: Arc<[LimitTier]>,
    window: Duration,
}

impl LimitTiers {
    pub fn new(tiers: &[LimitTier], window: Duration) -> Self {
        Self { tiers: tiers.into(), window }
    }

    /// The quota of `client`, which is `usual` unless the client's network has its own; `None` if the limit is off.
    pub(super) fn quota(&self, kind: LimitKind, client: Client, usual: Option<Quota>) -> Option<Quota> {
        let Some(tier) = tier_of(&self.tiers, client) else { return usual };
        limit_of(kind, tier.client).map_or(usual, |limit| self.counted(limit))
    }

    /// `requester` without its subject, unless its network is believed.
    pub(super) fn believed(&self, requester: Requester) -> Requester {
        let is_believed = tier_of(&self.tiers, requester.client).is_some_and(|tier| tier.subject.is_some());
        Requester { subject: requester.subject.filter(|_| is_believed), ..requester }
    }

    /// The quota of the subject that `requester` names, if its network is believed and limits subjects.
    pub(super) fn subject_quota(&self, kind: LimitKind, requester: Requester) -> Option<SubjectQuota> {
        let (subject, tier) = (requester.subject?, tier_of(&self.tiers, requester.client)?);
        let quota = self.counted(limit_of(kind, tier.subject?)?)?;
        Some(SubjectQuota { subject, quota })
    }

    fn counted(&self, limit: u32) -> Option<Quota> {
        (limit > 0).then_some(Quota { limit, window: self.window })
    }
}

/// The limit of `kind`, if tiers have one of that kind.
fn limit_of(kind: LimitKind, limits: TierLimits) -> Option<u32> {
    match kind {
        LimitKind::Create => Some(limits.create),
        LimitKind::Edit => Some(limits.edit),
        LimitKind::Token | LimitKind::AllCreates | LimitKind::Preview => None,
    }
}
