//! Ends the process when draining should be over and is not, even with every other thread stuck.
//!
//! Draining is work of the async runtime, and so is hearing signals there: a runtime whose threads all wait for
//! something does neither. A thread of its own counts the same time and hears the same signals.

use std::io;
use std::thread;
use std::time::Duration;

use thiserror::Error;

use super::{DrainLimits, StopSignals};

/// How long after the drain's whole time the process may still close its store and write its last lines. Supervisors
/// that allow for a little more than the drain, such as the chart with its 5 s, need not kill it.
const CLOSING_GRACE: Duration = Duration::from_secs(3);

/// How long after a second signal the process may still end by itself.
const SECOND_SIGNAL_GRACE: Duration = Duration::from_secs(1);

/// Why the process did not end by itself.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Overdue {
    /// The time for draining is over.
    #[error("the time for draining is over and the process has not ended: it is ended now")]
    Timeout,
    /// A second signal came.
    #[error("a second signal came and the process has not ended: it is ended now")]
    SecondSignal,
}

/// From the first signal on, calls `end` on a thread of its own where the process has not ended in time.
///
/// Like [`StopSignals::install`], it takes the signals over.
pub fn enforce(limits: DrainLimits, end: impl FnOnce(Overdue) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { StopSignals::install() })?;
    thread::Builder::new().name("drain-deadline".to_owned()).spawn(move || {
        let overdue = runtime.block_on(overdue(async move || signals.next().await, limits));
        end(overdue);
    })?;
    Ok(())
}

/// Returns once the process should have ended, by what `signal` waits for.
async fn overdue(mut signal: impl AsyncFnMut(), limits: DrainLimits) -> Overdue {
    signal().await;
    let whole = limits.delay.saturating_add(limits.timeout).saturating_add(CLOSING_GRACE);
    let second = async {
        signal().await;
        tokio::time::sleep(SECOND_SIGNAL_GRACE).await;
    };
    tokio::select! {
        () = tokio::time::sleep(whole) => Overdue::Timeout,
        () = second => Overdue::SecondSignal,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    const LIMITS: DrainLimits = DrainLimits { delay: Duration::from_secs(6), timeout: Duration::from_secs(15) };

    /// What is overdue, and how long after the first signal, when signals come at these times.
    async fn overdue_after(limits: DrainLimits, signals: &'static [u64]) -> (Overdue, Duration) {
        let (send, mut signal) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for &seconds in signals {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                send.send(()).unwrap();
            }
            std::future::pending::<()>().await;
        });
        let began = Instant::now();
        let overdue = overdue(async move || signal.recv().await.unwrap(), limits).await;
        (overdue, began.elapsed().saturating_sub(Duration::from_secs(signals[0])))
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_is_over_after_its_delay_its_timeout_and_a_little_more() {
        let whole = LIMITS.delay + LIMITS.timeout + CLOSING_GRACE;
        assert_eq!(overdue_after(LIMITS, &[3600]).await, (Overdue::Timeout, whole));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_shortens_that_and_is_no_longer_waited_for_itself() {
        let soon = Duration::from_secs(2) + SECOND_SIGNAL_GRACE;
        assert_eq!(overdue_after(LIMITS, &[60, 2]).await, (Overdue::SecondSignal, soon));
        let longest = DrainLimits { delay: Duration::MAX, timeout: Duration::MAX };
        assert_eq!(overdue_after(longest, &[60, 2]).await, (Overdue::SecondSignal, soon));
    }
}
