//! Standard output for what was asked for, and standard error for hints.

use std::io::{self, IsTerminal, Write};

use super::error::ClientError;

/// Tells the user something that a script does not need.
pub(super) fn hint(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}

pub(super) fn print_line(line: &str) -> Result<(), ClientError> {
    print(format!("{line}\n").as_bytes())
}

/// Prints. A reader that ends early, as `head` does, has all that it wanted.
pub(super) fn print(bytes: &[u8]) -> Result<(), ClientError> {
    let mut out = io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(ClientError::Failed(format!("could not write to standard output ({error})")))
        }
        _ => Ok(()),
    }
}
