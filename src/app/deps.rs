//! Dependencies that all parts of the service share.

use std::sync::Arc;

use crate::ports::clock::{SharedClock, SystemClock};
use crate::ports::random::{SharedEntropy, SystemEntropy};
use crate::telemetry::metrics::Metrics;

/// Dependencies that differ between a process and a test.
pub struct Surroundings {
    /// Tells the time.
    pub clock: SharedClock,
    /// Yields random bytes.
    pub entropy: SharedEntropy,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl Surroundings {
    /// The machine's clock and randomness, and metrics at zero.
    pub fn system() -> Self {
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        Self { clock, entropy, metrics: Arc::new(Metrics::new()) }
    }
}
