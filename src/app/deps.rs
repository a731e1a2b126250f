//! Dependencies that all parts of the service share.

use std::sync::Arc;

use crate::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::{SharedClock, SystemClock};
use handbill_pages::ports::random::Random;
use handbill_pages::ports::renderer::Renderer;
use handbill_pages::service::RenderThreads;

/// Dependencies that differ between a process and a test.
pub struct Deps {
    /// Tells the time.
    pub clock: SharedClock,
    /// Yields random numbers.
    pub random: Random,
    /// Counts what happens.
    pub metrics: Arc<Metrics>,
    /// Bytes of pages that are kept in memory.
    pub cache_bytes: u64,
    pub renderer: Arc<dyn Renderer>,
}

impl Deps {
    /// The machine's clock and randomness, metrics at zero, threads for rendering and a cache of 64 MiB.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            metrics: Arc::new(Metrics::new()),
            cache_bytes: 64 << 20,
            renderer: Arc::new(RenderThreads::default()),
        }
    }
}
