//! The paths, links and tests that documents name: all of them exist.

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
    assert!(found > 150, "paths were found: {found}");
    assert_eq!(missing, Vec::<String>::new());
}

/// The targets of the links and images in `document` that lead to files of this repository.
fn links(document: &str) -> impl Iterator<Item = &str> {
    let prose = document.split('`').step_by(2);
    let targets = prose.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.contains(':') && !target.starts_with('/'))
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(document: &str) -> Vec<String> {
    let headings =
        document.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: &char| letter.is_alphanumeric() || ['-', '_', ' '].contains(letter);
    headings.map(|heading| heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")).collect()
}

#[test]
fn every_link_and_image_of_a_document_leads_to_a_file_and_to_a_heading_in_it() {
    let (mut found, mut broken) = (0, Vec::new());
    for folder in DOCUMENTS {
        let depth = if folder.is_empty() { 1 } else { usize::MAX };
        for document in files(folder, depth, &["md"]) {
            let text = fs::read_to_string(&document).unwrap();
            for link in links(&text) {
                found += 1;
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if path.is_empty() { document.clone() } else { document.with_file_name(path) };
                let has_anchor =
                    || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(&anchor.to_owned()));
                if !target.exists() || !(anchor.is_empty() || has_anchor()) {
                    broken.push(format!("{}: {link}", document.display()));
                }
            }
        }
    }
    assert!(found > 150, "links were found: {found}");
    assert_eq!(broken, Vec::<String>::new());
}

/// The number behind each `marker` in `text`, such as `4.7`.
fn numbers_after<'a>(text: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = |rest: &str| rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    let numbers = text.split(marker).skip(1).map(move |rest| rest[..ends(rest)].trim_end_matches('.'));
    numbers.filter(|number| !number.is_empty())
}

#[test]
fn every_section_and_decision_that_a_comment_names_is_in_the_contract() {
    let contract = fs::read_to_string(root().join("docs/internals/contract.md")).unwrap();
    let has = |start: String| contract.lines().any(|line| line.starts_with(&start));
    let (mut found, mut missing) = (0, Vec::new());
    for path in
        ["src", "crates", "tests", "fuzz/checks"].into_iter().flat_map(|folder| files(folder, usize::MAX, &["rs"]))
    {
        let text = fs::read_to_string(&path).unwrap();
        let sections = numbers_after(&text, "spec §").map(|number| format!("| {number}"));
        let decisions = ["contract, decision ", "contract decision "]
            .into_iter()
            .flat_map(|marker| numbers_after(&text, marker).map(|number| format!("{number}. **")));
        for start in sections.chain(decisions) {
            found += 1;
            if !has(start.clone()) {
                missing.push(format!("{}: {start}", path.display()));
            }
        }
    }
    assert!(found > 60, "references were found: {found}");
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
