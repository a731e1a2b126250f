//! What operators see of the process: metrics, traces and logs.

pub mod export;
pub mod http;
pub mod labels;
pub mod logs;
pub mod metrics;
mod process;
mod propagation;
pub mod spans;
