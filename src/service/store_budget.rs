//! How long a request waits for the page store in all, however many calls it makes.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::ServiceError;
use crate::ports::page_store::StoreError;

/// Longest that a request waits for the page store before it is told that the store is out of reach.
///
/// It is shared by the calls that one attempt makes, so that a store that answers the first one late does not get the
/// whole time once more for the second. A compare-and-set that was lost is an answer: the store works, and the attempt
/// that follows has all of it again, within [`super::DEADLINE`].
pub const STORE_BUDGET: Duration = Duration::from_millis(2750);

/// What is left of [`STORE_BUDGET`].
pub(super) struct StoreBudget {
    left: Duration,
}

impl StoreBudget {
    pub(super) fn new() -> Self {
        Self { left: STORE_BUDGET }
    }

    /// The answer to `call`, if it comes while there is patience left. After [`ServiceError::DeadlinePassed`] its outcome is
    /// unknown.
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
