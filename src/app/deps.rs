//! Dependencies that all parts of the service share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

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
    /// Cancelled when so many renderings hang that the process must end.
    pub too_many_hung: CancellationToken,
}

impl Deps {
    /// The machine's clock and randomness, metrics at zero, and threads for rendering.
    pub fn system() -> Self {
        Self::counting_in(Metrics::new())
    }

    /// The same with these metrics.
    pub fn counting_in(metrics: Metrics) -> Self {
        let too_many_hung = CancellationToken::new();
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            renderer: Arc::new(RenderThreads::new(metrics.renders_hung.clone(), too_many_hung.clone())),
            metrics: Arc::new(metrics),
            too_many_hung,
        }
    }
}
