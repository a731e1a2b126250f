//! Traits for what the service needs from outside. Each trait's prose is its contract, which contract tests check for
//! every backend.

pub mod clock;
pub mod page_scan;
pub mod page_store;
pub mod random;
pub mod rate_limiter;
pub mod renderer;
