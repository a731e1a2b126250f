//! Parses requests, for REST and MCP alike. Rejecting is left to the service, which knows the order of checks.

pub mod body;
pub mod client_addr;
pub mod credential;
pub mod fields;
pub mod head;
pub mod json;
pub mod part;
pub mod raw_post;

/// Of the address and all headers. Every connection may hold as much.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Spec §8: 128 KB.
pub const MAX_BODY_BYTES: usize = 131_072;
