//! Files for the site, compiled into the binary.

use std::sync::LazyLock;

use askama::Template;

use crate::http::{etag::short_hash, metadata};

/// In every page, without comments and indentation.
pub(super) static STYLE: LazyLock<String> = LazyLock::new(|| {
    let rules = include_str!("assets/style.css").split("/*");
    let rules: String = rules.map(|part| part.split_once("*/").map_or(part, |(_, rule)| rule)).collect();
    rules.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
});

/// What all pages have in their heads, with the style sheet. The page cache keeps it once.
pub(in crate::http) static FRAME: LazyLock<String> = LazyLock::new(|| {
    let frame = FrameTemplate { icon_path: metadata::path::ICON, style: &STYLE };
    frame.render().expect("a `String` accepts all text")
});

#[derive(Template)]
#[template(path = "frame.html")]
struct FrameTemplate<'a> {
    icon_path: &'a str,
    style: &'a str,
}

/// Visible on light and dark backgrounds.
pub(super) const FAVICON: &str = include_str!("assets/favicon.svg");

/// Also for browsers without SVG.
pub(super) const ICON_PHONE: &[u8] = include_bytes!("assets/icon.png");

/// For directories and clients of agents: 48 and 512 pixels.
pub(super) const ICON_SMALL: &[u8] = include_bytes!("assets/icon-48.png");
pub(super) const ICON_LARGE: &[u8] = include_bytes!("assets/icon-512.png");

/// Stands for a shared page without a picture: 1200 × 630 pixels.
pub(super) const CARD: &[u8] = include_bytes!("assets/card.png");

/// Excludes the API, which repeats the pages, but no page: a crawler must read a page to see its own mark.
pub(super) const ROBOTS_TXT: &str = include_str!("assets/robots.txt");

pub(super) static FILES: [(&str, &str, &[u8]); 9] = [
    ("editor.css", "text/css; charset=utf-8", include_bytes!("assets/editor.css")),
    ("editor.js", SCRIPT, include_bytes!("assets/editor.js")),
    ("edit.js", SCRIPT, include_bytes!("assets/edit.js")),
    ("pages.js", SCRIPT, include_bytes!("assets/pages.js")),
    ("editlink.js", SCRIPT, include_bytes!("assets/editlink.js")),
    ("keys.js", SCRIPT, include_bytes!("assets/keys.js")),
    ("preview.js", SCRIPT, include_bytes!("assets/preview.js")),
    ("sheet.js", SCRIPT, include_bytes!("assets/sheet.js")),
    ("ui.js", SCRIPT, include_bytes!("assets/ui.js")),
];

pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// In the addresses of all files.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| short_hash(FILES.iter().map(|(_, _, bytes)| *bytes)));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_is_small_and_loads_nothing() {
        assert!(STYLE.len() < 8 * 1024 && !STYLE.contains("*/"), "{} bytes", STYLE.len());
        // An end tag in the style sheet would end the element that holds it.
        for loading in ["url(", "@import", "@font-face", "</"] {
            assert!(!STYLE.contains(loading), "{loading}");
        }
    }

    #[test]
    fn the_style_sheet_names_no_physical_side() {
        for side in ["left", "right"] {
            assert!(!STYLE.contains(side), "{side}");
        }
    }

    #[test]
    fn the_icon_runs_no_script_and_has_no_style_of_its_own() {
        for refused in ["<script", "<style", "style=", "href"] {
            assert!(!FAVICON.contains(refused), "{refused}");
        }
    }

    #[test]
    fn the_pictures_have_the_size_that_others_expect_and_are_small() {
        for (bytes, size) in
            [(ICON_PHONE, [180_u32, 180]), (ICON_SMALL, [48, 48]), (ICON_LARGE, [512, 512]), (CARD, [1200, 630])]
        {
            assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
            assert_eq!(bytes[16..24], size.map(u32::to_be_bytes).concat());
            assert!(bytes.len() < 24 * 1024, "{} bytes", bytes.len());
        }
    }

    #[test]
    fn crawlers_are_kept_from_no_page() {
        // A rule is a prefix: `/mcp` would also match every slug with this beginning. No slug contains a slash.
        for rule in ROBOTS_TXT.lines().filter_map(|line| line.strip_prefix("Disallow: ")) {
            assert!(rule.len() > 1 && rule.ends_with('/'), "{rule}");
        }
    }
}
