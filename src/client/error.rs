//! Why a command failed, and its exit code.

use std::io;

use thiserror::Error;

/// Why a command failed. Each message is for the user and says what to do.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) enum ClientError {
    /// The server refused the request, or the machine refused something.
    Failed(String),
    /// The command line asks for something that makes no sense.
    Usage(String),
    /// There is no such page, or it was deleted.
    NoPage(String),
    /// No key of the page is saved, or the server did not accept it.
    Key(String),
    /// Another client changed the page.
    Changed(String),
    /// The server's limit was reached.
    Limited(String),
    /// The server cannot be reached or cannot answer now.
    Unavailable(String),
    /// The answer was lost, so it is unknown whether anything was changed.
    Lost(String),
    /// The page was published, but its key could not be saved. The message shows the key.
    KeyNotSaved(String),
}

impl ClientError {
    /// The machine refused to do `what`.
    pub(super) fn cannot(what: &str, reason: &io::Error) -> Self {
        Self::Failed(format!("can't {what} ({reason})"))
    }

    /// The exit code, which scripts can rely on. `docs/client.md` lists all of them.
    pub(super) fn exit_code(&self) -> u8 {
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
