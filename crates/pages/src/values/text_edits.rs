//! Replaces parts of a text, each named by its exact words. All edits apply to the original text, so their order does
//! not matter.

use std::ops::Range;

use thiserror::Error;

pub const MAX_EDITS: usize = 100;

const SHOWN_CHARS: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The text must contain it exactly once.
    pub old: String,
    pub new: String,
}

/// Edits count from 0. Quoted words come from the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextEditError {
    #[error("{0} edits are too many")]
    TooMany(usize),
    #[error("edit {edit} names no part of the text")]
    EmptyOld { edit: usize },
    #[error("the text does not contain the part that edit {edit} names")]
    NotFound {
        edit: usize,
        /// The text contains the part with other white space.
        differs_in_white_space: bool,
    },
    #[error("the text contains the part that edit {edit} names more than once")]
    Ambiguous { edit: usize, places: [Place; 2] },
    #[error("the parts that edits {} and {} name overlap", edits[0], edits[1])]
    Overlap { edits: [usize; 2] },
}

/// Where a part stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counts from 1.
    pub line: usize,
    /// With its white space, so that it can be copied into the edit.
    pub words: String,
}

pub fn apply(text: &str, edits: &[TextEdit]) -> Result<String, TextEditError> {
    if edits.len() > MAX_EDITS {
        return Err(TextEditError::TooMany(edits.len()));
    }
    let mut parts = Vec::with_capacity(edits.len());
    for (edit, TextEdit { old, new }) in edits.iter().enumerate() {
        parts.push((only_place(text, old, edit)?, old.len(), new, edit));
    }
    parts.sort_unstable_by_key(|&(at, ..)| at);
    let mut changed = String::with_capacity(text.len());
    let mut done = 0;
    let mut before = 0;
    for (at, length, new, edit) in parts {
        if at < done {
            return Err(TextEditError::Overlap { edits: [before.min(edit), before.max(edit)] });
        }
        changed.push_str(&text[done..at]);
        changed.push_str(new);
        (done, before) = (at + length, edit);
    }
    changed.push_str(&text[done..]);
    Ok(changed)
}

fn only_place(text: &str, old: &str, edit: usize) -> Result<usize, TextEditError> {
    let Some(first) = old.chars().next() else { return Err(TextEditError::EmptyOld { edit }) };
    let Some(at) = text.find(old) else {
        let differs_in_white_space = without_white_space(text).contains(&without_white_space(old));
        return Err(TextEditError::NotFound { edit, differs_in_white_space });
    };
    // The second place may overlap the first.
    let next = at + first.len_utf8();
    match text[next..].find(old) {
        None => Ok(at),
        Some(after) => {
            // Neither excerpt reaches into the other, so that near places do not look the same.
            let second = next + after;
            let end_of_first = second.min(at + old.len());
            let places = [place(text, at, 0..second), place(text, second, end_of_first..text.len())];
            Err(TextEditError::Ambiguous { edit, places })
        }
    }
}

fn without_white_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// What is at `at`, with words around it from `within`.
fn place(text: &str, at: usize, within: Range<usize>) -> Place {
    let start = text[..at].char_indices().rev().take(SHOWN_CHARS / 2).last().map_or(at, |(start, _)| start);
    let end = text[at..].char_indices().nth(SHOWN_CHARS / 2).map_or(text.len(), |(length, _)| at + length);
    let (start, end) = (start.max(within.start), end.min(within.end));
    let [before, after] = [start > 0, end < text.len()].map(|is_cut| if is_cut { "…" } else { "" });
    let words = format!("{before}{}{after}", &text[start..end]);
    Place { line: text[..at].matches('\n').count() + 1, words }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &str, new: &str) -> TextEdit {
        TextEdit { old: old.to_owned(), new: new.to_owned() }
    }

    fn error(text: &str, edits: &[(&str, &str)]) -> TextEditError {
        apply(text, &edits.iter().map(|(old, new)| edit(old, new)).collect::<Vec<_>>()).unwrap_err()
    }

    #[test]
    fn every_part_is_replaced_whatever_the_order_of_the_edits() {
        let text = "One two three.";
        for edits in [[edit("One", "1"), edit("three", "two")], [edit("three", "two"), edit("One", "1")]] {
            assert_eq!(apply(text, &edits).unwrap(), "1 two two.");
        }
        assert_eq!(apply(text, &[edit(" two", ""), edit(" three", "!")]).unwrap(), "One!.");
        assert_eq!(apply(text, &[]).unwrap(), text);
    }

    #[test]
    fn an_edit_does_not_see_what_another_edit_puts_in() {
        assert_eq!(apply("a b", &[edit("a", "b"), edit("b", "a")]).unwrap(), "b a");
    }

    #[test]
    fn a_part_that_occurs_twice_is_refused_even_if_overlapping() {
        let TextEditError::Ambiguous { edit: 1, places } = error("x. one apple, one pear", &[("x", ""), ("one", "1")])
        else {
            panic!("it is ambiguous")
        };
        assert_eq!(places.map(|place| place.words), ["x. one apple, …", "… apple, one pear"]);
        let TextEditError::Ambiguous { edit: 0, places } = error("aaa", &[("aa", "")]) else {
            panic!("it is ambiguous")
        };
        assert_eq!(places.map(|place| place.words), ["a…", "…aa"]);
    }

    #[test]
    fn a_missing_part_says_whether_only_white_space_differs() {
        let text = "The quick brown fox jumps.";
        for (old, differs_in_white_space) in [("quick brown ox", false), ("quick  brown\nfox", true)] {
            assert_eq!(error(text, &[(old, "")]), TextEditError::NotFound { edit: 0, differs_in_white_space });
        }
    }

    #[test]
    fn parts_that_overlap_are_refused_by_their_numbers() {
        assert_eq!(error("abcd", &[("cd", ""), ("bc", "")]), TextEditError::Overlap { edits: [0, 1] });
        assert_eq!(error("abcd", &[("d", ""), ("bc", ""), ("c", "")]), TextEditError::Overlap { edits: [1, 2] });
    }

    #[test]
    fn an_edit_without_a_part_and_too_many_edits_are_refused() {
        assert_eq!(error("a", &[("a", "b"), ("", "b")]), TextEditError::EmptyOld { edit: 1 });
        let many = vec![edit("a", "b"); MAX_EDITS + 1];
        assert_eq!(apply("a", &many), Err(TextEditError::TooMany(MAX_EDITS + 1)));
    }

    #[test]
    fn few_words_are_shown_around_each_place() {
        let text = format!("{0}é{0}é{0}", "x \n".repeat(1000));
        let TextEditError::Ambiguous { places, .. } = error(&text, &[("é", "")]) else { panic!("it is ambiguous") };
        assert!(places.iter().all(|place| place.words.chars().count() <= SHOWN_CHARS + 2), "{places:?}");
        assert_eq!(places.map(|place| place.line), [1001, 2001]);
    }

    proptest! {
        #[test]
        fn edits_of_any_text_are_total_and_replace_exactly_the_part(
            text in "(?s)[a-cé ]{0,40}", old in "(?s)[a-cé ]{0,5}", new in "(?s).{0,5}",
        ) {
            let places = text.char_indices().filter(|&(at, _)| !old.is_empty() && text[at..].starts_with(&old)).count();
            if let Ok(changed) = apply(&text, &[edit(&old, &new)]) {
                prop_assert_eq!(places, 1);
                prop_assert_eq!(changed, text.replacen(&old, &new, 1));
            } else {
                prop_assert_ne!(places, 1);
            }
        }
    }
}
