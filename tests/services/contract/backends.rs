//! The backends on servers. A new one is a new row.

use std::sync::Arc;

use handbill_pages::ports::rate_limiter::RateLimiter;

use super::rules::{Started, Store};
use super::servers;

/// Every store, each without any page that the test knows of.
pub(crate) async fn stores() -> Vec<Started<dyn Store>> {
    vec![Started { name: "scylla", backend: Arc::new(servers::scylla().await), _beside: Box::new(()) }]
}

pub(crate) async fn empty_stores() -> Vec<Started<dyn Store>> {
    vec![Started { name: "scylla", backend: Arc::new(servers::empty_scylla().await), _beside: Box::new(()) }]
}

/// Every limiter and its name. No test controls the clock of Redis, so `services::redis::window` moves the counted
/// attempts instead, and shows that these windows slide as those in memory do.
pub(crate) fn limiters_by_any_clock() -> Vec<(&'static str, Arc<dyn RateLimiter>)> {
    vec![("Redis", Arc::new(servers::redis()))]
}
