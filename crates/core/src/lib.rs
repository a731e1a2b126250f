//! Handbill without its transports and its storage.
//!
//! * [`domain`]: the values. No I/O, no clock, no randomness, no async.
//! * [`ports`]: the traits that stores, limiters, renderers, clocks and randomness implement, with their contracts.
//! * [`service`]: the operations on pages, and the order of their checks.

pub mod domain;
pub mod ports;
pub mod service;
