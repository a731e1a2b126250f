//! What REST and MCP share: the service's description of itself, request parsing, response bodies and errors.

pub mod error;
pub mod metadata;
pub mod request;
pub mod types;
