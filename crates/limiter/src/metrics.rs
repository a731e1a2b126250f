//! The instruments of the limiter.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// The instruments. Clones share their values.
#[derive(Clone, Debug, Default)]
pub struct LimiterMetrics {
    /// 1 while this replica decides alone, else 0.
    pub fallback: Gauge,
    /// Decisions that this replica made alone.
    pub fallback_decisions: Counter,
}
