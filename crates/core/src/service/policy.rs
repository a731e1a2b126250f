//! The operators' policy: which content they allow at the moment, and whether creates are paused.

use std::sync::Arc;

use parking_lot::RwLock;

use super::error::ServiceError;
use crate::domain::blocklist::Blocklist;
use crate::ports::page_store::{NotReachedError, StoreError};
use crate::ports::renderer::Made;

/// The operators' policy. Clones share it, and it may change at any time. The default allows everything.
#[derive(Clone, Default)]
pub struct PublishingPolicy {
    allowed: Arc<RwLock<Allowed>>,
    observe: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
}

struct Allowed {
    /// `None` while there should be a list and none could be read.
    blocklist: Option<Arc<Blocklist>>,
    /// Whether creates are paused; `None` until it is known.
    paused: Option<bool>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { blocklist: Some(Arc::default()), paused: Some(false) }
    }
}

impl PublishingPolicy {
    /// A policy that allows no create until it knows what operators allow, and any content at first. Each refusal calls
    /// `observe` with `content`, `blocklist` or `paused`.
    pub fn observed(observe: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        let allowed = Allowed { paused: None, ..Allowed::default() };
        Self { allowed: Arc::new(RwLock::new(allowed)), observe: Some(Arc::new(observe)) }
    }

    /// Refuses from now on what is on `blocklist`, or everything if it is not known.
    pub fn set_blocklist(&self, blocklist: impl Into<Option<Blocklist>>) {
        self.allowed.write().blocklist = blocklist.into().map(Arc::new);
    }

    /// Pauses or resumes creates from now on. Returns whether that is a change.
    pub fn set_paused(&self, paused: bool) -> bool {
        self.allowed.write().paused.replace(paused).unwrap_or_default() != paused
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
        let paused = self.allowed.read().paused;
        match paused {
            Some(false) => Ok(()),
            Some(true) => Err(self.refuse("paused", ServiceError::CreatesPaused)),
            None => Err(self.refuse("paused", StoreError::Unavailable(Box::new(NotReachedError)).into())),
        }
    }

    fn refuse(&self, reason: &'static str, error: ServiceError) -> ServiceError {
        if let Some(observe) = &self.observe {
            observe(reason);
        }
        error
    }
}
