//! How long a request may wait for the page store in all its calls.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::error::ServiceError;
use crate::ports::page_store::StoreError;

/// All calls of one attempt share this time. After a lost compare-and-set the store evidently answers, so the next
/// attempt has all of it, within [`super::DEADLINE`].
pub const STORE_BUDGET: Duration = Duration::from_millis(2750);

pub(super) struct StoreBudget {
    left: Duration,
    pub(super) deadline: Instant,
}

impl StoreBudget {
    pub(super) fn new(deadline: Instant) -> Self {
        Self { left: STORE_BUDGET, deadline }
    }

    pub(super) fn renew(&mut self) {
        self.left = STORE_BUDGET;
    }

    pub(super) fn needed_by(&self) -> Instant {
        self.deadline.min(Instant::now() + self.left)
    }

    /// After [`ServiceError::DeadlinePassed`] the outcome of `call` is unknown.
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

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::super::DEADLINE;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_is_told_the_rest_of_the_budget() {
        let mut budget = StoreBudget::new(Instant::now() + DEADLINE + DEADLINE);
        assert_eq!(budget.needed_by(), Instant::now() + STORE_BUDGET);
        let slow = async {
            sleep(Duration::from_secs(1)).await;
            Ok(())
        };
        budget.wait(slow).await.unwrap();
        // Time between two calls does not count.
        sleep(Duration::from_secs(2)).await;
        let rest = STORE_BUDGET.saturating_sub(Duration::from_secs(1));
        assert_eq!(budget.needed_by(), Instant::now() + rest);
        budget.renew();
        assert_eq!(budget.needed_by(), Instant::now() + STORE_BUDGET);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_told_the_requests_deadline_if_that_comes_first() {
        let deadline = Instant::now() + DEADLINE;
        sleep(Duration::from_secs(4)).await;
        assert_eq!(StoreBudget::new(deadline).needed_by(), deadline);
    }
}
