//! Why a command failed, for the operator and for scripts.

use std::{fmt::Display, io};

use handbill_client::terminal;

/// Exit code of a command that was refused before it began.
pub(super) const REFUSED: u8 = 2;

/// Exit code of a command that failed on its way.
pub(super) const FAILED: u8 = 1;

/// Why a command failed, in one line for the operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandError {
    pub(super) reason: String,
    pub(super) exit_code: u8,
}

impl CommandError {
    /// Nothing was done or printed.
    pub(super) fn refused(reason: impl Display) -> Self {
        Self { reason: reason.to_string(), exit_code: REFUSED }
    }

    /// Something may have been done or printed.
    pub(super) fn failed(reason: impl Display) -> Self {
        Self { reason: reason.to_string(), exit_code: FAILED }
    }

    /// The same error, of a command that had done something before.
    pub(super) fn on_its_way(self) -> Self {
        Self::failed(self.reason)
    }
}

pub(super) fn print_line(line: &str) -> Result<(), CommandError> {
    print(&format!("{line}\n"))
}

pub(super) fn print(text: &str) -> Result<(), CommandError> {
    terminal::print(text).map_err(|error| unwritable("the output", &error))
}

/// The error of a command that could not write `what`, which may have been written in part.
pub(super) fn unwritable(what: impl Display, error: &io::Error) -> CommandError {
    CommandError::failed(format!("cannot write {what}: {error}; make room, and run the command again"))
}
