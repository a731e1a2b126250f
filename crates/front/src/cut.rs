//! Ends a connection from outside its task.

use tokio::sync::Notify;

/// Ends one connection. The connection's task and the tables that may need the connection's place share this value.
#[derive(Debug, Default)]
pub(super) struct Cut(Notify);

impl Cut {
    /// Ends the connection as soon as its task runs.
    pub(super) fn cut(&self) {
        self.0.notify_one();
    }

    /// Returns once [`Self::cut`] was called. The call may come before or after this one.
    pub(super) async fn happened(&self) {
        self.0.notified().await;
    }
}
