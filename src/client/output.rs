use std::io::{self, IsTerminal, Write};

use super::error::ClientError;
use crate::stdout::written;

/// A script does not need it.
pub(super) fn hint(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}

pub(super) fn print_line(line: &str) -> Result<(), ClientError> {
    print_text(&format!("{line}\n"))
}

/// Strangers may have written `text`, and a terminal obeys escape sequences.
pub(super) fn print_text(text: &str) -> Result<(), ClientError> {
    let mut out = io::stdout();
    let shown = if out.is_terminal() { harmless(text) } else { text.to_owned() };
    written(out.write_all(shown.as_bytes()).and_then(|()| out.flush()))
        .map_err(|error| ClientError::cannot("write to standard output", &error))
}

fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_escape_sequence_of_a_page() {
        assert_eq!(harmless("a\u{1b}]0;x\u{7}\tb\r\n\u{9b}2J"), "a\u{fffd}]0;x\u{fffd}\tb\u{fffd}\n\u{fffd}2J");
    }
}
