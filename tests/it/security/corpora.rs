//! Other projects' attacks. They are not in this repository, because they have licences of their own.
//!
//! `CORPORA_DIR` names a folder of `*.jsonl` files, each line an object with `kind` and `input`. Without it, this project's own attacks
//! stand in for them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{rendering, xss};
use crate::in_process::app::Setup;
use crate::spec::form::{field, form};

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
    corpora_dir().map_or_else(|| rows_in(Path::new(OWN), kinds), |folder| rows_in(Path::new(&folder), kinds))
}

pub(crate) fn own(kind: &str) -> Vec<String> {
    rows_in(Path::new(OWN), &[kind])
}

const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/security/corpora");

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
    assert!(!rows.is_empty(), "{} has no row of {kinds:?}", folder.display());
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
        rendering::check(source.as_bytes());
    }
}

#[tokio::test]
async fn the_preview_of_every_text_is_the_article_of_its_page() {
    let app = Setup::unlimited().start();
    // Texts of each kind of Markdown, and attacks. The tests in browsers use them too.
    let texts = own("preview");
    // Every example of Markdown, and of the thousands of attacks in HTML each fifth: most of them differ in a word.
    let markdown = rows(&["markdown"]);
    let html = rows(&["html", "url", "text"]).into_iter().step_by(5);
    let all: BTreeSet<String> = xss::all().chain(texts).chain(markdown).chain(html).collect();
    // A page has at least one byte and at most 100 KB.
    let fitting: Vec<_> = all.iter().filter(|text| (1..=102_400).contains(&text.len())).collect();
    assert!(fitting.len() > 150, "{}", fitting.len());
    for text in &fitting {
        // A client has 600 previews an hour.
        app.clock.advance(Duration::from_secs(6));
        let parts = [field("title", "T"), field("content", text), field("action", "preview")];
        let preview = app.send(form(&parts).header("accept", "application/json")).await;
        let article = preview.expect_status(200).field("article_html");
        let page = app.publish("T", &text.replace("\r\n", "\n")).await;
        let shown = app.get(&format!("/{}", page.slug)).await;
        assert!(shown.text().contains(&format!("<article dir=\"auto\">\n{article}\n</article>")), "{text:?}");
    }
    println!("{} previews compared", fitting.len());
}
