//! Traits for everything outside the service that it needs. Crates of their own implement them; the service and the tests use
//! them.
//!
//! The contract of each trait is prose on the trait; the contract tests hold every backend to it.

#![warn(missing_docs)]

pub mod clock;
pub mod creates_switch;
pub mod page_import;
pub mod page_scan;
pub mod page_store;
pub mod random;
pub mod rate_limiter;
pub mod renderer;
