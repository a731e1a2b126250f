//! Handbill without its transports and its storage.
//!
//! * [`values`]: no I/O, no clock, no randomness, no async.
//! * [`ports`]: the traits and their contracts.
//! * [`service`]: the operations, and the order of their checks.

pub mod log_throttle;
pub mod ports;
pub mod service;
pub mod values;
