//! What operators see: metrics, traces, and logs with a request's id.

pub mod http;
pub mod logs;
pub mod metrics;
#[cfg(target_os = "linux")]
mod process;
mod runtime;
pub mod seldom;
pub mod traces;
