//! Why the process cannot start.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::admin::socket::SocketError;
use crate::http::listener::ListenError;
use crate::settings::SettingsError;
use crate::telemetry::export::ExportError;
use handbill_store_sqlite::{OpenError, StoreEnded};

/// Why the process cannot start, or ended with an error.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    StoreEnded(StoreEnded),
    #[error(transparent)]
    Redis(#[from] handbill_rate_limit::OpenError),
    #[error(transparent)]
    Cluster(#[from] handbill_store_scylla::ConnectError),
    #[error("cannot use the blocklist {}: {reason}; correct it, or leave --blocklist-file out", path.display())]
    Blocklist { path: PathBuf, reason: String },
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A runtime, a signal handler or a thread cannot be created.
    #[error("the operating system refused a basic resource ({0})")]
    System(#[from] io::Error),
}

impl StartError {
    /// Starting the service again may help.
    pub fn is_after_the_start(&self) -> bool {
        matches!(self, Self::StoreEnded(_))
    }
}
