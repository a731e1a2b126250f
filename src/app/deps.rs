//! Dependencies that all parts of the service share.

use std::sync::Arc;

use crate::backends::rendering::RenderThreads;
use crate::ports::clock::{SharedClock, SystemClock};
use crate::ports::random::Random;
use crate::ports::renderer::Renderer;
use crate::telemetry::metrics::Metrics;

/// Dependencies that differ between a process and a test.
pub struct Deps {
    /// Tells the time.
    pub clock: SharedClock,
    /// Yields random numbers.
    pub random: Random,
    /// Counts what happens.
    pub metrics: Arc<Metrics>,
    /// Renders pages.
    pub renderer: Arc<dyn Renderer>,
}

impl Deps {
    /// The machine's clock and randomness, metrics at zero, and threads for rendering.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            metrics: Arc::new(Metrics::new()),
            renderer: Arc::new(RenderThreads::default()),
        }
    }
}
