//! `docs/internals/threat-model.md` names a proof for every threat, and each one exists.
//!
//! A proof is the name of a test of Rust or Python, or of a case of the chart's. A row without a proof gives the reason
//! after **no proof**, and the document says how many such rows it has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use walkdir::WalkDir;

/// The topics that the document must have.
const TOPICS: [&str; 13] = [
    "Keys",
    "Slug space",
    "Readers' browsers",
    "Operators' reputation",
    "Limits",
    "Memory",
    "CPU",
    "Connections",
    "Caches",
    "Agents",
    "Clocks",
    "Disk",
    "Supply chain",
];

/// The last cell of a row begins with this if nothing proves the defence.
const NO_PROOF: &str = "**no proof**:";

/// One threat.
struct Row {
    topic: String,
    threat: String,
    defence: String,
    proof: String,
}

impl Row {
    /// The tests that this row names.
    fn proofs(&self) -> Vec<&str> {
        self.proof.split('`').skip(1).step_by(2).collect()
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

fn document() -> String {
    read("docs/internals/threat-model.md").expect("the document is there")
}

/// The rows of all tables, each with the heading above it.
fn rows() -> Vec<Row> {
    let mut topic = String::new();
    let mut rows = Vec::new();
    for line in document().lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut topic);
        }
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = cells.split(" | ").collect();
        let [threat, defence, proof] = cells[..] else { panic!("a row has three cells: {line}") };
        if threat != "threat" {
            let [threat, defence, proof] = [threat, defence, proof].map(str::to_owned);
            rows.push(Row { topic: topic.clone(), threat, defence, proof });
        }
    }
    rows
}

/// The names of all tests of this repository: of Rust, those in `proptest!` included, of Python, and the chart's cases.
fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for folder in ["src", "crates", "tests", "helm"] {
        let files = WalkDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).into_iter().filter_map(Result::ok);
        for file in files.filter(|file| file.file_type().is_file()) {
            let ending = file.path().extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if ["rs", "py", "yaml"].contains(&ending) {
                tests.extend(tests_of(ending, &fs::read_to_string(file.path()).unwrap()));
            }
        }
    }
    tests
}

/// The names of the tests in a file with this ending.
fn tests_of(ending: &str, text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if ending == "rs" {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) else { continue };
            is_test = false;
            names.extend(rest.split('(').next().map(str::to_owned));
        } else if let Some(rest) = line.strip_prefix("def test_") {
            names.extend(rest.split('(').next().map(|name| format!("test_{name}")));
        } else if let Some(name) = line.strip_prefix("- it: ") {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn every_threat_has_a_defence_and_a_proof_or_says_why_it_has_none() {
    for Row { threat, defence, proof, .. } in rows() {
        assert!(!threat.is_empty() && !defence.is_empty(), "{threat}: {defence}");
        let in_words = proof.strip_prefix(NO_PROOF).is_some_and(|reason| reason.trim().len() > 20);
        let named = proof.contains('`') && !proof.contains(NO_PROOF);
        assert!(in_words != named, "{threat:?} is proved by nothing, or both ways: {proof:?}");
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let (rows, tests) = (rows(), tests());
    let named = rows.iter().filter(|row| !row.proof.starts_with(NO_PROOF));
    let missing: Vec<&str> = named.flat_map(Row::proofs).filter(|proof| !tests.contains(*proof)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn a_function_is_a_test_if_it_says_so() {
    let text =
        "#[test]\n#[cfg(unix)]\nfn a() {}\nfn b() {}\n    #[tokio::test(start_paused = true)]\n    async fn c() {}\n";
    assert_eq!(tests_of("rs", text), ["a", "c"]);
    assert!(tests().contains("every_title_gives_a_slug_that_parses"), "a test of `proptest!`");
}

#[test]
fn every_topic_has_threats_and_the_document_counts_them() {
    let rows = rows();
    let topics: BTreeSet<&str> = rows.iter().map(|row| &*row.topic).collect();
    let missing: Vec<&str> = TOPICS.into_iter().filter(|topic| !topics.contains(topic)).collect();
    assert_eq!(missing, Vec::<&str>::new());

    let unproved = rows.iter().filter(|row| row.proof.starts_with(NO_PROOF)).count();
    let counted = format!("{} threats, {unproved} of them without a proof", rows.len());
    assert!(document().contains(&counted), "the document does not say {counted:?}");
}
