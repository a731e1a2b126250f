//! What operators see: metrics, traces, and logs with a request's id.

pub mod export;
pub mod http;
pub mod log_throttle;
pub mod logs;
pub mod metrics;
#[cfg(target_os = "linux")]
mod process;
mod propagation;
mod runtime;
pub mod spans;
