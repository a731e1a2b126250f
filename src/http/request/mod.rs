//! Parsing of requests, for REST and MCP alike: the client's address, the edit key, `Accept` and the body. These modules
//! never reject a request. The service does, since it alone knows the order of checks.

pub mod accept;
pub mod body;
pub mod client_addr;
pub mod credential;
pub mod head;
pub mod json;
pub mod raw_post;

pub use self::head::MAX_HEAD_BYTES;

/// Largest request body, in bytes (spec §8: 128 KB).
pub const MAX_BODY_BYTES: usize = 131_072;
