//! The commands in `docs/`, checked: each block of them says which test runs it, or why none does.
//!
//! A block of `sh` follows a comment: `<!-- run by: FILE::TEST -->` or `<!-- not run here: why -->`. So a reader knows
//! what to trust, and a block that nobody thought about fails here.

use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Blocks that no test runs. Whoever adds one raises this number, and says in the mark why.
const NOT_RUN: usize = 20;

/// Shortest reason that says something.
const MIN_REASON_CHARS: usize = 20;

/// A block of commands, with the mark before it.
struct Block {
    path: PathBuf,
    line: usize,
    mark: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn blocks() -> Vec<Block> {
    let files = WalkDir::new(root().join("docs")).sort_by_file_name().into_iter().map(Result::unwrap);
    let documents = files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "md"));
    let mut blocks = Vec::new();
    for document in documents {
        let text = fs::read_to_string(document.path()).unwrap();
        let path = document.path().strip_prefix(root()).unwrap();
        blocks.extend(blocks_of(path, &text));
    }
    blocks
}

fn blocks_of(path: &Path, text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let opens = lines.iter().enumerate().filter(|(_, line)| **line == "```sh");
    let block = |(index, _): (usize, &&str)| {
        // An empty line may stand between the mark and its block.
        let before = lines[..index].iter().rev().find(|line| !line.is_empty()).copied().unwrap_or_default();
        Block { path: path.to_owned(), line: index + 1, mark: before.to_owned() }
    };
    opens.map(block).collect()
}

/// The content of a mark of this kind.
fn content<'a>(mark: &'a str, kind: &str) -> Option<&'a str> {
    Some(mark.strip_prefix("<!-- ")?.strip_prefix(kind)?.strip_suffix("-->")?.trim())
}

#[test]
fn every_block_of_commands_in_docs_is_run_by_a_test_or_says_why_not() {
    let blocks = blocks();
    assert!(blocks.len() > 8, "the blocks were found: {}", blocks.len());
    let mut not_run = 0;
    for block in &blocks {
        let place = block.place();
        if let Some(reason) = content(&block.mark, "not run here:") {
            assert!(reason.chars().count() >= MIN_REASON_CHARS, "{place}: say why");
            not_run += 1;
        } else if let Some(test) = content(&block.mark, "run by:") {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{place}: name FILE::TEST"));
            let source =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{place}: {file}: {error}"));
            let is_there = source.contains(&format!("fn {name}(")) || source.contains(&format!("def {name}("));
            assert!(is_there, "{place}: {file} has no test {name}");
        } else {
            panic!("{place}: put `<!-- run by: FILE::TEST -->` or `<!-- not run here: why -->` before the block");
        }
    }
    assert_eq!(not_run, NOT_RUN, "of {} blocks", blocks.len());
}

#[test]
fn a_block_has_the_mark_before_it() {
    let text = "<!-- run by: a.rs::b -->\n```sh\nx\n```\n\n   <!-- not run here: c -->\n\n   ```sh\n   y\n   ```\n```sh\nz\n```\n";
    let found = blocks_of(Path::new("a.md"), text);
    let marks: Vec<_> = found.iter().map(|block| (block.line, block.mark.as_str())).collect();
    assert_eq!(marks, [(2, "<!-- run by: a.rs::b -->"), (8, "<!-- not run here: c -->"), (11, "```")]);
    assert_eq!(content(marks[0].1, "run by:"), Some("a.rs::b"));
    assert_eq!(content(marks[1].1, "run by:"), None);
}
