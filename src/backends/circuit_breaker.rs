//! A circuit breaker for the reads of one slug: when the next shared read may begin. It is a state machine that gets the
//! time as an argument.
//!
//! * At most two reads of a slug are in flight: one that may hang, and a fresh one that begins when the first has been
//!   silent for [`SILENT_AFTER`].
//! * Once several readers gather, reads begin at least [`PACE`] apart, so that a hot page costs a bounded number of reads.
//! * If the second has no answer after [`HUNG_AFTER`] either, the partition is sick until a read is answered. Readers are
//!   then refused at once, so that they neither queue nor hold memory. Every [`REFUSED_FOR`] one read begins as a trial,
//!   unless two hang.

use std::time::Duration;

use tokio::time::Instant;

/// A read without an answer after this time is silent. The next read begins although it is still running, so one hung
/// read delays later lookups by at most this much.
pub(super) const SILENT_AFTER: Duration = Duration::from_millis(100);

/// Two reads hang if the second has no answer after this time: far longer than a slow disk or database takes.
pub(super) const HUNG_AFTER: Duration = Duration::from_secs(1);

/// Least time between the beginnings of two reads that several readers share.
const PACE: Duration = Duration::from_millis(5);

/// Number of waiting readers from which on reads are paced.
const SEVERAL: usize = 4;

/// How long readers of a sick partition are refused before one read is tried.
const REFUSED_FOR: Duration = Duration::from_millis(250);

/// Reads of one slug in flight.
const MOST_IN_FLIGHT: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Begin,
    Refuse,
    /// Ask again at this time, or when a read has ended or a reader has come.
    WaitUntil(Instant),
    /// Ask again when a read has ended or a reader has come. If no read is in flight, there is nothing to remember.
    Wait,
}

#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    /// When the reads in flight began, the oldest first.
    in_flight: Vec<Instant>,
    last_begun: Option<Instant>,
    /// When the next trial may begin; `None` if the partition is not sick.
    next_try: Option<Instant>,
}

impl CircuitBreaker {
    /// The next step at `now`, while `readers` wait for a read that has not begun.
    pub(super) fn next(&mut self, now: Instant, readers: usize) -> Next {
        let is_full = self.in_flight.len() == MOST_IN_FLIGHT;
        let patience = if is_full { HUNG_AFTER } else { SILENT_AFTER };
        let given_up_at = self.in_flight.last().map(|began| *began + patience);
        if is_full && self.next_try.is_none() && given_up_at.is_some_and(|at| at <= now) {
            self.next_try = Some(now + REFUSED_FOR);
        }
        match (readers, self.next_try, given_up_at) {
            (0, Some(at), _) if at > now => Next::WaitUntil(at),
            (0, ..) => Next::Wait,
            (_, Some(at), _) if is_full || at > now => Next::Refuse,
            (_, Some(_), _) => Next::Begin,
            (_, None, Some(at)) if at > now => Next::WaitUntil(at),
            _ => match self.last_begun.map(|began| began + PACE) {
                Some(paced) if readers >= SEVERAL && paced > now => Next::WaitUntil(paced),
                _ => Next::Begin,
            },
        }
    }

    pub(super) fn began(&mut self, now: Instant) {
        self.in_flight.push(now);
        self.last_begun = Some(now);
        self.next_try = self.next_try.map(|_| now + REFUSED_FOR);
    }

    /// The read that began at `began` has ended. `answered` says whether the store has answered it.
    pub(super) fn ended(&mut self, began: Instant, now: Instant, answered: bool) {
        if let Some(at) = self.in_flight.iter().position(|read| *read == began) {
            self.in_flight.remove(at);
        }
        self.next_try = if answered { None } else { self.next_try.map(|_| now + REFUSED_FOR) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_read_begins_at_once_and_the_next_when_it_has_ended_or_is_silent() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        assert_eq!(breaker.next(start, 1), Next::Begin);
        breaker.began(start);
        assert_eq!(breaker.next(start, 0), Next::Wait);
        assert_eq!(breaker.next(start, 1), Next::WaitUntil(start + SILENT_AFTER));
        assert_eq!(breaker.next(start + SILENT_AFTER, 1), Next::Begin);
        breaker.ended(start, start + Duration::from_millis(1), true);
        assert_eq!(breaker.next(start + Duration::from_millis(1), 1), Next::Begin);
    }

    #[test]
    fn reads_that_several_share_are_paced_and_those_of_few_are_not() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        breaker.began(start);
        let soon = start + Duration::from_millis(1);
        breaker.ended(start, soon, true);
        assert_eq!(breaker.next(soon, SEVERAL - 1), Next::Begin);
        assert_eq!(breaker.next(soon, SEVERAL), Next::WaitUntil(start + PACE));
        assert_eq!(breaker.next(start + PACE, 1000), Next::Begin);
    }

    #[test]
    fn readers_of_a_partition_that_hangs_twice_are_refused_at_once_until_it_answers() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        let second = start + SILENT_AFTER;
        breaker.began(start);
        breaker.began(second);
        assert_eq!(breaker.next(second, 1), Next::WaitUntil(second + HUNG_AFTER));
        let silent = second + HUNG_AFTER;
        assert_eq!(breaker.next(silent, 1), Next::Refuse);
        assert_eq!(breaker.next(silent + REFUSED_FOR * 4, 1), Next::Refuse, "both still hang");
        // One fails, so the partition is still sick.
        let failed = silent + REFUSED_FOR * 5;
        breaker.next(failed, 0);
        breaker.ended(start, failed, false);
        assert_eq!(breaker.next(failed + REFUSED_FOR / 2, 1), Next::Refuse);
        assert_eq!(breaker.next(failed + REFUSED_FOR, 1), Next::Begin);
        // The other answers.
        breaker.ended(second, failed + REFUSED_FOR, true);
        assert_eq!(breaker.next(failed + REFUSED_FOR, 1), Next::Begin);
    }

    #[test]
    fn a_sick_partition_is_tried_again_every_quarter_of_a_second_and_others_are_refused_meanwhile() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        breaker.began(start);
        breaker.began(start + SILENT_AFTER);
        let silent = start + SILENT_AFTER + HUNG_AFTER;
        assert_eq!(breaker.next(silent, 1), Next::Refuse);
        breaker.ended(start, silent, false);
        breaker.ended(start + SILENT_AFTER, silent, false);
        let mut now = silent;
        for _ in 0..3 {
            assert_eq!(breaker.next(now, 1), Next::Refuse);
            now += REFUSED_FOR;
            assert_eq!(breaker.next(now, 1), Next::Begin);
            breaker.began(now);
            assert_eq!(breaker.next(now, 1000), Next::Refuse, "one tries");
            breaker.ended(now, now + SILENT_AFTER, false);
            now += SILENT_AFTER;
        }
        assert_eq!(breaker.next(now, 0), Next::WaitUntil(now + REFUSED_FOR));
        assert_eq!(breaker.next(now + REFUSED_FOR, 0), Next::Wait, "nobody asks for it any more");
        breaker.began(now + REFUSED_FOR);
        breaker.ended(now + REFUSED_FOR, now + REFUSED_FOR, true);
        assert_eq!(breaker.next(now + REFUSED_FOR, 1), Next::Begin);
    }

    proptest! {
        #[test]
        fn no_slug_has_more_than_two_reads_in_flight(
            steps in prop::collection::vec((0_u64..200, 0_usize..10, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let (mut breaker, mut now) = (CircuitBreaker::default(), Instant::now());
            for (millis, readers, ends, answered) in steps {
                now += Duration::from_millis(millis);
                if ends && let Some(began) = breaker.in_flight.first().copied() {
                    breaker.ended(began, now, answered);
                }
                if breaker.next(now, readers) == Next::Begin {
                    prop_assert!(readers > 0);
                    breaker.began(now);
                }
                prop_assert!(breaker.in_flight.len() <= 2);
            }
        }
    }
}
