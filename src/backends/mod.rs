//! Wrappers around any store, and the threads that render. The stores and the limiter are crates of their own.

pub mod coalescing;
pub mod instrumented;
pub mod purging;
mod read_schedule;
pub mod rendering;
mod sharing;
