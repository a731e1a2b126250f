//! Other projects' attacks. They are not in this repository, because they have licences of their own.
//!
//! `CORPORA_DIR` names a folder of `*.jsonl` files, each line an object with `kind` and `input`. Without it, the
//! attacks of [`super::xss`] stand in for them.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use handbill_pages::values::markdown::render;
use serde_json::Value;

use super::html::{assert_only_the_subset, reserialised};
use super::xss;

#[test]
fn no_row_of_the_corpora_comes_out_as_more_than_the_subset() {
    let rows = rows(&["html", "markdown", "url", "text"]);
    for row in &rows {
        check(row);
    }
    println!("{} rows checked", rows.len());
}

/// The rows of these kinds in `CORPORA_DIR`; without it, this project's own attacks.
pub(crate) fn rows(kinds: &[&str]) -> Vec<String> {
    let Some(folder) = corpora_dir() else {
        eprintln!("CORPORA_DIR is not set: only this project's own attacks are checked");
        return xss::all().collect();
    };
    let rows = rows_in(Path::new(&folder), kinds);
    assert!(!rows.is_empty(), "CORPORA_DIR names a folder without a row to check");
    rows
}

#[expect(clippy::disallowed_methods, reason = "where test data lies is no setting of the service")]
fn corpora_dir() -> Option<OsString> {
    std::env::var_os("CORPORA_DIR")
}

fn rows_in(folder: &Path, kinds: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("CORPORA_DIR names a readable folder");
    let mut rows = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable entry").path()) {
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(&path).expect("a corpus in UTF-8").lines() {
            let row: Value = serde_json::from_str(line).expect("a JSON object on each line");
            if let (Some(kind), Some(input)) = (row["kind"].as_str(), row["input"].as_str())
                && kinds.contains(&kind)
            {
                rows.push(input.to_owned());
            }
        }
    }
    rows
}

/// Checks `input` as content, and as the address of links and images.
fn check(input: impl AsRef<str>) {
    let input = input.as_ref();
    let one_line = input.replace(['\n', '\r'], " ");
    let angled = one_line.replace(['<', '>'], "");
    for source in [
        input.to_owned(),
        format!("[a]({one_line}) ![a]({one_line})"),
        format!("[a](<{angled}>) ![a](<{angled}>) <{angled}>"),
        format!("[a][r] ![a][r]\n\n[r]: <{angled}>"),
        format!("```{input}\n{input}"),
        format!("![{input}](https://img.example/)"),
    ] {
        let html = render(&source).html;
        assert_only_the_subset(&html, &source);
        assert_eq!(reserialised(&html), html, "from {source:?}");
    }
}
