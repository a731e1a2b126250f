//! Traits for what the service needs from outside, with their contracts.

pub mod clock;
pub mod operated_store;
pub mod page_scan;
pub mod page_store;
pub mod random;
pub mod rate_limiter;
pub mod renderer;
