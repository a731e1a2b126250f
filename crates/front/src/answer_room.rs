//! Lets the service ask whether an answer fits into the budget of its listener.

use std::sync::Arc;

use super::budgets::Full;
use super::conn_state::ConnState;

/// The budget for the answer to one request. The server puts it into the request's extensions.
#[derive(Clone)]
pub struct AnswerRoom(Arc<ConnState>);

impl AnswerRoom {
    pub(super) fn new(conn: Arc<ConnState>) -> Self {
        Self(conn)
    }

    /// Reserves what any answer needs. Call it before any work is done.
    ///
    /// Fails if the budget is used up and no other connection gives way.
    pub fn ask(&self) -> Result<(), Full> {
        self.0.may_answer()
    }

    /// Reserves `bytes` for the body of the answer. This never fails for a small body, which may show an edit key.
    pub fn take(&self, bytes: u64) -> Result<(), Full> {
        self.0.charge_answer(bytes)
    }
}
