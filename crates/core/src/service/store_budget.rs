//! The time that a request may wait for the page store in total, however many calls it makes.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::error::ServiceError;
use crate::ports::deadline::needed_by;
use crate::ports::page_store::StoreError;

/// Longest time that a request waits for the page store before the client learns that the store is unavailable.
///
/// All calls of one attempt share this time: a store that answers the first call late gets only the rest for the
/// second. A lost compare-and-set shows that the store answers, so the next attempt has the whole budget again, within
/// [`super::DEADLINE`].
pub const STORE_BUDGET: Duration = Duration::from_millis(2750);

pub(super) struct StoreBudget {
    left: Duration,
}

impl StoreBudget {
    pub(super) fn new() -> Self {
        Self { left: STORE_BUDGET }
    }

    /// The answer to `call`, if it comes within the rest of the budget. The store is told how much is left. After
    /// [`ServiceError::DeadlinePassed`] the outcome of the call is unknown.
    pub(super) async fn wait<T>(
        &mut self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ServiceError> {
        let began = Instant::now();
        let answer = timeout(self.left, needed_by(began + self.left, call)).await;
        self.left = self.left.saturating_sub(began.elapsed());
        Ok(answer.map_err(|_| ServiceError::DeadlinePassed)??)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::super::{DEADLINE, within_deadline};
    use super::*;
    use crate::ports::deadline::current;

    #[tokio::test(start_paused = true)]
    async fn a_store_is_told_the_rest_of_the_budget() {
        let mut budget = StoreBudget::new();
        let slow = async {
            sleep(Duration::from_secs(1)).await;
            Ok(current())
        };
        let began = Instant::now();
        assert_eq!(budget.wait(slow).await.unwrap(), Some(began + STORE_BUDGET));
        // Time between two calls does not count.
        sleep(Duration::from_secs(10)).await;
        let rest = STORE_BUDGET.saturating_sub(Duration::from_secs(1));
        assert_eq!(budget.wait(async { Ok(current()) }).await.unwrap(), Some(Instant::now() + rest));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_told_the_requests_deadline_if_that_comes_first() {
        let began = Instant::now();
        let told = within_deadline(began, async {
            sleep(Duration::from_secs(4)).await;
            StoreBudget::new().wait(async { Ok(current()) }).await
        });
        assert_eq!(told.await.unwrap(), Some(began + DEADLINE));
    }
}
