//! Parsing of requests, for REST and MCP alike: the client's address, the edit key, `Accept` and the body. These modules
//! never reject a request. The service does, since it alone knows the order of checks.

pub mod accept;
pub mod body;
pub mod client_addr;
pub mod credential;
pub mod json;
pub mod raw_post;

use http::request::Parts;

/// Largest request body, in bytes (spec §8: 128 KB).
pub const MAX_BODY_BYTES: usize = 131_072;

/// Largest accepted request head, in bytes: the address and all headers.
pub use handbill_front::MAX_HEAD_BYTES;

/// Whether a request's address and headers are over [`MAX_HEAD_BYTES`].
pub fn is_head_too_large(head: &Parts) -> bool {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    // Each header has a colon, a space and a line break.
    let headers: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    target + headers > MAX_HEAD_BYTES
}
