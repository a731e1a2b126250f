//! Numbers with their noun, for messages.

use std::fmt::Display;

pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_none_is_plural() {
        assert_eq!([0_u64, 1, 2].map(|count| counted(count, "page")), ["0 pages", "1 page", "2 pages"]);
    }
}
