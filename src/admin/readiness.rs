//! What `/readyz` answers.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

/// Whether load balancers should send requests here, and if not, why.
#[derive(Debug)]
pub struct Readiness {
    reasons: Mutex<BTreeMap<&'static str, String>>,
    draining: Gauge,
}

impl Readiness {
    pub fn new(draining: Gauge) -> Self {
        Self { reasons: Mutex::default(), draining }
    }

    pub fn set_missing(&self, component: &'static str, reason: impl Into<String>) {
        self.reasons.lock().insert(component, reason.into());
    }

    pub fn set_present(&self, component: &'static str) {
        self.reasons.lock().remove(component);
    }

    pub fn missing(&self) -> BTreeMap<&'static str, String> {
        self.reasons.lock().clone()
    }

    pub fn drain(&self) {
        self.draining.set(1);
        self.set_missing("process", "draining");
    }
}
