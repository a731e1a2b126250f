//! A deadline that wakes its task.

use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Default)]
pub(super) struct Timer {
    until: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Whether `until` has passed; if not, the task of `cx` is woken when `until` passes.
    pub(super) fn has_passed(&mut self, until: Option<Instant>, cx: &mut Context<'_>) -> bool {
        if self.until != until {
            self.until = until;
            match (until, &mut self.sleep) {
                (Some(until), Some(sleep)) => sleep.as_mut().reset(until),
                (Some(until), None) => self.sleep = Some(Box::pin(sleep_until(until))),
                (None, _) => self.sleep = None,
            }
        }
        self.sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready())
    }
}
