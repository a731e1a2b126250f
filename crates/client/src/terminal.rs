//! What commands print.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Prints `text` on standard output at once.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The outcome of a write to standard output. A reader that ends early, as `head` does, has all that it wanted.
pub fn written(outcome: io::Result<()>) -> io::Result<()> {
    outcome.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Replaces control characters, so that `text` stays one line and moves no terminal's cursor.
pub fn one_line(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// An error of the system without its number.
pub fn in_words(error: &impl Display) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// Tells a person what happened. A script is told nothing.
pub fn hint(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}

/// Replaces control characters in a text of many lines.
pub fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}")
}
