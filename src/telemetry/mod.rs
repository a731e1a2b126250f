//! What operators see: metrics, and logs with a request's id.

pub mod http;
pub mod logs;
pub mod metrics;
