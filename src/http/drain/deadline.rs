//! Ends the process if draining takes too long.
//!
//! A separate thread measures the time and receives the signals, because all threads of the runtime may be blocked.

use std::io;
use std::thread;
use std::time::Duration;

use thiserror::Error;

use super::{DrainLimits, StopSignals};

/// Time to close the store and the log. The chart allows 5 s more than the drain.
const CLOSING_GRACE: Duration = Duration::from_secs(3);

const SECOND_SIGNAL_GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Overdue {
    #[error("the process did not end within the time for draining: ending it now")]
    Timeout,
    #[error("the process did not end after a second signal: ending it now")]
    SecondSignal,
}

/// Calls `end` if the process does not end in time after the first signal. Replaces the signals' default action.
pub fn enforce(limits: DrainLimits, end: impl FnOnce(Overdue) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { StopSignals::install() })?;
    thread::Builder::new().name("drain-deadline".to_owned()).spawn(move || {
        let overdue = runtime.block_on(overdue(async move || signals.next().await, limits));
        end(overdue);
    })?;
    Ok(())
}

/// Returns once the process should have ended.
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

    /// Why the process is overdue, and how long after the first signal, if signals come at these times.
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
