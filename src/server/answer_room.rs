//! Room for an answer, which whoever makes it asks for.

use std::sync::Arc;

use super::budgets::Full;
use super::conn_state::ConnState;

/// Room for the answer to one request. The server puts it into the request's extensions.
#[derive(Clone)]
pub struct AnswerRoom(Arc<ConnState>);

impl AnswerRoom {
    pub(super) fn new(exchange: Arc<ConnState>) -> Self {
        Self(exchange)
    }

    /// Whether there is room for any answer, to be asked before work is done.
    pub fn ask(&self) -> Result<(), Full> {
        self.0.may_answer()
    }

    /// Takes room for an answer whose body has `bytes`. A small one is never refused: it may show an edit key.
    pub fn take(&self, bytes: u64) -> Result<(), Full> {
        self.0.charge_answer(bytes)
    }
}
