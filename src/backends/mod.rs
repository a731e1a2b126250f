//! Wrappers around any store, and the threads that render. The stores and the limiter are crates of their own.

mod circuit_breaker;
pub mod instrumented;
pub mod rendering;
mod single_flight;
pub mod single_flight_store;
