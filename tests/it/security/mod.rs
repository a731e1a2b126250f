//! Hostile input: scripts in Markdown, Markdown that is expensive to render, text that breaks parsers.

mod html;
// The unit tests of the renderer have the same pieces.
#[path = "../../../crates/markdown/src/pieces.rs"]
mod pieces;

#[path = "../../tools/fuzz/checks/authorization.rs"]
mod authorization;
#[path = "../../tools/fuzz/checks/rendering.rs"]
mod rendering;
#[path = "../../tools/fuzz/checks/request_json.rs"]
mod request_json;
#[path = "../../tools/fuzz/checks/slug.rs"]
mod slug;

pub(crate) mod corpora;
mod fuzzed;
mod properties;
mod work;
pub(crate) mod xss;
