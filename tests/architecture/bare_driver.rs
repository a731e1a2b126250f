//! `loadtest/bare_driver.rs` sends the queries of the store: the figures of `loadtest/run cluster_reads` compare the two.

use std::fs;
use std::path::Path;

/// The literals of a source, each on one line. Those of these two files have no quotes within.
fn literals(path: &str) -> Vec<String> {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let one_line = |literal: &str| literal.split("\\\n").map(str::trim_start).collect::<String>();
    code.join("\n").split('"').skip(1).step_by(2).map(one_line).collect()
}

#[test]
fn the_bare_driver_sends_the_queries_of_the_store() {
    let of_the_store = literals("crates/store-cql/src/statements.rs");
    let bare = literals("loadtest/bare_driver.rs");
    for beginning in ["state, version, ", "SELECT {HEAD}, ", "text_version, ", "SELECT {TEXT} ", "slug = ? AND "] {
        let query = bare.iter().find(|literal| literal.starts_with(beginning)).expect("the query");
        assert!(of_the_store.contains(query), "the store has no {query:?}: change loadtest/bare_driver.rs as well");
    }
}
