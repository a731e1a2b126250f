//! Networks whose clients have other limits than everyone.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::domain::limit_tier::{LimitTier, TierLimits, Tiers};
use crate::domain::network_limits::{Source, Window};
use crate::domain::quota::Quota;
use crate::domain::subject::Requester;
use crate::ports::rate_limiter::LimitKind;

/// The tiers, and the window of their limits. Clones share them, and they may change at any time. The default has none.
#[derive(Clone, Default)]
pub struct LimitTiers {
    tiers: Arc<RwLock<Tiers>>,
    window: Duration,
}

impl LimitTiers {
    /// No tiers yet.
    pub fn new(window: Duration) -> Self {
        Self { tiers: Arc::default(), window }
    }

    pub fn set(&self, tiers: Tiers) {
        *self.tiers.write() = tiers;
    }

    /// The windows of an attempt of `requester`, the narrowest first; `None` if the usual limits count it.
    pub(super) fn windows(&self, kind: LimitKind, requester: Requester) -> Option<Vec<Window>> {
        let tier = self.of(requester)?;
        let shared = limit_of(kind, tier.shared)?;
        let subject = requester.subject.zip(tier.subject).map(|(subject, limits)| {
            let source = Source::Subject { tier: tier.name.clone(), subject };
            (source, limits)
        });
        let client = tier.client.map(|limits| (Source::from(requester.client), limits));
        let narrower = [subject, client].into_iter().flatten();
        let limited = narrower.filter_map(|(source, limits)| Some((source, limit_of(kind, limits)?)));
        let limited = limited.chain([(Source::Tier(tier.name.clone()), shared)]).filter(|(_, limit)| *limit > 0);
        Some(limited.map(|(source, limit)| Window { source, quota: Quota { limit, window: self.window } }).collect())
    }

    /// `requester` without its subject, unless its network is believed.
    pub(super) fn believed(&self, requester: Requester) -> Requester {
        let is_believed = requester.subject.is_some() && self.of(requester).is_some_and(|tier| tier.subject.is_some());
        Requester { subject: requester.subject.filter(|_| is_believed), ..requester }
    }

    fn of(&self, requester: Requester) -> Option<Arc<LimitTier>> {
        self.tiers.read().of(requester.client).cloned()
    }
}

fn limit_of(kind: LimitKind, limits: TierLimits) -> Option<u32> {
    match kind {
        LimitKind::Create => Some(limits.create),
        LimitKind::Edit => Some(limits.edit),
        LimitKind::Token | LimitKind::AllCreates | LimitKind::Preview => None,
    }
}
