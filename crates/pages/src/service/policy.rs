//! The operators' policy: refused content, and pauses.

use std::sync::Arc;

use parking_lot::RwLock;

use super::error::ServiceError;
use crate::ports::page_store::{NotReachedError, StoreError};
use crate::ports::renderer::{ContentFilter, RenderOutcome};

/// May change at any time; clones share it. The default allows everything.
#[derive(Clone, Default)]
pub struct PublishingPolicy {
    allowed: Arc<RwLock<Allowed>>,
    observe: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
}

struct Allowed {
    is_content_known: bool,
    refuses: Option<ContentFilter>,
    paused: Option<bool>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { is_content_known: true, refuses: None, paused: Some(false) }
    }
}

impl PublishingPolicy {
    /// Allows no create until the switch is known. Each refusal calls `observe` with `content`, `blocklist` or
    /// `paused`.
    pub fn observed(observe: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        let allowed = Allowed { paused: None, ..Allowed::default() };
        Self { allowed: Arc::new(RwLock::new(allowed)), observe: Some(Arc::new(observe)) }
    }

    pub fn refuse(&self, refuses: impl Fn(&str, &[String]) -> bool + Send + Sync + 'static) {
        let mut allowed = self.allowed.write();
        allowed.is_content_known = true;
        allowed.refuses = Some(Arc::new(refuses));
    }

    pub fn refuse_all(&self) {
        self.allowed.write().is_content_known = false;
    }

    pub fn set_paused(&self, paused: bool) -> bool {
        self.allowed.write().paused.replace(paused).unwrap_or_default() != paused
    }

    pub(super) fn refuses(&self) -> Result<Option<ContentFilter>, ServiceError> {
        let (is_known, refuses) = {
            let allowed = self.allowed.read();
            (allowed.is_content_known, allowed.refuses.clone())
        };
        if is_known { Ok(refuses) } else { Err(self.refused("blocklist", ServiceError::BlocklistUnknown)) }
    }

    pub(super) fn check_content(&self, made: &RenderOutcome) -> Result<(), ServiceError> {
        if made.is_refused { Err(self.refused("content", ServiceError::ContentRefused)) } else { Ok(()) }
    }

    pub(super) fn check_pause(&self) -> Result<(), ServiceError> {
        let paused = self.allowed.read().paused;
        match paused {
            Some(false) => Ok(()),
            Some(true) => Err(self.refused("paused", ServiceError::CreatesPaused)),
            None => Err(self.refused("paused", StoreError::Unavailable(Box::new(NotReachedError)).into())),
        }
    }

    fn refused(&self, reason: &'static str, error: ServiceError) -> ServiceError {
        if let Some(observe) = &self.observe {
            observe(reason);
        }
        error
    }
}
