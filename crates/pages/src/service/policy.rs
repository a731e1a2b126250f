//! The operators' policy: refused content, and pauses.

use std::sync::Arc;

use parking_lot::RwLock;
use prometheus_client::{encoding::EncodeLabelSet, metrics::counter::Counter, metrics::family::Family};

use super::PageService;
use super::error::{BodyError, ServiceError};
use crate::ports::page_store::{NotReachedError, StoreError};
use crate::ports::renderer::{ContentChecks, Purpose, RenderOutcome};
use crate::values::{blocklist::Blocklist, content::Content, edit_key::EditKey};

/// The text or its links are on the blocklist.
const CONTENT: &str = "content";
/// The blocklist cannot be read.
const BLOCKLIST: &str = "blocklist";
/// Nothing may be created.
const PAUSED: &str = "paused";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    pub reason: &'static str,
}

/// May change at any time; clones share it. The default allows everything.
#[derive(Clone, Default)]
pub struct PublishingPolicy {
    allowed: Arc<RwLock<Allowed>>,
    refusals: Family<RefusalLabels, Counter>,
}

struct Allowed {
    is_content_known: bool,
    blocklist: Option<Arc<Blocklist>>,
    paused: Option<bool>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { is_content_known: true, blocklist: None, paused: Some(false) }
    }
}

impl PublishingPolicy {
    /// Allows no create until the switch is known.
    pub fn unknown(refusals: Family<RefusalLabels, Counter>) -> Self {
        // The objective of writes subtracts pauses, so these series start at 0.
        for reason in [CONTENT, BLOCKLIST, PAUSED] {
            drop(refusals.get_or_create(&RefusalLabels { reason }));
        }
        let allowed = Allowed { paused: None, ..Allowed::default() };
        Self { allowed: Arc::new(RwLock::new(allowed)), refusals }
    }

    /// An empty list allows everything.
    pub fn refuse(&self, list: Blocklist) {
        let mut allowed = self.allowed.write();
        allowed.is_content_known = true;
        allowed.blocklist = Some(Arc::new(list)).filter(|list| list.entries() > 0);
    }

    pub fn refuse_all(&self) {
        self.allowed.write().is_content_known = false;
    }

    pub fn set_paused(&self, paused: bool) -> bool {
        self.allowed.write().paused.replace(paused).unwrap_or_default() != paused
    }

    fn blocklist(&self) -> Result<Option<Arc<Blocklist>>, ServiceError> {
        let (is_known, blocklist) = {
            let allowed = self.allowed.read();
            (allowed.is_content_known, allowed.blocklist.clone())
        };
        if is_known { Ok(blocklist) } else { Err(self.refused(BLOCKLIST, ServiceError::BlocklistUnknown)) }
    }

    fn check_content(&self, made: &RenderOutcome) -> Result<(), ServiceError> {
        if made.is_refused { Err(self.refused(CONTENT, ServiceError::ContentRefused)) } else { Ok(()) }
    }

    pub(super) fn check_pause(&self) -> Result<(), ServiceError> {
        let paused = self.allowed.read().paused;
        match paused {
            Some(false) => Ok(()),
            Some(true) => Err(self.refused(PAUSED, ServiceError::CreatesPaused)),
            None => Err(self.refused(PAUSED, StoreError::Unavailable(Box::new(NotReachedError)).into())),
        }
    }

    fn refused(&self, reason: &'static str, error: ServiceError) -> ServiceError {
        self.refusals.get_or_create(&RefusalLabels { reason }).inc();
        error
    }
}

impl PageService {
    pub(super) async fn rendered(
        &self,
        content: &Content,
        key: Option<&EditKey>,
    ) -> Result<RenderOutcome, ServiceError> {
        let checks = ContentChecks { blocklist: self.policy.blocklist()?, key: key.cloned() };
        Ok(self.renderer.render(content, Purpose::Write, checks).await?)
    }

    pub(super) fn check_made(&self, made: &RenderOutcome) -> Result<(), ServiceError> {
        if made.holds_key {
            return Err(BodyError::HoldsKey("content").into());
        }
        self.policy.check_content(made)
    }
}
