//! The checks of `tests/tools/fuzz/run`. The fuzzer makes up its input; these tests use the inputs of `tests/tools/fuzz/seeds`, which the
//! fuzzer begins with, and among them every input that once broke a rule.

use std::fs;
use std::path::Path;

use super::{authorization, rendering, request_json, slug};

fn on_each_seed(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/fuzz/seeds").join(target);
    let inputs: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty(), "{target} has inputs to begin with");
    for input in inputs {
        eprintln!("{}", input.display());
        check(&fs::read(input).unwrap());
    }
}

#[test]
fn any_text_renders_to_bounded_html_of_the_subset() {
    on_each_seed("rendering", rendering::check);
}

#[test]
fn a_slug_is_taken_in_its_grammar_and_every_title_gives_one() {
    on_each_seed("slug", slug::check);
}

#[test]
fn a_body_is_taken_if_it_fits_and_a_refusal_repeats_no_key() {
    on_each_seed("request_json", request_json::check);
}

#[test]
fn only_the_key_opens_a_page_and_no_answer_repeats_it() {
    on_each_seed("authorization", authorization::check);
}
