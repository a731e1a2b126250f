//! Handbill without its transports and its storage.
//!
//! * [`values`]: the values. No I/O, no clock, no randomness, no async.
//! * [`ports`]: the traits that stores, limiters, renderers, clocks and randomness implement, with their contracts.
//! * [`service`]: the operations on pages, and the order of their checks.
//! * [`log_throttle`] and [`niceness`]: how often a warning is logged, and which threads give way. Several backends use them.

pub mod log_throttle;
pub mod niceness;
pub mod ports;
pub mod service;
pub mod values;
