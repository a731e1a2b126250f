//! What differs between a process and a test.

use std::sync::Arc;

use crate::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::{SharedClock, SystemClock};
use handbill_pages::ports::{random::Random, renderer::Renderer};
use handbill_pages::service::RenderThreads;

pub struct Deps {
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Arc<Metrics>,
    /// Bytes of pages kept in memory.
    pub cache_bytes: u64,
    pub renderer: Arc<dyn Renderer>,
}

impl Deps {
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
