//! The prose of this repository, checked: comments and documents say things in plain order and plain words.
//!
//! A sentence that opens with "What", "Who", "Where", "Of" or "That" usually hides its subject in a clause and must be
//! read twice. Questions may open with these words. `typos` checks the spelling; this test checks what `typos` cannot.

use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Words that open a sentence whose subject is a whole clause.
const OPENINGS: &[&str] = &["What", "Who", "Whose", "Where", "Of", "That"];

/// Turns of phrase with a plainer equivalent, in lower case.
const PHRASES: &[(&str, &str)] = &[
    (" anew", "again"),
    (" is to be ", "must, or will"),
    (" are to be ", "must, or will"),
    (" tells of ", "reports"),
    (" goes away", "disconnects, or ends"),
    (" go away", "disconnect, or end"),
    (" mends", "fixes"),
    (" mended", "fixed"),
    (" mend ", "fix"),
    (" makes whole", "completes"),
];

/// Folders and files without prose of ours.
const SKIPPED: &[&str] = &[
    "target",
    "node_modules",
    ".git",
    "LICENSE",
    "Cargo.lock",
    "corpora",
    "seeds",
    "corpus",
    "artifacts",
    "go.sum",
    // Documents that are rendered in benchmarks.
    "documents",
    "package-lock.json",
    "prose.rs",
];

/// One sentence, and where it begins.
struct Sentence {
    path: PathBuf,
    line: usize,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sentences() -> Vec<Sentence> {
    let wanted = |name: &str| !SKIPPED.contains(&name);
    let files = WalkDir::new(root()).sort_by_file_name().into_iter();
    let files = files.filter_entry(|entry| entry.file_name().to_str().is_some_and(wanted)).map(Result::unwrap);
    let mut sentences = Vec::new();
    for entry in files.filter(|entry| entry.file_type().is_file()) {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let path = entry.path().strip_prefix(root()).unwrap();
        for (line, paragraph) in paragraphs(path, &text) {
            sentences.extend(split(&paragraph).map(|text| Sentence { path: path.to_owned(), line, text }));
        }
    }
    assert!(sentences.len() > 2000, "the prose was found: {}", sentences.len());
    sentences
}

/// The paragraphs of prose in a file, each with the line where it begins.
fn paragraphs(path: &Path, text: &str) -> Vec<(usize, String)> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut in_code, mut continues) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let prose = match extension {
            "md" => Some(line.trim()),
            "rs" | "js" | "mjs" | "go" | "lua" => comment(line, &["//!", "///", "//", "--"]),
            _ => comment(line, &["#"]),
        };
        let Some(prose) = prose else {
            continues = false;
            continue;
        };
        in_code ^= prose.starts_with("```");
        // A fence, a table, a heading or an item of a list ends the paragraph before it.
        let is_block = in_code || prose.is_empty() || prose.starts_with(['`', '|', '#', '!', '<']);
        let item = prose.trim_start_matches(['*', '-', ' ']);
        if is_block {
            continues = false;
        } else if continues && item.len() == prose.len() {
            let (_, paragraph) = found.last_mut().expect("a paragraph has begun");
            paragraph.push(' ');
            paragraph.push_str(prose);
        } else {
            found.push((index + 1, item.to_owned()));
            continues = true;
        }
    }
    found
}

/// The text of a line that is a comment and nothing else.
fn comment<'a>(line: &'a str, markers: &[&str]) -> Option<&'a str> {
    let line = line.trim();
    markers.iter().find_map(|marker| line.strip_prefix(marker)).map(str::trim)
}

/// Sentences end with a full stop, a colon, a question mark or an exclamation mark before a capital letter.
fn split(paragraph: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let mut sentences = vec![String::new()];
    for (index, word) in words.iter().enumerate() {
        let sentence = sentences.last_mut().expect("there is one");
        sentence.push_str(word);
        sentence.push(' ');
        let ends = word.trim_end_matches([')', '`', '*', '"']).ends_with(['.', ':', '?', '!']);
        let next_is_capital = words.get(index + 1).is_some_and(|next| next.starts_with(char::is_uppercase));
        if ends && next_is_capital {
            sentences.push(String::new());
        }
    }
    sentences.into_iter().filter(|sentence| !sentence.is_empty())
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "{} sentences:\n{}", faults.len(), faults.join("\n"));
}

/// The documents that an operator reads first.
const GUIDES: &[&str] = &["operate-embedded.md", "operate-cluster.md", "kubernetes.md", "proxy-and-caches.md"];

/// Words that say that something is not known.
const UNKNOWN: &[&str] =
    &["never run", "was not run", "never been run", "not measured", "never tried", "not tried", "nobody has"];

#[test]
fn a_guide_begins_with_what_is_not_known_and_a_first_day_and_says_neither_again() {
    for guide in GUIDES {
        let text = fs::read_to_string(root().join("docs").join(guide)).unwrap();
        let (top, rest) = text.split_once("\n## The first day\n").unwrap_or_else(|| panic!("{guide} has no first day"));
        assert!(!top.contains("\n## "), "{guide} has something before the first day");
        assert_eq!(top.matches("> **Not known.**").count(), 1, "{guide}");
        assert!(rest.trim_start().starts_with("1. "), "{guide}: the first day is a list");
        for line in rest.lines().filter(|line| !line.trim_start().starts_with("<!--")) {
            let line = line.to_lowercase();
            assert!(!UNKNOWN.iter().any(|words| line.contains(words)), "{guide}: this belongs into its box: {line}");
        }
    }
}

#[test]
fn a_sentence_opens_with_its_subject() {
    let opens = |text: &str| OPENINGS.contains(&text.split([' ', ',', '\'']).next().unwrap_or_default());
    let sentences = sentences();
    let faults = sentences.iter().filter(|sentence| opens(&sentence.text) && !sentence.text.trim_end().ends_with('?'));
    report(
        &faults.map(|Sentence { path, line, text }| format!("{}:{line}: {text}", path.display())).collect::<Vec<_>>(),
    );
}

#[test]
fn plain_words_are_used() {
    let mut faults = Vec::new();
    for Sentence { path, line, text } in sentences() {
        let lower = format!(" {}", text.to_lowercase());
        for (phrase, plain) in PHRASES.iter().filter(|(phrase, _)| lower.contains(phrase)) {
            faults.push(format!("{}:{line}: \"{}\", say {plain}: {text}", path.display(), phrase.trim()));
        }
    }
    report(&faults);
}

#[test]
fn the_check_finds_what_it_is_for() {
    let text = "/// What a stranger sends.\nfn code() {}\n// Fine. Where it is kept: nowhere.\n";
    let found = paragraphs(Path::new("a.rs"), text);
    let sentences: Vec<String> = found.iter().flat_map(|(_, paragraph)| split(paragraph)).collect();
    assert_eq!(sentences, ["What a stranger sends. ", "Fine. ", "Where it is kept: nowhere. "]);
}
