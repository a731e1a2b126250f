//! The operators' policy: which content and how many creates they allow at the moment.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::error::ServiceError;
use crate::domain::blocklist::Blocklist;
use crate::domain::client::Client;
use crate::domain::creates::Creates;
use crate::domain::quota::Quota;
use crate::ports::page_store::{NotReachedError, StoreError};
use crate::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use crate::ports::renderer::Made;

/// The window of the budget that all clients share.
const BUDGET_WINDOW: Duration = Duration::from_hours(1);

/// The operators' policy. Clones share it, and it may change at any time. The default allows everything.
#[derive(Clone, Default)]
pub struct PublishingPolicy {
    allowed: Arc<RwLock<Allowed>>,
    observe: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
}

struct Allowed {
    /// `None` while there should be a list and none could be read.
    blocklist: Option<Arc<Blocklist>>,
    /// `None` until it is known.
    creates: Option<Creates>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { blocklist: Some(Arc::default()), creates: Some(Creates::default()) }
    }
}

impl PublishingPolicy {
    /// A policy that allows no create until it knows what operators allow, and any content at first. Each refusal calls
    /// `observe` with `content`, `blocklist`, `paused` or `budget`.
    pub fn observed(observe: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        let allowed = Allowed { creates: None, ..Allowed::default() };
        Self { allowed: Arc::new(RwLock::new(allowed)), observe: Some(Arc::new(observe)) }
    }

    /// Refuses from now on what is on `blocklist`, or everything if it is not known.
    pub fn set_blocklist(&self, blocklist: impl Into<Option<Blocklist>>) {
        self.allowed.write().blocklist = blocklist.into().map(Arc::new);
    }

    /// Allows from now on what `creates` allows. Returns whether that is a change.
    pub fn set_creates(&self, creates: Creates) -> bool {
        let mut allowed = self.allowed.write();
        allowed.creates.replace(creates).unwrap_or_default() != creates
    }

    pub fn creates(&self) -> Creates {
        self.known_creates().unwrap_or_default()
    }

    fn known_creates(&self) -> Option<Creates> {
        self.allowed.read().creates
    }

    /// The list that the renderer compares a text with before it is published; `None` if it is empty.
    pub fn blocklist(&self) -> Result<Option<Arc<Blocklist>>, ServiceError> {
        let blocklist = self.allowed.read().blocklist.clone();
        match blocklist {
            Some(blocklist) => Ok(Some(blocklist).filter(|list| !list.is_empty())),
            None => Err(self.refuse("blocklist", ServiceError::BlocklistUnknown)),
        }
    }

    /// Fails if a page with this HTML must not be published.
    pub(super) fn check_content(&self, made: &Made) -> Result<(), ServiceError> {
        if made.is_refused { Err(self.refuse("content", ServiceError::ContentRefused)) } else { Ok(()) }
    }

    pub(super) fn check_pause(&self) -> Result<(), ServiceError> {
        match self.known_creates() {
            Some(Creates { paused: false, .. }) => Ok(()),
            Some(_) => Err(self.refuse("paused", ServiceError::CreatesPaused)),
            None => Err(self.refuse("paused", StoreError::Unavailable(Box::new(NotReachedError)).into())),
        }
    }

    fn refuse(&self, reason: &'static str, error: ServiceError) -> ServiceError {
        if let Some(observe) = &self.observe {
            observe(reason);
        }
        error
    }

    /// Counts a create towards the budget that all clients share; fails if it is used up. A create that the store then
    /// refuses stays counted.
    pub(super) async fn spend_budget(&self, limiter: &dyn RateLimiter) -> Result<(), ServiceError> {
        let Some(limit) = self.creates().hourly_budget else { return Ok(()) };
        let quota = Quota { limit, window: BUDGET_WINDOW };
        let decision = limiter.check(Attempt::new(LimitKind::AllCreates, quota, everyone())).await;
        if decision.admitted { Ok(()) } else { Err(self.refuse("budget", ServiceError::BudgetSpent(decision))) }
    }
}

/// The one client of the shared budget. Nobody can have this address.
fn everyone() -> Client {
    Client::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}
