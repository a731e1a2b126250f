//! Code that REST and MCP share: descriptions of the service, request parsing, response bodies and errors.

pub mod answer;
pub mod error;
pub mod metadata;
pub mod preflight;
pub mod request;
pub mod types;
