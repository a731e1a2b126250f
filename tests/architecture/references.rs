//! The paths and tests that documents name: all of them exist.

use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Folders with documents; of the root only the files in it.
const DOCUMENTS: [&str; 7] = ["", "docs", "helm/handbill", "loadtest", "migrations", "skill", "tests/k8s"];

/// Text in backticks that begins like this is a path.
const FOLDERS: [&str; 13] = [
    ".cargo/",
    ".ci/",
    "benches/",
    "crates/",
    "deploy/",
    "docs/",
    "examples/",
    "fuzz/",
    "helm/",
    "loadtest/",
    "migrations/",
    "src/",
    "tests/",
];

/// Parts of paths that stand for something else.
const PLACEHOLDERS: [&str; 6] = ["*", "{", "<", "…", "NAME", "NNNN"];

/// The name of a test has at least this many underscores; names of metrics and settings in `CONTRIBUTING.md` have fewer.
const UNDERSCORES_OF_A_TEST: usize = 4;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` with one of these endings.
fn files(folder: &str, depth: usize, endings: &[&str]) -> Vec<PathBuf> {
    let all = WalkDir::new(root().join(folder)).max_depth(depth).sort_by_file_name().into_iter().map(Result::unwrap);
    let has_ending = |path: &Path| path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one));
    all.map(walkdir::DirEntry::into_path).filter(|path| path.is_file() && has_ending(path)).collect()
}

/// The texts in backticks of `document` that have no white space.
fn quoted(document: &str) -> impl Iterator<Item = &str> {
    // Fences are backticks too, three at each end, so every second piece is quoted there as well.
    document.split('`').skip(1).step_by(2).filter(|text| !text.is_empty() && !text.contains(char::is_whitespace))
}

/// The path that `text` names, without the name of a test behind it.
fn path_of(text: &str) -> Option<&str> {
    let path = text.split("::").next()?;
    let is_path = FOLDERS.iter().any(|folder| path.starts_with(folder));
    (is_path && !PLACEHOLDERS.iter().any(|placeholder| path.contains(placeholder))).then_some(path)
}

#[test]
fn every_path_that_a_document_names_exists() {
    let (mut found, mut missing) = (0, Vec::new());
    for folder in DOCUMENTS {
        let depth = if folder.is_empty() { 1 } else { usize::MAX };
        for document in files(folder, depth, &["md"]) {
            let text = fs::read_to_string(&document).unwrap();
            for path in quoted(&text).filter_map(path_of) {
                found += 1;
                if !root().join(path).exists() {
                    missing.push(format!("{}: {path}", document.display()));
                }
            }
        }
    }
    assert!(found > 400, "paths were found: {found}");
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_test_that_contributing_names_exists() {
    let sources: String = ["src", "crates", "tests"]
        .into_iter()
        .flat_map(|folder| files(folder, usize::MAX, &["rs", "py"]))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let contributing = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let is_test = |name: &&str| {
        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        is_name && name.matches('_').count() >= UNDERSCORES_OF_A_TEST
    };
    let named: Vec<&str> = quoted(&contributing).filter(is_test).collect();
    assert!(named.len() > 10, "tests are named: {named:?}");
    let missing: Vec<&str> = named
        .into_iter()
        .filter(|name| !sources.contains(&format!("fn {name}(")) && !sources.contains(&format!("def {name}(")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn a_path_is_text_in_backticks_that_begins_like_one() {
    let document = "`src/a.rs::b` src/c.rs `d.rs` `src/NAME/`\n```sh\nsrc/e.rs\n```\n`docs/f.md`";
    assert_eq!(quoted(document).filter_map(path_of).collect::<Vec<_>>(), ["src/a.rs", "docs/f.md"]);
}
