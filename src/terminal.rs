//! What commands print.

use std::io::{self, ErrorKind, Write};

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
