//! What a request brings to REST and MCP alike: whose it is, the key that it presents, what answer it would have, and
//! its body, read within limits and taken apart without being judged.

pub mod accept;
pub mod body;
pub mod client_addr;
pub mod credential;
mod forwarded;
