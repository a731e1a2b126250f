//! How long a replica may write after it has read the fence: a state machine with time as an argument.
//!
//! A lease begins with the **beginning** of the read that grants it: the row may have changed while the answer was on its
//! way. A move of the fence first closes it for everybody, then waits until every lease has ended and every write that was
//! sent within one is done, and opens it for the other side only then.

use std::time::Duration;

use scylla::DeserializeRow;
use thiserror::Error;
use tokio::time::Instant;

/// How long a replica may write after the beginning of its last successful read of the fence. Several reads may fail
/// meanwhile.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Longest time after the end of its lease at which a write may still be done. It is longer than the store waits for an
/// attempt, and longer than the servers work on one (2 s, and 1 s of contention, by their defaults).
pub(crate) const LATE_WRITES: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, DeserializeRow)]
pub(crate) struct FenceRow {
    /// The datacentre whose replicas may write; `None` while the fence is closed.
    pub(crate) datacenter: Option<String>,
    pub(crate) epoch: i64,
    /// The datacentre to which a move has begun. While another one writes, each write is confirmed by both.
    pub(crate) moving_to: Option<String>,
}

/// Why a replica may not write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fenced {
    #[error("the fence could not be read within the last {} s", LEASE.as_secs())]
    Unread,
    /// By the fence, or since the keyspace has copies nowhere else.
    #[error("pages are written in the datacentre {0}, and this replica uses another")]
    Elsewhere(String),
    #[error("the fence is moving to the datacentre {0}; if no `handbill failover` runs, run it again")]
    Moving(String),
    #[error("there is no fence: run `handbill migrate`")]
    Missing,
}

/// A replica's knowledge of the fence.
#[derive(Debug)]
pub(super) struct Lease {
    datacenter: String,
    /// Until when it may write.
    until: Option<Instant>,
    /// Whether a planned move has begun and not ended, by the last row that was read.
    confirms: bool,
    epoch: i64,
    /// Why it may not write if it has no lease.
    reason: Fenced,
}

impl Lease {
    /// The lease of a replica of `datacenter` that has not read the fence.
    pub(super) fn new(datacenter: &str) -> Self {
        Self {
            datacenter: datacenter.to_owned(),
            until: None,
            confirms: false,
            epoch: i64::MIN,
            reason: Fenced::Unread,
        }
    }

    pub(super) fn found(&mut self, began: Instant, row: Option<FenceRow>) {
        let Some(FenceRow { datacenter, epoch, moving_to }) = row else {
            (self.until, self.reason) = (None, Fenced::Missing);
            return;
        };
        // A row that is older than one read before says nothing about the present.
        if epoch < self.epoch {
            return;
        }
        self.epoch = epoch;
        // Also once the fence is closed: what was sent before may only be answered then, and nothing is copied after it.
        self.confirms = moving_to.is_some();
        (self.until, self.reason) = match datacenter {
            Some(name) if name == self.datacenter => (Some(began + LEASE), Fenced::Unread),
            Some(name) => (None, Fenced::Elsewhere(name)),
            None => (None, Fenced::Moving(moving_to.unwrap_or_default())),
        };
    }

    /// The keyspace has copies in `datacenter` alone, so nobody else could write, whatever the row says.
    pub(super) fn found_alone(&mut self, began: Instant, datacenter: String) {
        self.confirms = false;
        (self.until, self.reason) = if datacenter == self.datacenter {
            (Some(began + LEASE), Fenced::Unread)
        } else {
            (None, Fenced::Elsewhere(datacenter))
        };
    }

    /// Whether a write may be sent at `now`.
    pub(super) fn check(&self, now: Instant) -> Result<(), Fenced> {
        match self.until {
            Some(until) if now < until => Ok(()),
            _ => Err(self.reason.clone()),
        }
    }

    /// Whether a write is acknowledged only once a quorum of each datacentre has it.
    pub(super) fn confirms(&self) -> bool {
        self.confirms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(datacenter: &str, epoch: i64) -> FenceRow {
        FenceRow { datacenter: Some(datacenter.to_owned()), epoch, moving_to: None }
    }

    fn moving(epoch: i64) -> FenceRow {
        FenceRow { datacenter: None, epoch, moving_to: Some("east".to_owned()) }
    }

    #[test]
    fn a_replica_writes_only_while_its_last_successful_read_began_less_than_a_lease_ago() {
        let (began, mut lease) = (Instant::now(), Lease::new("west"));
        assert_eq!(lease.check(began), Err(Fenced::Unread));
        lease.found(began, Some(open("west", 1)));
        assert_eq!(lease.check(began), Ok(()));
        assert_eq!(lease.check(began + LEASE.checked_sub(Duration::from_nanos(1)).unwrap()), Ok(()));
        assert_eq!(lease.check(began + LEASE), Err(Fenced::Unread));
        lease.found(began + LEASE, Some(open("west", 1)));
        assert_eq!(lease.check(began + LEASE), Ok(()));
    }

    #[test]
    fn a_fence_that_is_elsewhere_moving_or_missing_ends_the_lease_at_once() {
        let (began, mut lease) = (Instant::now(), Lease::new("west"));
        for (row, reason) in [
            (Some(moving(2)), Fenced::Moving("east".to_owned())),
            (Some(open("east", 3)), Fenced::Elsewhere("east".to_owned())),
            (None, Fenced::Missing),
        ] {
            lease.found(began, Some(open("west", 1)));
            lease.found(began, row);
            assert_eq!(lease.check(began), Err(reason));
        }
    }

    #[test]
    fn while_a_move_copies_the_old_side_writes_and_confirms_in_each_datacentre_until_the_move_ends() {
        let (began, mut lease) = (Instant::now(), Lease::new("west"));
        let copying = |epoch| FenceRow { moving_to: Some("east".to_owned()), ..open("west", epoch) };
        for (row, confirms) in
            [(open("west", 1), false), (copying(2), true), (moving(3), true), (open("west", 4), false)]
        {
            lease.found(began, Some(row));
            assert_eq!(lease.confirms(), confirms);
        }
        lease.found(began, Some(copying(5)));
        assert_eq!(lease.check(began), Ok(()));
        let mut of_the_new_side = Lease::new("east");
        of_the_new_side.found(began, Some(copying(5)));
        assert_eq!(of_the_new_side.check(began), Err(Fenced::Elsewhere("west".to_owned())));
        lease.found_alone(began, "west".to_owned());
        assert!(!lease.confirms(), "there is nobody else");
    }

    #[test]
    fn alone_a_datacentre_writes_whatever_the_row_said_and_a_second_one_begins_with_what_the_row_says() {
        let (began, mut lease) = (Instant::now(), Lease::new("west"));
        lease.found(began, None);
        lease.found_alone(began, "west".to_owned());
        assert_eq!(lease.check(began), Ok(()));
        assert_eq!(lease.check(began + LEASE), Err(Fenced::Unread));
        lease.found(began, Some(moving(2)));
        assert_eq!(lease.check(began), Err(Fenced::Moving("east".to_owned())));
        let mut of_the_second = Lease::new("east");
        of_the_second.found_alone(began, "west".to_owned());
        assert_eq!(of_the_second.check(began), Err(Fenced::Elsewhere("west".to_owned())));
    }

    #[test]
    fn a_row_that_is_older_than_one_that_was_read_gives_no_lease() {
        let (began, mut lease) = (Instant::now(), Lease::new("west"));
        lease.found(began, Some(open("east", 3)));
        lease.found(began, Some(open("west", 1)));
        assert_eq!(lease.check(began), Err(Fenced::Elsewhere("east".to_owned())));
        lease.found(began, Some(open("west", 5)));
        assert_eq!(lease.check(began), Ok(()));
    }
}
