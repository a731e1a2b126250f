//! The permits to run operations: the [`Bulkhead`] with its clock, its lock and those who wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::bulkhead::{Bulkhead, Entry, Limits, Ticket};
use crate::domain::slug::Slug;
use crate::metrics::{ClusterMetrics, PermitLabels, UnsentLabels};

pub(super) struct Gate {
    state: Mutex<State>,
    metrics: GateMetrics,
    /// Longest wait for a permit.
    patience: Duration,
}

#[derive(Clone, Default)]
pub(super) struct GateMetrics {
    running: Gauge,
    overloaded: Counter,
    silent: Counter,
}

struct State {
    bulkhead: Bulkhead,
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
}

/// The right to run one operation. Dropping it lets the next one in.
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    ticket: Ticket,
    is_answered: AtomicBool,
}

/// Why an operation must not run. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("too many calls wait for the database")]
    Overloaded,
    /// Operations on the same token range get no answer.
    #[error("the database does not answer for the token range of this page")]
    Silent,
}

impl GateMetrics {
    pub(super) fn of(metrics: &ClusterMetrics, operation: &'static str) -> Self {
        let unsent = |reason| metrics.unsent.get_or_create(&UnsentLabels { operation, reason }).clone();
        let running = metrics.in_flight.get_or_create(&PermitLabels { operation }).clone();
        Self { running, overloaded: unsent("no_permit"), silent: unsent("silent") }
    }

    fn refused(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::Overloaded => self.overloaded.inc(),
            Refusal::Silent => self.silent.inc(),
        };
        refusal
    }

    fn show(&self, state: &State) {
        self.running.set(i64::try_from(state.bulkhead.running()).unwrap_or(i64::MAX));
    }
}

impl Gate {
    pub(super) fn new(limits: Limits, patience: Duration) -> Self {
        let state = State { bulkhead: Bulkhead::new(limits), waiting: HashMap::new() };
        Self { state: Mutex::new(state), metrics: GateMetrics::default(), patience }
    }

    pub(super) fn counted_in(self, metrics: GateMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Waits for the permit to run an operation on `slug`, whose token is in `range`.
    pub(super) async fn enter(&self, slug: &Slug, range: u32) -> Result<Pass<'_>, Refusal> {
        let (pass, admitted) = {
            let mut state = self.state.lock();
            match state.bulkhead.enter(Instant::now(), slug, range) {
                Entry::Runs(ticket) => {
                    self.metrics.show(&state);
                    return Ok(self.pass(ticket));
                }
                Entry::Refused => return Err(self.metrics.refused(Refusal::Silent)),
                Entry::Waits(ticket) => {
                    let (admit, admitted) = oneshot::channel();
                    state.waiting.insert(ticket, admit);
                    // The pass exists while its caller waits: dropping it gives the place up if the caller disconnects.
                    (self.pass(ticket), admitted)
                }
            }
        };
        match timeout(self.patience, admitted).await {
            Ok(Ok(())) => Ok(pass),
            _ => Err(self.metrics.refused(Refusal::Overloaded)),
        }
    }

    fn pass(&self, ticket: Ticket) -> Pass<'_> {
        Pass { gate: self, ticket, is_answered: AtomicBool::new(false) }
    }
}

impl Pass<'_> {
    pub(super) fn answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            state.bulkhead.give_up(self.ticket);
            return;
        }
        for ticket in state.bulkhead.leave(Instant::now(), self.ticket, self.is_answered.load(Ordering::Relaxed)) {
            // A caller that has just given up drops its own pass, which lets the next one in.
            if let Some(admit) = state.waiting.remove(&ticket) {
                let _ = admit.send(());
            }
        }
        self.gate.metrics.show(&state);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(250);

    fn gate(permits: usize, share: usize) -> Gate {
        Gate::new(Limits { permits, share, refuses: true }, PATIENCE)
    }

    fn slug(number: u32) -> Slug {
        Slug::parse(&format!("page-{number}-22222222")).unwrap()
    }

    fn is_idle(gate: &Gate) -> bool {
        let state = gate.state.lock();
        state.waiting.is_empty() && state.bulkhead.is_idle()
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_without_a_permit_runs_when_another_ends_or_is_refused_in_time() {
        let gate = gate(1, 1);
        let running = gate.enter(&slug(1), 1).await.unwrap();
        let two = slug(2);
        let mut waiting = Box::pin(gate.enter(&two, 2));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(running);
        let running = waiting.await.unwrap();
        let began = Instant::now();
        assert_eq!(gate.enter(&slug(3), 3).await.err(), Some(Refusal::Overloaded));
        assert!(began.elapsed() >= PATIENCE);
        drop(running);
        assert!(gate.enter(&slug(3), 3).await.is_ok());
        assert!(is_idle(&gate));
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_and_what_is_refused_is_counted_by_its_reason() {
        let metrics = ClusterMetrics::default();
        let gate = gate(1, 1).counted_in(GateMetrics::of(&metrics, "read"));
        let running = || metrics.in_flight.get_or_create(&PermitLabels { operation: "read" }).get();
        let refused = || {
            let of = |reason| metrics.unsent.get_or_create(&UnsentLabels { operation: "read", reason }).get();
            ["no_permit", "silent"].map(of)
        };
        let pass = gate.enter(&slug(1), 1).await.unwrap();
        assert_eq!((running(), refused()), (1, [0, 0]));
        assert_eq!(gate.enter(&slug(2), 2).await.err(), Some(Refusal::Overloaded));
        assert_eq!((running(), refused()), (1, [1, 0]));
        drop(pass);
        assert_eq!(running(), 0);
        for number in 1..=2 {
            let pass = gate.enter(&slug(number), 1).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(pass);
        }
        assert_eq!(gate.enter(&slug(1), 1).await.err(), Some(Refusal::Silent));
        assert_eq!((running(), refused()), (0, [1, 1]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_is_given_up_leaves_nothing_behind() {
        let gate = gate(1, 1);
        let running = gate.enter(&slug(1), 1).await.unwrap();
        let two = slug(2);
        let mut waiting = Box::pin(gate.enter(&two, 2));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        let three = slug(3);
        let mut admitted = Box::pin(gate.enter(&three, 3));
        assert!(admitted.as_mut().now_or_never().is_none());
        drop(running);
        // The operation was admitted, and is dropped before it notices.
        drop(admitted);
        assert!(gate.enter(&slug(4), 4).await.is_ok());
        assert!(is_idle(&gate));
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_a_range_in_which_two_slugs_were_silent_are_refused_at_once() {
        let gate = gate(64, 16);
        for number in 1..=2 {
            let pass = gate.enter(&slug(number), 1).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2500)).await;
            drop(pass);
        }
        assert_eq!(gate.enter(&slug(3), 1).now_or_never().unwrap().err(), Some(Refusal::Silent));
        assert!(gate.enter(&slug(4), 2).await.is_ok(), "another range is asked all the same");
        tokio::time::sleep(Duration::from_millis(250)).await;
        let trying = gate.enter(&slug(3), 1).await.unwrap();
        trying.answered();
        drop(trying);
        assert!(gate.enter(&slug(3), 1).await.is_ok());
    }
}
