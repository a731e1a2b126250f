//! Metrics, traces and logs: everything that operators see of the process.

pub mod export;
pub mod http;
pub mod labels;
pub mod logs;
pub mod metrics;
mod process;
mod propagation;
pub mod spans;
