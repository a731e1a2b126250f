//! The time that a request may wait for the page store in total, however many calls it makes.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::error::ServiceError;
use crate::ports::page_store::StoreError;

/// Longest time that a request waits for the page store before the client learns that the store is unavailable.
///
/// All calls of one attempt share this time: a store that answers the first call late gets only the rest for the
/// second. A lost compare-and-set shows that the store answers, so the next attempt has the whole budget again, within
/// [`super::DEADLINE`].
pub const STORE_BUDGET: Duration = Duration::from_millis(2750);

/// The rest of [`STORE_BUDGET`].
pub(super) struct StoreBudget {
    left: Duration,
}

impl StoreBudget {
    pub(super) fn new() -> Self {
        Self { left: STORE_BUDGET }
    }

    /// The answer to `call`, if it comes within the rest of the budget. After [`ServiceError::DeadlinePassed`] the
    /// outcome of the call is unknown.
    pub(super) async fn wait<T>(
        &mut self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ServiceError> {
        let began = Instant::now();
        let answer = timeout(self.left, call).await;
        self.left = self.left.saturating_sub(began.elapsed());
        Ok(answer.map_err(|_| ServiceError::DeadlinePassed)??)
    }
}
