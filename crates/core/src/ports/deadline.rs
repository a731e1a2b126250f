//! The time by which the answer to a call is needed.
//!
//! A request has a deadline. A store that knows it sends nothing whose answer nobody would wait for, and can say whether
//! anything was changed while its caller still listens.
//!
//! The time stays with the task and is not an argument of every method: all that is in front of a store would only hand it
//! on. A task that is started for a call must take it along. A read that several requests share is part of none of them, so
//! it has only the store's own limits.

use tokio::time::Instant;

tokio::task_local! {
    static NEEDED_BY: Instant;
}

/// Does `call`, whose answer is needed by `time`, or earlier if `call` is part of another call that says so. This ends
/// nothing: it only tells those who ask.
pub async fn needed_by<T>(time: Instant, call: impl Future<Output = T>) -> T {
    let time = current().map_or(time, |outer| outer.min(time));
    NEEDED_BY.scope(time, call).await
}

/// Does `call` with the time that [`current`] has returned in another task.
pub async fn carried<T>(time: Option<Instant>, call: impl Future<Output = T>) -> T {
    match time {
        Some(time) => needed_by(time, call).await,
        None => call.await,
    }
}

/// The time by which the answer to the present call is needed; `None` if nobody has said one.
pub fn current() -> Option<Instant> {
    NEEDED_BY.try_with(|time| *time).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_earliest_time_counts_and_ends_with_its_call() {
        let now = Instant::now();
        let [one, two, three] = [1, 2, 3].map(|seconds| now + Duration::from_secs(seconds));
        assert_eq!(current(), None);
        needed_by(two, async {
            assert_eq!(current(), Some(two));
            needed_by(three, async { assert_eq!(current(), Some(two)) }).await;
            needed_by(one, async { assert_eq!(current(), Some(one)) }).await;
            assert_eq!(current(), Some(two));
        })
        .await;
        assert_eq!(current(), None);
    }

    #[tokio::test]
    async fn another_task_has_the_time_only_if_it_takes_it_along() {
        let time = Instant::now();
        needed_by(time, async {
            assert_eq!(tokio::spawn(async { current() }).await.unwrap(), None);
            let carried = tokio::spawn(carried(current(), async { current() }));
            assert_eq!(carried.await.unwrap(), Some(time));
        })
        .await;
        assert_eq!(carried(None, async { current() }).await, None);
    }
}
