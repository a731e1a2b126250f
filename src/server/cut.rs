//! Ends a connection from outside its task.

use tokio::sync::Notify;

/// Ends one connection. Its task and the tables that may need its place share it.
#[derive(Debug, Default)]
pub(super) struct Cut(Notify);

impl Cut {
    /// Ends the connection as soon as its task runs.
    pub(super) fn cut(&self) {
        self.0.notify_one();
    }

    /// Returns once [`Self::cut`] was called, before or after this.
    pub(super) async fn happened(&self) {
        self.0.notified().await;
    }
}
