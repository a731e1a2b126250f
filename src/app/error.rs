//! Why a command of the service failed.

use std::io;

use thiserror::Error;

use crate::admin::blocklist::BlocklistError;
use crate::admin::socket::SocketError;
use crate::http::startup::ListenError;
use crate::settings::SettingsError;
use crate::telemetry::export::ExportError;
use handbill_store_sqlite::{OpenError, StoreEnded};

#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store ended while it served.
    #[error(transparent)]
    StoreEnded(StoreEnded),
    /// The settings of Redis make no sense.
    #[error(transparent)]
    Redis(#[from] handbill_rate_limit::OpenError),
    /// The cluster cannot be used.
    #[error(transparent)]
    Cluster(#[from] handbill_store_scylla::ConnectError),
    #[error(transparent)]
    Blocklist(#[from] BlocklistError),
    /// The operators' socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The settings of traces do not work on this machine.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A runtime, a signal handler or a thread cannot be created.
    #[error("the operating system refused a basic resource ({0})")]
    System(#[from] io::Error),
}

impl StartError {
    /// Whether the service had started, so that starting it again may help.
    pub fn is_after_the_start(&self) -> bool {
        matches!(self, Self::StoreEnded(_))
    }
}
