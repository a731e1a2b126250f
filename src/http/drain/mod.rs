//! Ends the process in steps: not ready → wait → finish requests → send the last spans → exit. A second signal exits at
//! once.

mod deadline;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::deadline::{Overdue, enforce};

/// Whether load balancers should send requests to this process, and if not, why.
#[derive(Debug)]
pub struct Readiness {
    reasons: Mutex<BTreeMap<&'static str, String>>,
    draining: Gauge,
}

impl Readiness {
    pub fn new(draining: Gauge) -> Self {
        Self { reasons: Mutex::default(), draining }
    }

    /// Records that `component` is not ready, and why.
    pub fn set_missing(&self, component: &'static str, reason: impl Into<String>) {
        self.reasons.lock().insert(component, reason.into());
    }

    pub fn set_present(&self, component: &'static str) {
        self.reasons.lock().remove(component);
    }

    /// Why the process is not ready, by component; empty if it is.
    pub fn missing(&self) -> BTreeMap<&'static str, String> {
        self.reasons.lock().clone()
    }

    fn drain(&self) {
        self.draining.set(1);
        self.set_missing("process", "draining");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// It serves requests, but asks clients to send the next one elsewhere.
    Leaving,
    /// It only finishes requests that have begun.
    Stopping,
}

#[derive(Clone, Copy, Debug)]
pub struct DrainLimits {
    /// How long requests are still accepted, so that load balancers notice that this process is not ready.
    pub delay: Duration,
    /// How long requests in flight may then take to finish.
    pub timeout: Duration,
}

/// Signals this close together are one: `timeout`, and a terminal or supervisor that signals a whole group, may send the same end
/// twice. A person who wants to cut the drain short takes longer.
const ONE_STOP: Duration = Duration::from_secs(1);

/// `SIGTERM` and `SIGINT`.
#[derive(Debug)]
pub struct StopSignals {
    stops: Stops,
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Replaces the default action of the signals, which would end the process at once.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            stops: Stops::default(),
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal that is not one with the last.
    pub async fn next(&mut self) {
        loop {
            self.any().await;
            if self.stops.is_another(Instant::now()) {
                return;
            }
        }
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Counts signals.
#[derive(Debug, Default)]
struct Stops {
    last: Option<Instant>,
}

impl Stops {
    /// Whether a signal that arrives `now` is another one than the last that was.
    fn is_another(&mut self, now: Instant) -> bool {
        let is_another = self.last.is_none_or(|last| now.saturating_duration_since(last) >= ONE_STOP);
        if is_another {
            self.last = Some(now);
        }
        is_another
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Whether every request was answered, before the end of the time and a second signal.
    pub is_complete: bool,
    /// The time for draining that is left, for work that follows the last request.
    pub left: Duration,
}

/// Serves until `signal` returns for the first time, then drains. The second signal ends the drain.
///
/// `serving` must end by itself soon after `phase` becomes [`Phase::Stopping`]: once no request is in flight.
pub async fn run(
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
    if finished {
        tracing::info!("drained: every request was answered");
        Ended { is_complete: true, left: whole.saturating_sub(began.elapsed()) }
    } else {
        tracing::warn!("drained in part: requests in flight were cut off");
        Ended { is_complete: false, left: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one() {
        let (mut stops, began) = (Stops::default(), Instant::now());
        let at = |millis| began + Duration::from_millis(millis);
        assert_eq!([0, 1, 999].map(|millis| stops.is_another(at(millis))), [true, false, false]);
        // The second begins with the signal that counted, so a person who repeats it is heard.
        assert_eq!([1000, 1500, 2000].map(|millis| stops.is_another(at(millis))), [true, false, true]);
    }
}
