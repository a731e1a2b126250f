//! `docs/threat-model.md` names a proof for every threat, and each one exists.
//!
//! A proof is `file::name`: a test of Rust or Python, or a case of the chart's. A row without a proof gives the reason
//! after **no proof**, and the document says how many such rows it has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::{Attribute, Item};

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
    read("docs/threat-model.md").expect("the document is there")
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
        let [asset, threat, defence, proof] = cells[..] else { panic!("a row has four cells: {line}") };
        if asset != "asset" {
            let [threat, defence, proof] = [threat, defence, proof].map(str::to_owned);
            rows.push(Row { topic: topic.clone(), threat, defence, proof });
        }
    }
    rows
}

/// Whether there is such a test.
fn exists(proof: &str) -> bool {
    let Some((file, name)) = proof.split_once("::") else { return false };
    let Some(text) = read(file) else { return false };
    match Path::new(file).extension().and_then(|extension| extension.to_str()) {
        Some("rs") => tests_of(&syn::parse_file(&text).unwrap().items).contains(name),
        Some("py") => text.lines().any(|line| line.trim_start().starts_with(&format!("def {name}("))),
        Some("yaml") => text.lines().any(|line| line.trim_start() == format!("- it: {name}")),
        // JavaScript's test runner takes the name of a test as a string.
        Some("mjs") => text.contains(&format!("'{name}'")) || text.contains(&format!("\"{name}\"")),
        _ => false,
    }
}

/// The names of all tests in `items`, including those in modules and in `proptest!`.
fn tests_of(items: &[Item]) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for item in items {
        match item {
            Item::Fn(function) if function.attrs.iter().any(is_test) => {
                tests.insert(function.sig.ident.to_string());
            }
            Item::Mod(module) => tests.extend(module.content.iter().flat_map(|(_, items)| tests_of(items))),
            // In a macro, the name after each `#[test]` is that of a test.
            Item::Macro(call) => {
                let tokens = call.mac.tokens.to_string();
                let after = tokens.split("# [test]").skip(1);
                let named = after.filter_map(|test| test.split_once("fn ")?.1.split_whitespace().next());
                tests.extend(named.map(|name| name.split('(').next().unwrap_or(name).to_owned()));
            }
            _ => {}
        }
    }
    tests
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
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
    let rows = rows();
    let named = rows.iter().filter(|row| !row.proof.starts_with(NO_PROOF));
    let missing: Vec<&str> = named.flat_map(Row::proofs).filter(|proof| !exists(proof)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn a_test_that_is_not_there_is_missed() {
    let here = "tests/it/threat_model.rs";
    assert!(exists(&format!("{here}::a_test_that_is_not_there_is_missed")));
    for wrong in ["tests_of", "document", "a_test"] {
        assert!(!exists(&format!("{here}::{wrong}")), "{wrong} is no test");
    }
    assert!(!exists("tests/nowhere.rs::a_test") && !exists("README.md::Handbill") && !exists(here));
    assert!(exists("crates/core/src/domain/slug.rs::every_title_gives_a_slug_that_parses"), "a test of `proptest!`");
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
