//! Dependencies that all parts of the service share.

use std::sync::Arc;

use crate::backends::rendering::RenderThreads;
use crate::config::Budgets;
use crate::telemetry::metrics::Metrics;
use handbill_core::ports::clock::{SharedClock, SystemClock};
use handbill_core::ports::random::Random;
use handbill_core::ports::renderer::Renderer;

/// Dependencies that differ between a process and a test.
pub struct Deps {
    /// Tells the time.
    pub clock: SharedClock,
    /// Yields random numbers.
    pub random: Random,
    /// Counts what happens.
    pub metrics: Arc<Metrics>,
    /// The memory that the parts of the process may hold.
    pub budgets: Budgets,
    pub renderer: Arc<dyn Renderer>,
}

impl Deps {
    /// The machine's clock and randomness, the default budgets, metrics at zero, and threads for rendering.
    pub fn system() -> Self {
        Self::within(Budgets::default(), Metrics::new())
    }

    /// The same with these budgets and metrics.
    pub fn within(budgets: Budgets, metrics: Metrics) -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            renderer: Arc::new(RenderThreads::new(budgets.texts)),
            budgets,
            metrics: Arc::new(metrics),
        }
    }
}

/// `bytes` of a budget, as a length of something in memory.
pub(super) fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
