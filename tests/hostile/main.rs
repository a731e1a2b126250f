//! What strangers may send to do harm: scripts in Markdown, Markdown that is dear to render, text that breaks parsers.

// What `src/backends/redb/record.rs` expects at the root of its crate: its format is private to its backend.
use handbill::domain;
use handbill::ports;

#[path = "../support/html.rs"]
mod html;
#[path = "../../src/backends/redb/record.rs"]
mod record;

#[path = "../../fuzz/checks/authorization.rs"]
mod authorization;
#[path = "../../fuzz/checks/forwarding.rs"]
mod forwarding;
#[path = "../../fuzz/checks/records.rs"]
mod records;
#[path = "../../fuzz/checks/rendering.rs"]
mod rendering;
#[path = "../../fuzz/checks/request_json.rs"]
mod request_json;
#[path = "../../fuzz/checks/slug.rs"]
mod slug;

mod corpora;
mod fuzzed;
mod naughty;
mod properties;
mod work;
mod xss;
