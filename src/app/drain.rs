//! Ends the process in steps: not ready → wait → finish requests → send the last spans → exit. A second signal exits at
//! once. If the runtime itself hangs, a separate thread ends the process.

use std::{future::Future, io, thread, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::{sync::watch, time::Instant};

use crate::admin::probes::Readiness;
use crate::http::listener::Phase;

#[derive(Clone, Copy, Debug)]
pub(super) struct DrainLimits {
    /// Load balancers notice meanwhile that the process is not ready.
    pub delay: Duration,
    /// For requests in flight, after `delay`.
    pub timeout: Duration,
}

/// Signals this close together are one: `timeout`, a terminal or a supervisor may send two. A person takes longer.
const ONE_STOP: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct StopSignals {
    last: Option<Instant>,
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Replaces the default action of the signals, which ends the process at once.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            last: None,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if is_another_stop(&mut self.last, Instant::now()) {
                return;
            }
        }
    }
}

fn is_another_stop(last: &mut Option<Instant>, now: Instant) -> bool {
    let is_another = last.is_none_or(|last| now.saturating_duration_since(last) >= ONE_STOP);
    if is_another {
        *last = Some(now);
    }
    is_another
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// Every request was answered before the end of the time or a second signal.
    pub is_complete: bool,
    pub left: Duration,
}

/// Serves until the first `signal`, then drains until all is done or the second.
///
/// `serving` must end soon after [`Phase::Stopping`].
pub(super) async fn run(
    serving: impl Future<Output = ()>,
    phase: watch::Sender<Phase>,
    mut signal: impl AsyncFnMut(),
    readiness: &Readiness,
    limits: DrainLimits,
) -> Ended {
    tokio::pin!(serving);
    let whole = limits.delay.saturating_add(limits.timeout);
    tokio::select! {
        () = &mut serving => return Ended { is_complete: true, left: whole },
        () = signal() => {}
    }
    let began = Instant::now();
    readiness.drain();
    phase.send_replace(Phase::Leaving);
    tracing::info!(delay = ?limits.delay, timeout = ?limits.timeout, "draining");
    let draining = async {
        let stop_accepting = async {
            tokio::time::sleep(limits.delay).await;
            phase.send_replace(Phase::Stopping);
        };
        let both = async { tokio::join!(stop_accepting, &mut serving) };
        tokio::time::timeout(whole, both).await
    };
    let finished = tokio::select! {
        finished = draining => finished.is_ok(),
        () = signal() => false,
    };
    if !finished {
        tracing::warn!("drained in part: requests in flight were cut off");
        return Ended { is_complete: false, left: Duration::ZERO };
    }
    tracing::info!("drained: every request was answered");
    Ended { is_complete: true, left: whole.saturating_sub(began.elapsed()) }
}

/// Time to close the store and the log. The chart allows 5 s more than the drain.
pub const CLOSING_GRACE: Duration = Duration::from_secs(3);

const SECOND_SIGNAL_GRACE: Duration = Duration::from_secs(1);

const TIMEOUT: &str = "the process did not end within the time for draining: ending it now";
const SECOND_SIGNAL: &str = "the process did not end after a second signal: ending it now";

/// Calls `end` with the reason if the process does not end in time after the first signal. Replaces the signals' default action.
pub(super) fn enforce(limits: DrainLimits, end: impl FnOnce(&'static str) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { StopSignals::install() })?;
    thread::Builder::new().name("drain-deadline".to_owned()).spawn(move || {
        let overdue = runtime.block_on(overdue(async move || signals.next().await, limits));
        end(overdue);
    })?;
    Ok(())
}

/// Returns the reason once the process should have ended.
async fn overdue(mut signal: impl AsyncFnMut(), limits: DrainLimits) -> &'static str {
    signal().await;
    let whole = limits.delay.saturating_add(limits.timeout).saturating_add(CLOSING_GRACE);
    let second = async {
        signal().await;
        tokio::time::sleep(SECOND_SIGNAL_GRACE).await;
    };
    tokio::select! {
        () = tokio::time::sleep(whole) => TIMEOUT,
        () = second => SECOND_SIGNAL,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn signals_within_a_second_are_one() {
        let (mut last, began) = (None, Instant::now());
        let mut is_another = |millis| is_another_stop(&mut last, began + Duration::from_millis(millis));
        assert_eq!([0, 1, 999].map(&mut is_another), [true, false, false]);
        // The second begins with the signal that counted, so a person who repeats it is heard.
        assert_eq!([1000, 1500, 2000].map(is_another), [true, false, true]);
    }

    const LIMITS: DrainLimits = DrainLimits { delay: Duration::from_secs(6), timeout: Duration::from_secs(15) };

    /// Why the process is overdue, and how long after the first signal, if signals come at these times.
    async fn overdue_after(limits: DrainLimits, signals: &'static [u64]) -> (&'static str, Duration) {
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
    async fn a_drain_ends_after_its_delay_its_timeout_and_a_little() {
        let whole = LIMITS.delay + LIMITS.timeout + CLOSING_GRACE;
        assert_eq!(overdue_after(LIMITS, &[3600]).await, (TIMEOUT, whole));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_shortens_the_drain() {
        let soon = Duration::from_secs(2) + SECOND_SIGNAL_GRACE;
        assert_eq!(overdue_after(LIMITS, &[60, 2]).await, (SECOND_SIGNAL, soon));
        let longest = DrainLimits { delay: Duration::MAX, timeout: Duration::MAX };
        assert_eq!(overdue_after(longest, &[60, 2]).await, (SECOND_SIGNAL, soon));
    }
}
