//! Commands that publish, read, edit and delete pages on a server, and save edit keys (contract, decision 20).
//!
//! Standard output has only the result; hints and errors go to standard error. The client is another program in the same binary: it knows a
//! server only by its interface.

mod api;
mod args;
mod commands;
mod key_file;
mod mcp;
mod page;
mod publish;
pub mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use thiserror::Error;
use ureq::Agent;

pub use self::api::REQUEST_TIMEOUT;
pub use self::args::ClientCommand;
use crate::terminal::{harmless, in_words};

/// Runs a command. Its requests go through `agent`, which gives up after [`REQUEST_TIMEOUT`] and returns every status as an answer.
pub fn run(command: ClientCommand, agent: &Agent) -> ExitCode {
    match commands::run(command, agent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("handbill: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Why a command failed; each message tells the user what to do.
#[derive(Debug, Error)]
#[error("{0}")]
enum ClientError {
    /// The server or the machine refused.
    Failed(String),
    /// The command line makes no sense.
    Usage(String),
    /// There is no such page, or it was deleted.
    NoPage(String),
    /// No key is saved, or the server refused it.
    Key(String),
    /// Another client changed the page.
    Changed(String),
    Limited(String),
    Unavailable(String),
    /// The answer was lost: the change may have happened.
    Lost(String),
    /// The page exists. The message shows its key.
    KeyNotSaved(String),
}

impl ClientError {
    fn cannot(what: &str, reason: &io::Error) -> Self {
        Self::Failed(format!("cannot {what} ({})", in_words(reason)))
    }

    /// For scripts; `docs/client.md` lists them.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NoPage(_) => 3,
            Self::Key(_) => 4,
            Self::Changed(_) => 5,
            Self::Limited(_) => 6,
            Self::Unavailable(_) | Self::Lost(_) => 7,
            Self::KeyNotSaved(_) => 8,
        }
    }
}

fn print_line(line: &str) -> Result<()> {
    print_text(&format!("{line}\n"))
}

/// Prints text that strangers may have written. A terminal gets no escape sequences, which it would obey.
fn print_text(text: &str) -> Result<()> {
    let shown = if io::stdout().is_terminal() { harmless(text) } else { text.to_owned() };
    terminal::print(&shown).map_err(|error| ClientError::cannot("write to standard output", &error))
}
