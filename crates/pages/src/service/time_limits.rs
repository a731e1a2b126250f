//! How long an operation, and its calls of the page store, may take.

use std::{future::Future, time::Duration};

use rand::RngExt;
use tokio::time::{Instant, timeout};

use super::error::ServiceError;
use crate::ports::{page_store::StoreError, random::Random};

/// Time limit of an operation. A write that reaches it may or may not have been made.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Before a lost compare-and-set is tried again.
const LONGEST_JITTER: Duration = Duration::from_millis(25);

/// How long an attempt waits for the page store, all calls together, before the client learns that the store is
/// unavailable. A lost compare-and-set shows that the store answers, so the next attempt has the whole time again.
pub const STORE_BUDGET: Duration = Duration::from_millis(2750);

// An update that lost a race can start over.
const _: () = assert!(LONGEST_JITTER.as_millis() + STORE_BUDGET.as_millis() < DEADLINE.as_millis());

/// The rest of [`STORE_BUDGET`] in an operation that ends at `deadline`.
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

    /// After [`ServiceError::DeadlinePassed`] the outcome of the call is unknown.
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

/// Random, so that writers do not stay in step.
pub(super) async fn back_off(mut random: &Random) {
    tokio::time::sleep(LONGEST_JITTER.mul_f64(random.random())).await;
}

pub(super) fn deadline() -> Instant {
    Instant::now() + DEADLINE
}

pub(super) async fn until<T, E: From<ServiceError>>(
    deadline: Instant,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout_at(deadline, work).await.unwrap_or_else(|_| Err(ServiceError::DeadlinePassed.into()))
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

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
