//! Why a command failed, and its exit code.

use thiserror::Error;

/// Why a command failed. Each message is for the user and says what to do.
#[derive(Debug, Error)]
pub(super) enum ClientError {
    /// The server refused the request, or the machine refused something.
    #[error("{0}")]
    Failed(String),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// There is no such page, or it was deleted.
    #[error("{0}")]
    NoPage(String),
    /// No key of the page is saved, or the server did not accept it.
    #[error("{0}")]
    Key(String),
    /// Another client changed the page.
    #[error("{0}")]
    Changed(String),
    /// The server's limit was reached.
    #[error("{0}")]
    Limited(String),
    /// The server cannot be reached or cannot answer now.
    #[error("{0}")]
    Unavailable(String),
    /// The answer was lost, so it is unknown whether anything was changed.
    #[error("{0}")]
    Lost(String),
    /// The page was published, but its key could not be saved. The message shows the key.
    #[error("{0}")]
    KeyNotSaved(String),
}

impl ClientError {
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
