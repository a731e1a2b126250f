//! Values are checked when they are made, so a value that exists is valid.
//!
//! No I/O, clock, randomness or async: time and random numbers are arguments. Parsing never panics.

pub use handbill_markdown as markdown;
pub use handbill_markdown::{language, plain_text};

pub mod archive;
pub mod blocklist;
pub mod client;
pub mod content;
pub mod counted;
pub mod details;
pub mod edit_key;
pub mod head;
pub mod hex;
pub mod journal;
pub mod link_hosts;
pub mod origin;
pub mod page;
pub mod quota;
pub mod record;
pub mod slug;
pub mod takedown;
pub mod text_edits;
pub mod timestamp;
pub mod title;
