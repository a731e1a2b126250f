//! The files that pages for people are shown with. They are part of the binary.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file, and all that is needed to serve it.
#[derive(Debug)]
pub struct Asset {
    /// What it holds.
    pub bytes: &'static [u8],
    /// Its media type.
    pub content_type: &'static str,
    /// Its strong entity tag, without the quotation marks.
    pub tag: String,
}

/// The one style sheet, which every page holds.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/css; charset=utf-8", include_bytes!("assets/style.css")));

/// The icon, drawn so that it stands out from light and from dark.
pub static FAVICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("image/svg+xml", include_bytes!("assets/favicon.svg")));

/// What crawlers are asked to leave out: the API repeats what the pages say. A page that is not to be indexed says so
/// itself, which a crawler only learns by reading it.
pub static ROBOTS_TXT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/plain; charset=utf-8", include_bytes!("assets/robots.txt")));

/// What a page of release 0.2 asks for under `/assets/`, where each file stood by the hash of its bytes: the file as it is
/// today. Such a page is read until the last replica of its release has ended.
pub fn of_older_pages(name: &str) -> Option<&'static Asset> {
    let is = |prefix, extension| name.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(extension));
    if is("style-", ".css") {
        Some(&STYLE)
    } else if is("favicon-", ".svg") {
        Some(&FAVICON)
    } else {
        None
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of `parts`, each counted with its length.
///
/// 64 bits tell versions of a file apart; they do not withstand someone who looks for two with the same hash.
pub(in crate::http) fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize()[..8]);
    format!("{:016x}", u64::from_be_bytes(first))
}

impl Asset {
    fn new(content_type: &'static str, bytes: &'static [u8]) -> Self {
        Self { bytes, content_type, tag: short_hash([bytes]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style_sheet() -> &'static str {
        std::str::from_utf8(STYLE.bytes).unwrap()
    }

    #[test]
    fn a_page_of_an_older_release_is_shown_with_the_files_of_today() {
        assert_eq!(of_older_pages("style-0123456789abcdef.css").unwrap().bytes, STYLE.bytes);
        assert_eq!(of_older_pages("favicon-0123456789abcdef.svg").unwrap().bytes, FAVICON.bytes);
        for absent in ["", "style.css", "style-0.svg", "other-0.css", "robots.txt"] {
            assert!(of_older_pages(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn the_style_sheet_is_small_and_loads_nothing() {
        assert!(STYLE.bytes.len() < 8 * 1024, "{} bytes", STYLE.bytes.len());
        // It stands in an element, which `<` could end.
        for loading in ["url(", "@import", "@font-face", "<"] {
            assert!(!style_sheet().contains(loading), "{loading}");
        }
    }

    #[test]
    fn the_style_sheet_names_no_physical_side() {
        let without_comments: String =
            style_sheet().split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest)).collect();
        for side in ["left", "right"] {
            assert!(!without_comments.contains(side), "{side}");
        }
    }

    #[test]
    fn the_icon_runs_no_script_and_has_no_style_of_its_own() {
        let icon = std::str::from_utf8(FAVICON.bytes).unwrap();
        for refused in ["<script", "<style", "style=", "href"] {
            assert!(!icon.contains(refused), "{refused}");
        }
    }

    #[test]
    fn crawlers_are_kept_from_no_page() {
        // A rule is a prefix: `/mcp` would also cover every slug that begins so. No slug has a slash in it.
        let rules = std::str::from_utf8(ROBOTS_TXT.bytes).unwrap();
        for rule in rules.lines().filter_map(|line| line.strip_prefix("Disallow: ")) {
            assert!(rule.len() > 1 && rule.ends_with('/'), "{rule}");
        }
    }
}
