//! Decides whose text is rendered next. A state machine without threads and without time.
//!
//! Writes come first, then the service's own work, then previews. Among those who wait for the same reason, clients have
//! one turn each, so that a client with many texts delays its own.

use std::collections::VecDeque;

use crate::domain::subject::Requester;
use crate::ports::renderer::Purpose;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many have their turn at once.
    pub(super) at_once: usize,
    /// The memory that they may take together.
    pub(super) budget_bytes: usize,
    /// How many writes may wait, and how many previews.
    pub(super) waiting: usize,
    /// How many writes of one client may wait, and how many previews.
    pub(super) waiting_per_client: usize,
}

/// Those who wait for a turn, each with a `T` to call them by.
pub(super) struct Queue<T> {
    limits: Limits,
    free_turns: usize,
    /// The budget that is left.
    free_bytes: usize,
    /// One for each reason. Nobody has a turn while somebody waits in a line before theirs.
    lines: [Line<T>; 3],
    last_number: u64,
}

/// Those who wait for one reason.
struct Line<T> {
    /// The clients in the order of their turns, each with its own texts in the order of their arrival.
    clients: VecDeque<(Option<Requester>, VecDeque<Waiter<T>>)>,
    waiting: usize,
}

struct Waiter<T> {
    number: u64,
    bytes: usize,
    call: T,
}

/// A place among those who wait.
#[derive(Clone, Copy)]
pub(super) struct Place {
    purpose: Purpose,
    number: u64,
}

impl<T> Queue<T> {
    pub(super) fn new(limits: Limits) -> Self {
        let lines = [const { Line { clients: VecDeque::new(), waiting: 0 } }; 3];
        Self { limits, free_turns: limits.at_once, free_bytes: limits.budget_bytes, lines, last_number: 0 }
    }

    /// Adds somebody whose turn takes `bytes` of memory; `None` if too many wait already.
    pub(super) fn join(&mut self, purpose: Purpose, bytes: usize, call: T) -> Option<Place> {
        let (line, client) = split(purpose);
        let Limits { waiting, waiting_per_client, budget_bytes, .. } = self.limits;
        let line = &mut self.lines[line];
        let at = line.clients.iter().position(|(other, _)| *other == client);
        let own = at.map_or(0, |at| line.clients[at].1.len());
        if client.is_some() && (line.waiting >= waiting || own >= waiting_per_client) {
            return None;
        }
        self.last_number += 1;
        // Even a text that needs more than there is has its turn, alone.
        let waiter = Waiter { number: self.last_number, bytes: bytes.min(budget_bytes), call };
        match at {
            Some(at) => line.clients[at].1.push_back(waiter),
            None => line.clients.push_back((client, VecDeque::from([waiter]))),
        }
        line.waiting += 1;
        Some(Place { purpose, number: self.last_number })
    }

    /// Removes whoever has `place`, unless their turn has come.
    pub(super) fn leave(&mut self, place: Place) {
        let (line, client) = split(place.purpose);
        let line = &mut self.lines[line];
        let Some(at) = line.clients.iter().position(|(other, _)| *other == client) else { return };
        let own = &mut line.clients[at].1;
        let before = own.len();
        own.retain(|waiter| waiter.number != place.number);
        line.waiting -= before - own.len();
        if own.is_empty() {
            line.clients.remove(at);
        }
    }

    /// The next whose turn it is, and the bytes that must be given back after it.
    pub(super) fn next(&mut self) -> Option<(T, usize)> {
        let line = self.lines.iter_mut().find(|line| line.waiting > 0)?;
        let first = line.clients.front()?.1.front()?;
        // A text that needs much memory is not overtaken, or its turn might never come.
        if self.free_turns == 0 || first.bytes > self.free_bytes {
            return None;
        }
        let (client, mut own) = line.clients.pop_front()?;
        let Waiter { bytes, call, .. } = own.pop_front()?;
        if !own.is_empty() {
            line.clients.push_back((client, own));
        }
        line.waiting -= 1;
        self.free_turns -= 1;
        self.free_bytes -= bytes;
        Some((call, bytes))
    }

    /// Ends a turn. Its bytes are given back by themselves.
    pub(super) fn end_turn(&mut self) {
        self.free_turns += 1;
    }

    /// Gives back memory, of a turn or of what came out of it.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.free_bytes += bytes;
    }
}

/// The line of `purpose`, and the client that waits in it.
fn split(purpose: Purpose) -> (usize, Option<Requester>) {
    match purpose {
        Purpose::Write(requester) => (0, Some(requester)),
        Purpose::Upkeep => (1, None),
        Purpose::Preview(requester) => (2, Some(requester)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::domain::client::Client;
    use crate::domain::subject::Subject;

    const LIMITS: Limits = Limits { at_once: 1, budget_bytes: 100, waiting: 8, waiting_per_client: 4 };

    fn client(number: u8) -> Requester {
        Client::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, number))).into()
    }

    fn write(number: u8) -> Purpose {
        Purpose::Write(client(number))
    }

    fn preview(number: u8) -> Purpose {
        Purpose::Preview(client(number))
    }

    /// A queue in which somebody has the only turn, which takes `bytes`.
    fn taken(limits: Limits, bytes: usize) -> Queue<&'static str> {
        let mut queue = Queue::new(limits);
        queue.join(preview(200), bytes, "first").unwrap();
        assert_eq!(queue.next(), Some(("first", bytes)));
        queue
    }

    fn end<T>(queue: &mut Queue<T>, bytes: usize) {
        queue.end_turn();
        queue.give_back(bytes);
    }

    /// Those who wait, in the order of their turns.
    fn order<T>(mut queue: Queue<T>, taken_bytes: usize) -> Vec<T> {
        end(&mut queue, taken_bytes);
        let mut called = Vec::new();
        while let Some((call, bytes)) = queue.next() {
            assert_eq!(queue.free_turns, 0);
            called.push(call);
            end(&mut queue, bytes);
        }
        assert!(queue.lines.iter().all(|line| line.waiting == 0 && line.clients.is_empty()));
        assert_eq!((queue.free_turns, queue.free_bytes), (queue.limits.at_once, queue.limits.budget_bytes));
        called
    }

    #[test]
    fn writes_come_before_the_services_own_work_and_that_before_previews() {
        let mut queue = taken(LIMITS, 1);
        for (purpose, name) in [
            (preview(1), "preview 1"),
            (Purpose::Upkeep, "upkeep 1"),
            (write(1), "write 1"),
            (preview(2), "preview 2"),
            (Purpose::Upkeep, "upkeep 2"),
            (write(2), "write 2"),
        ] {
            queue.join(purpose, 1, name).unwrap();
        }
        assert_eq!(order(queue, 1), ["write 1", "write 2", "upkeep 1", "upkeep 2", "preview 1", "preview 2"]);
    }

    #[test]
    fn clients_take_turns_and_the_texts_of_one_keep_their_order() {
        let mut queue = taken(LIMITS, 1);
        for (number, name) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (3, "c2")] {
            queue.join(preview(number), 1, name).unwrap();
        }
        assert_eq!(order(queue, 1), ["a1", "b1", "c1", "a2", "c2", "a3"]);
    }

    #[test]
    fn those_who_share_an_address_are_clients_of_their_own_if_they_are_believed() {
        let mut queue = taken(LIMITS, 1);
        let subject = |name| Purpose::Write(Requester { subject: Subject::named(name), ..client(1) });
        for (purpose, name) in
            [(subject("ada"), "a1"), (subject("ada"), "a2"), (subject("bob"), "b1"), (write(1), "c1")]
        {
            queue.join(purpose, 1, name).unwrap();
        }
        assert_eq!(order(queue, 1), ["a1", "b1", "c1", "a2"]);
    }

    #[test]
    fn a_bounded_number_waits_for_each_client_and_in_all_and_writes_have_places_of_their_own() {
        let mut queue = taken(LIMITS, 1);
        for number in 1..=2 {
            for _ in 0..LIMITS.waiting_per_client {
                queue.join(preview(number), 1, "preview").unwrap();
            }
            assert!(queue.join(preview(number), 1, "one too many of this client").is_none());
        }
        assert!(queue.join(preview(3), 1, "one too many in all").is_none());
        for number in 1..=2 {
            for _ in 0..LIMITS.waiting_per_client {
                queue.join(write(number), 1, "write").unwrap();
            }
        }
        assert!(queue.join(write(3), 1, "one too many in all").is_none());
        for _ in 0..100 {
            queue.join(Purpose::Upkeep, 1, "upkeep").unwrap();
        }
        assert_eq!(order(queue, 1).len(), 2 * LIMITS.waiting + 100);
    }

    #[test]
    fn those_who_leave_are_not_called_and_free_their_place() {
        let mut queue = taken(LIMITS, 1);
        let places: Vec<_> =
            (0..LIMITS.waiting_per_client).map(|_| queue.join(preview(1), 1, "left").unwrap()).collect();
        let other = queue.join(preview(2), 1, "left").unwrap();
        for place in places.into_iter().chain([other]) {
            queue.leave(place);
            // Leaving twice is leaving once.
            queue.leave(place);
        }
        queue.join(preview(1), 1, "stayed").unwrap();
        assert_eq!(order(queue, 1), ["stayed"]);
    }

    #[test]
    fn turns_are_bounded_in_number() {
        let mut queue = Queue::new(Limits { at_once: 2, ..LIMITS });
        for name in ["a", "b", "c"] {
            queue.join(write(1), 1, name).unwrap();
        }
        assert_eq!([queue.next(), queue.next(), queue.next()], [Some(("a", 1)), Some(("b", 1)), None]);
        end(&mut queue, 1);
        assert_eq!(queue.next(), Some(("c", 1)));
    }

    #[test]
    fn turns_are_bounded_in_bytes_and_a_large_text_is_not_overtaken() {
        let mut queue = Queue::new(Limits { at_once: 9, ..LIMITS });
        for (bytes, name) in [(60, "a"), (50, "b"), (1, "c")] {
            queue.join(write(bytes), usize::from(bytes), name).unwrap();
        }
        assert_eq!([queue.next(), queue.next()], [Some(("a", 60)), None]);
        end(&mut queue, 60);
        assert_eq!([queue.next(), queue.next()], [Some(("b", 50)), Some(("c", 1))]);
    }

    #[test]
    fn what_came_out_of_a_turn_counts_towards_the_budget_until_it_is_given_back() {
        let mut queue = Queue::new(Limits { at_once: 9, ..LIMITS });
        queue.join(write(1), 80, "a").unwrap();
        queue.join(write(2), 60, "b").unwrap();
        assert_eq!([queue.next(), queue.next()], [Some(("a", 80)), None]);
        queue.end_turn();
        queue.give_back(30);
        assert_eq!(queue.next(), None, "50 bytes are still in use");
        queue.give_back(10);
        assert_eq!(queue.next(), Some(("b", 60)));
    }

    #[test]
    fn a_text_that_needs_more_than_there_is_has_its_turn_alone() {
        let mut queue = Queue::new(Limits { at_once: 9, ..LIMITS });
        queue.join(write(1), 1000, "a").unwrap();
        queue.join(write(2), 1, "b").unwrap();
        assert_eq!([queue.next(), queue.next()], [Some(("a", 100)), None]);
    }
}
