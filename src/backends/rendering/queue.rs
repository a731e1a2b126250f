//! Decides whose text is rendered next. A state machine without threads and without time.
//!
//! Writes come first, then the service's own work, then previews. Among those who wait for the same reason, each client
//! has one turn in a round, so that a client with many texts delays its own.

use std::collections::BTreeMap;

use handbill_core::domain::client::Client;
use handbill_core::ports::renderer::Purpose;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many have their turn at once.
    pub(super) at_once: usize,
    /// The memory that they may take together.
    pub(super) budget_bytes: usize,
    /// How many writes may wait, and how many previews. A quarter of either may be of one client.
    pub(super) waiting: usize,
}

/// Those who wait for a turn, each with a `T` to call them by.
pub(super) struct Queue<T> {
    limits: Limits,
    free_turns: usize,
    free_bytes: usize,
    /// In the order of their turns.
    waiting: BTreeMap<Ticket, (Option<Client>, T)>,
    /// The round of the last turn for each reason.
    rounds: [u64; 3],
    last_number: u64,
}

/// A place among those who wait or have their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    reason: usize,
    round: u64,
    number: u64,
    bytes: usize,
}

impl Ticket {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<T> Queue<T> {
    pub(super) fn new(limits: Limits) -> Self {
        let Limits { at_once, budget_bytes, .. } = limits;
        let waiting = BTreeMap::new();
        Self { limits, free_turns: at_once, free_bytes: budget_bytes, waiting, rounds: [0; 3], last_number: 0 }
    }

    /// Adds somebody whose turn takes `bytes` of memory; `None` if too many wait already.
    pub(super) fn join(&mut self, purpose: Purpose, bytes: usize, call: T) -> Option<Ticket> {
        let (reason, client) = match purpose {
            Purpose::Write(client) => (0, Some(client)),
            Purpose::Upkeep => (1, None),
            Purpose::Preview(client) => (2, Some(client)),
        };
        let (mut all, mut own, mut last_round) = (0, 0, self.rounds[reason]);
        for (place, (other, _)) in self.waiting.iter().filter(|(place, _)| place.reason == reason) {
            all += 1;
            if *other == client {
                (own, last_round) = (own + 1, place.round);
            }
        }
        if client.is_some() && (all >= self.limits.waiting || own >= self.limits.waiting / 4) {
            return None;
        }
        self.last_number += 1;
        // Even a text that needs more than there is has its turn, alone.
        let bytes = bytes.min(self.limits.budget_bytes);
        let place = Ticket { reason, round: last_round + 1, number: self.last_number, bytes };
        self.waiting.insert(place, (client, call));
        Some(place)
    }

    /// Removes whoever has `place`, and ends their turn if it has come.
    pub(super) fn leave(&mut self, place: Ticket) {
        if self.waiting.remove(&place).is_none() {
            self.free_turns += 1;
            self.free_bytes += place.bytes;
        }
    }

    /// Ends the turn of whoever has `place`. Its result takes `kept` bytes, until they are given back.
    pub(super) fn end_turn(&mut self, place: Ticket, kept: usize) {
        self.free_turns += 1;
        self.free_bytes += place.bytes - kept;
    }

    pub(super) fn give_back(&mut self, kept: usize) {
        self.free_bytes += kept;
    }

    pub(super) fn next(&mut self) -> Option<T> {
        let (&place, _) = self.waiting.first_key_value()?;
        // A text that needs much memory is not overtaken, or its turn might never come.
        if self.free_turns == 0 || place.bytes > self.free_bytes {
            return None;
        }
        self.free_turns -= 1;
        self.free_bytes -= place.bytes;
        self.rounds[place.reason] = place.round;
        self.waiting.remove(&place).map(|(_, call)| call)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const LIMITS: Limits = Limits { at_once: 1, budget_bytes: 100, waiting: 8 };

    fn client(number: u8) -> Client {
        Client::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, number)))
    }

    fn write(number: u8) -> Purpose {
        Purpose::Write(client(number))
    }

    fn preview(number: u8) -> Purpose {
        Purpose::Preview(client(number))
    }

    /// A queue, and everybody who has joined it.
    struct Crowd {
        queue: Queue<usize>,
        members: Vec<(&'static str, Ticket)>,
    }

    impl Crowd {
        fn new(limits: Limits) -> Self {
            Self { queue: Queue::new(limits), members: Vec::new() }
        }

        /// A queue in which somebody has the only turn.
        fn behind_one() -> Self {
            let mut crowd = Self::new(LIMITS);
            assert!(crowd.join(preview(200), 1, "first"));
            assert_eq!(crowd.next(), Some("first"));
            crowd
        }

        fn join(&mut self, purpose: Purpose, bytes: usize, name: &'static str) -> bool {
            let place = self.queue.join(purpose, bytes, self.members.len());
            self.members.extend(place.map(|place| (name, place)));
            place.is_some()
        }

        fn next(&mut self) -> Option<&'static str> {
            self.queue.next().map(|member| self.members[member].0)
        }

        fn leave(&mut self, name: &str) {
            let (_, place) = self.members.iter().find(|(other, _)| *other == name).unwrap();
            self.queue.leave(*place);
        }

        /// Those who wait behind the first, in the order of their turns.
        fn order(mut self) -> Vec<&'static str> {
            self.leave("first");
            let mut called = Vec::new();
            while let Some(member) = self.queue.next() {
                assert_eq!(self.queue.free_turns, 0);
                called.push(self.members[member].0);
                self.queue.leave(self.members[member].1);
            }
            assert!(self.queue.waiting.is_empty());
            assert_eq!((self.queue.free_turns, self.queue.free_bytes), (LIMITS.at_once, LIMITS.budget_bytes));
            called
        }
    }

    #[test]
    fn writes_come_before_the_services_own_work_and_that_before_previews() {
        let mut crowd = Crowd::behind_one();
        for (purpose, name) in [
            (preview(1), "preview 1"),
            (Purpose::Upkeep, "upkeep 1"),
            (write(1), "write 1"),
            (preview(2), "preview 2"),
            (Purpose::Upkeep, "upkeep 2"),
            (write(2), "write 2"),
        ] {
            assert!(crowd.join(purpose, 1, name));
        }
        assert_eq!(crowd.order(), ["write 1", "write 2", "upkeep 1", "upkeep 2", "preview 1", "preview 2"]);
    }

    #[test]
    fn clients_take_turns_and_the_texts_of_one_keep_their_order() {
        let mut crowd = Crowd::behind_one();
        for (number, name) in [(1, "a1"), (1, "a2"), (2, "b1"), (3, "c1"), (3, "c2")] {
            assert!(crowd.join(preview(number), 1, name));
        }
        crowd.leave("first");
        assert_eq!(crowd.next(), Some("a1"));
        // A newcomer comes after those of the same round who wait already.
        assert!(crowd.join(preview(4), 1, "d1"));
        crowd.leave("a1");
        let mut rest = Vec::new();
        while let Some(name) = crowd.next() {
            rest.push(name);
            crowd.leave(name);
        }
        assert_eq!(rest, ["b1", "c1", "a2", "c2", "d1"]);
    }

    #[test]
    fn a_bounded_number_waits_for_each_client_and_in_all_and_writes_have_places_of_their_own() {
        let mut crowd = Crowd::behind_one();
        for purpose in [preview, write] {
            for number in 1..=4 {
                assert!(crowd.join(purpose(number), 1, "one") && crowd.join(purpose(number), 1, "two"));
                assert!(!crowd.join(purpose(number), 1, "one too many of this client"));
            }
            assert!(!crowd.join(purpose(5), 1, "one too many in all"));
        }
        for _ in 0..100 {
            assert!(crowd.join(Purpose::Upkeep, 1, "upkeep"));
        }
        assert_eq!(crowd.order().len(), 2 * LIMITS.waiting + 100);
    }

    #[test]
    fn those_who_leave_are_not_called_and_free_their_place() {
        let mut crowd = Crowd::behind_one();
        for name in ["a1", "a2"] {
            assert!(crowd.join(preview(1), 1, name));
        }
        assert!(!crowd.join(preview(1), 1, "a3"));
        crowd.leave("a1");
        assert!(crowd.join(preview(1), 1, "a3"));
        assert_eq!(crowd.order(), ["a2", "a3"]);
    }

    #[test]
    fn turns_are_bounded_in_number() {
        let mut crowd = Crowd::new(Limits { at_once: 2, ..LIMITS });
        for (number, name) in [(1, "a"), (2, "b"), (3, "c")] {
            assert!(crowd.join(write(number), 1, name));
        }
        assert_eq!([crowd.next(), crowd.next(), crowd.next()], [Some("a"), Some("b"), None]);
        crowd.leave("a");
        assert_eq!(crowd.next(), Some("c"));
    }

    #[test]
    fn turns_are_bounded_in_bytes_and_a_large_text_is_not_overtaken() {
        let mut crowd = Crowd::new(Limits { at_once: 9, ..LIMITS });
        for (number, bytes, name) in [(1, 60, "a"), (2, 50, "b"), (3, 1, "c")] {
            assert!(crowd.join(write(number), bytes, name));
        }
        assert_eq!([crowd.next(), crowd.next()], [Some("a"), None]);
        crowd.leave("a");
        assert_eq!([crowd.next(), crowd.next()], [Some("b"), Some("c")]);
    }

    #[test]
    fn a_text_that_needs_more_than_there_is_has_its_turn_alone() {
        let mut crowd = Crowd::new(Limits { at_once: 9, ..LIMITS });
        assert!(crowd.join(write(1), 1000, "a") && crowd.join(write(2), 1, "b"));
        assert_eq!([crowd.next(), crowd.next()], [Some("a"), None]);
        crowd.leave("a");
        assert_eq!(crowd.next(), Some("b"));
    }
}
