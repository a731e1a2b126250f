//! The values that Handbill works with. Each is checked when it is made, so a value that exists is valid.
//!
//! Nothing here does I/O, reads a clock, draws random numbers or is async: time and random numbers are arguments.
//! Parsing returns errors and never panics; rendering never fails.

pub mod archive;
pub mod authority;
pub mod client;
pub mod content;
pub mod edit_key;
pub mod excerpt;
pub mod html_text;
pub mod invisible;
pub mod language;
pub mod markdown;
pub mod network_limits;
pub mod oauth;
pub mod origin;
pub mod page;
pub mod quota;
pub mod slug;
pub mod takedown;
pub mod text_edits;
pub mod timestamp;
pub mod title;
