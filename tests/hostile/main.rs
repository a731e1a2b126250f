//! What strangers may send to do harm: scripts in Markdown, Markdown that is dear to render, text that breaks parsers.

#[path = "../support/html.rs"]
mod html;

mod corpora;
mod naughty;
mod properties;
mod work;
mod xss;
