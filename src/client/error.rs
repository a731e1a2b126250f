use std::io;

use thiserror::Error;

/// Why a command failed; each message tells the user what to do.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) enum ClientError {
    /// The server or the machine refused.
    Failed(String),
    /// The command line makes no sense.
    Usage(String),
    /// Or the page was deleted.
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
    pub(super) fn cannot(what: &str, reason: &io::Error) -> Self {
        Self::Failed(format!("can't {what} ({reason})"))
    }

    /// For scripts; `docs/client.md` lists them.
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
