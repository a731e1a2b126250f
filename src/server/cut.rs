//! Ending a connection from outside of its task.

use tokio::sync::Notify;

/// Ends one connection. Shared between its task and whoever may want its room.
#[derive(Debug, Default)]
pub(super) struct Cut(Notify);

impl Cut {
    /// Ends the connection, soon.
    pub(super) fn cut(&self) {
        self.0.notify_one();
    }

    /// Returns once somebody has cut it, also before this was called.
    pub(super) async fn happened(&self) {
        self.0.notified().await;
    }
}
