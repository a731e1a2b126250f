//! What Handbill is about, with no I/O, no clock, no randomness and no async: values that are valid because they exist.
//!
//! Parsing returns errors and never panics; rendering never fails. What varies (time, chance) is an argument.

pub mod authority;
pub mod client;
pub mod content;
pub mod edit_key;
pub mod excerpt;
pub mod html_text;
pub mod invisible;
pub mod language;
pub mod markdown;
pub mod oauth;
pub mod origin;
pub mod page;
pub mod quota;
pub mod slug;
pub mod timestamp;
pub mod title;
