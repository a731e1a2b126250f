//! Any text renders to HTML of bounded size that has only elements of the subset, and a browser reads the HTML as it
//! was written.

use handbill_pages::values::markdown::render;

use super::html::{assert_only_the_subset, reserialised};

/// HTML may be this much longer than six times its source, in bytes (contract, decision 12).
const FIXED_BYTES: usize = 64 * 1024;
/// Largest HTML of all, in bytes (contract, decision 12).
const MAX_BYTES: usize = 4_000_000;

pub(crate) fn check(input: &[u8]) {
    let source = String::from_utf8_lossy(input);
    let html = render(&source).html;
    assert_bounded(&html, &source);
    assert_only_the_subset(&html, &source);
    assert_eq!(reserialised(&html), html, "a browser reads it otherwise");
}

pub(crate) fn assert_bounded(html: &str, source: &str) {
    let bound = MAX_BYTES.min(FIXED_BYTES + 6 * source.len());
    assert!(html.len() <= bound, "{} bytes of HTML from {} bytes", html.len(), source.len());
}
