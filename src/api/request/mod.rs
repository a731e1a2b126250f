//! What a request brings to REST and MCP alike: whose it is, the key that it presents, what answer it would have, and
//! its body, read within limits and taken apart without being judged.

pub mod accept;
pub mod body;
pub mod client_addr;
pub mod credential;
mod forwarded;

/// Largest request body, in bytes (spec §8: 128 KB).
pub const MAX_BODY_BYTES: usize = 131_072;

/// Largest request head that is answered with a body, in bytes.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;
