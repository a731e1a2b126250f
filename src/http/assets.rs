//! The files that pages for people load. They are part of the binary; a file whose path holds its hash never changes.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file, and all that is needed to serve it.
#[derive(Debug)]
pub struct Asset {
    /// Where it is served, from the root of the site.
    pub path: String,
    /// What it holds.
    pub bytes: &'static [u8],
    /// Its media type.
    pub content_type: &'static str,
    /// How long a cache may keep it.
    pub cache_control: &'static str,
    /// Its strong entity tag, without the quotation marks.
    pub tag: String,
}

/// The one style sheet.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::hashed("style", "css", "text/css; charset=utf-8", include_bytes!("assets/style.css")));

/// The icon, drawn so that it stands out from light and from dark.
pub static FAVICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::hashed("favicon", "svg", "image/svg+xml", include_bytes!("assets/favicon.svg")));

/// What crawlers are asked to leave out: the API repeats what the pages say. A page that is not to be indexed says so
/// itself, which a crawler only learns by reading it.
pub static ROBOTS_TXT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes: &[u8] = include_bytes!("assets/robots.txt");
    Asset {
        path: "/robots.txt".to_owned(),
        bytes,
        content_type: "text/plain; charset=utf-8",
        cache_control: "public, max-age=86400",
        tag: short_hash([bytes]),
    }
});

/// The asset that is served at `path`.
pub fn by_path(path: &str) -> Option<&'static Asset> {
    [&*STYLE, &*FAVICON, &*ROBOTS_TXT].into_iter().find(|asset| asset.path == path)
}

/// The first 16 hexadecimal digits of the SHA-256 of `parts`, each counted with its length.
///
/// 64 bits tell versions of a file apart; they do not withstand someone who looks for two with the same hash.
pub(super) fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
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
    /// An asset under a path that changes with its bytes, so that it can be cached for ever.
    fn hashed(name: &str, extension: &str, content_type: &'static str, bytes: &'static [u8]) -> Self {
        let hash = short_hash([bytes]);
        Self {
            path: format!("/assets/{name}-{hash}.{extension}"),
            bytes,
            content_type,
            cache_control: "public, max-age=31536000, immutable",
            tag: hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style_sheet() -> &'static str {
        std::str::from_utf8(STYLE.bytes).unwrap()
    }

    #[test]
    fn a_hashed_path_changes_with_the_bytes_and_only_with_them() {
        let path = |bytes| Asset::hashed("style", "css", "text/css", bytes).path;
        assert_eq!(path(b"a{}"), path(b"a{}"));
        assert_ne!(path(b"a{}"), path(b"b{}"));
        let hash = STYLE.path.strip_prefix("/assets/style-").unwrap().strip_suffix(".css").unwrap();
        assert_eq!(hash.len(), 16);
        assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn an_asset_is_found_at_its_own_path_only() {
        for asset in [&*STYLE, &*FAVICON, &*ROBOTS_TXT] {
            assert_eq!(by_path(&asset.path).unwrap().bytes, asset.bytes);
        }
        for absent in ["", "/", "/assets/style.css", "/assets/style-0000000000000000.css", "robots.txt"] {
            assert!(by_path(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn only_an_asset_under_a_hashed_path_is_cached_for_ever() {
        assert!(STYLE.cache_control.contains("immutable"));
        assert!(FAVICON.cache_control.contains("immutable"));
        assert!(!ROBOTS_TXT.cache_control.contains("immutable"));
    }

    #[test]
    fn the_style_sheet_is_small_and_loads_nothing() {
        assert!(STYLE.bytes.len() < 8 * 1024, "{} bytes", STYLE.bytes.len());
        for loading in ["url(", "@import", "@font-face"] {
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
