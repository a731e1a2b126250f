//! The limits as `docs/api.md` states them to users. The tests of each limit read it there, so the document and the code
//! change together or fail.

use handbill::http::request::MAX_BODY_BYTES;
use handbill_pages::values::content::MAX_BYTES;
use handbill_pages::values::title::MAX_CHARS;

/// The number behind `words` in the document.
fn number_after(words: &str) -> usize {
    let document = include_str!("../../../docs/api.md");
    let (_, rest) = document.split_once(words).unwrap_or_else(|| panic!("docs/api.md has no {words:?}"));
    rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

pub(crate) fn max_title_chars() -> usize {
    number_after("* A **title** has 1 to ")
}

pub(crate) fn max_content_bytes() -> usize {
    number_after("* **Content** is 1 to ")
}

#[test]
fn the_limits_in_the_document_are_the_limits_in_force() {
    assert_eq!(max_title_chars(), MAX_CHARS, "Change the sentence of docs/api.md that begins with `A **title** has`");
    assert_eq!(max_content_bytes(), MAX_BYTES, "Change the sentence of docs/api.md that begins with `**Content** is`");
    let body = number_after("; a body has at most ");
    assert_eq!(body, MAX_BODY_BYTES, "Change the row of docs/api.md with the code `body_too_large`");
}
