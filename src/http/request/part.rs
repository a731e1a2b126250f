//! The part of a text that a read asks for in its query (contract, decision 28).

use url::form_urlencoded;

use crate::http::types::Part;
use handbill_pages::service::{Body, BodyError};

const OFFSET: &str = "offset";
const MAX_CHARS: &str = "max_chars";

/// `None` if the query does not name a part. Other parameters are ignored.
pub fn in_query(query: &str) -> Option<Body<Part>> {
    match (count(query, OFFSET, 0), count(query, MAX_CHARS, 1)) {
        (Ok(None), Ok(None)) => None,
        (Err(error), _) | (_, Err(error)) => Some(Err(error)),
        (Ok(offset), Ok(max_chars)) => {
            Some(Ok(Part { offset: offset.unwrap_or(0), max_chars: max_chars.unwrap_or(usize::MAX) }))
        }
    }
}

/// A number that is too large counts as the largest.
fn count(query: &str, name: &str, least: usize) -> Body<Option<usize>> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(found, _)| found == name);
    let Some((_, text)) = values.next() else { return Ok(None) };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().unwrap_or(usize::MAX) {
        number if is_number && number >= least && values.next().is_none() => Ok(Some(number)),
        _ => Err(BodyError::Malformed(format!(
            "The parameter `{name}` is wrong. Send it once, as a whole number from {least} on."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_by_one_number_or_two() {
        for (query, expected) in [
            ("", None),
            ("utm_source=x&Offset=1", None),
            ("offset=7", Some(Some((7, usize::MAX)))),
            ("x=1&max_chars=20&offset=007", Some(Some((7, 20)))),
            ("max%5Fchars=99999999999999999999999", Some(Some((0, usize::MAX)))),
        ] {
            let part = in_query(query).map(|part| part.map(|Part { offset, max_chars }| (offset, max_chars)).ok());
            assert_eq!(part, expected, "{query}");
        }
        for query in ["offset", "offset=", "offset=-1", "offset=+1", "offset=1.0", "offset=1&offset=1", "max_chars=0"] {
            assert!(matches!(in_query(query), Some(Err(_))), "{query}");
        }
    }
}
