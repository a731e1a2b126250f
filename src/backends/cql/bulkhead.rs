//! Which operations may run at once: a state machine that gets the time as an argument.
//!
//! * A fixed number of operations run at once. Further ones wait, in the order of their arrival.
//! * No slug and no token range has more than its share of the permits. So a page that everybody wants, or a partition
//!   that does not answer, leaves the permits of all other pages alone. An operation that waits for its share does not
//!   hold up those behind it. The share holds even if nobody else waits: a permit cannot be taken back from an operation
//!   that hangs.
//! * An operation without an answer for a while is silent. After two silent operations in a row on one slug, further
//!   operations on it are refused at once for a while. Silent operations on two slugs of a range have the same effect
//!   on the whole range. At the end of each while one operation is admitted as a trial, until one is answered.
//!
//! A range is one of [`RANGES`] equal parts of the partitioner's tokens. The tablets of a table are ranges too, and their
//! number is a power of two, so a range has whole tablets, or is a part of one.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::slug::Slug;

/// How many ranges there are: enough that one of them has a small part of the pages.
pub(super) const RANGES: u32 = 64;

/// The range that has `token`.
pub(super) fn range_of(token: i64) -> u32 {
    let from_the_lowest = token.cast_unsigned() ^ (1 << 63);
    u32::try_from(from_the_lowest >> (u64::BITS - RANGES.trailing_zeros())).unwrap_or_default()
}

/// Silent operations in a row after which a slug counts as sick, and slugs with such operations after which a range does.
const SILENT: usize = 2;

/// Number of slugs without a running operation that are remembered because they were sick. If there are more, those
/// whose time is over are forgotten.
const REMEMBERED: usize = 1024;

/// How operations share the permits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many operations run at once.
    pub(super) permits: usize,
    /// How many of them may belong to one slug, or to one range.
    pub(super) share: usize,
    /// When an operation without an answer counts as silent; `None` if nothing is ever refused.
    pub(super) silence: Option<Silence>,
}

/// The times of a [`Bulkhead`] that refuses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// An operation without an answer after this time is silent.
    pub(super) after: Duration,
    /// How long operations are refused, and how often one is let in to try.
    pub(super) refused_for: Duration,
}

/// The number of an operation.
pub(super) type Ticket = u64;

/// The answer to an operation that wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It runs.
    Runs(Ticket),
    /// It waits until another leaves.
    Waits(Ticket),
    /// Its slug or range is sick.
    Refused,
}

/// A group of operations with a share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Slug(Slug),
    Range(u32),
}

/// The operations of a part.
#[derive(Debug, Default)]
struct PartState {
    running: Vec<Running>,
    /// The slugs of operations that have ended in silence since the last answer, at most [`SILENT`].
    ended_silently: Vec<Slug>,
    /// When the last answer came. Operations that began before that answer say nothing about the present.
    answered_at: Option<Instant>,
    /// When the next trial is admitted; `None` if the part is not sick.
    next_try: Option<Instant>,
}

#[derive(Debug)]
struct Running {
    ticket: Ticket,
    began: Instant,
    slug: Slug,
}

struct Operation {
    began: Instant,
    parts: [Part; 2],
}

/// All operations that run or wait.
pub(super) struct Bulkhead {
    limits: Limits,
    last_ticket: Ticket,
    running: HashMap<Ticket, Operation>,
    waiting: VecDeque<(Ticket, [Part; 2])>,
    parts: HashMap<Part, PartState>,
}

impl PartState {
    fn is_full(&self, limits: &Limits) -> bool {
        self.running.len() >= limits.share
    }

    /// Whether an operation that arrives at `now` is refused.
    fn refuses(&mut self, part: &Part, now: Instant, silence: &Silence) -> bool {
        if self.next_try.is_none() && self.is_sick(part, now, silence) {
            self.next_try = Some(now + silence.refused_for);
        }
        self.next_try.is_some_and(|at| at > now)
    }

    fn is_sick(&self, part: &Part, now: Instant, silence: &Silence) -> bool {
        let is_silent = |running: &&Running| {
            now.duration_since(running.began) >= silence.after
                && self.answered_at.is_none_or(|answered| answered < running.began)
        };
        let mut silent = self.running.iter().filter(is_silent).map(|running| &running.slug).chain(&self.ended_silently);
        match part {
            Part::Slug(_) => silent.count() >= SILENT,
            Part::Range(_) => silent.next().is_some_and(|first| silent.any(|slug| slug != first)),
        }
    }

    fn ended_silently(&mut self, slug: Slug) {
        let is_known = self.ended_silently.contains(&slug);
        match self.ended_silently.len() {
            SILENT.. if is_known => {}
            // One slug may have filled the list; a second slug must get in, because two make a range sick.
            SILENT.. => self.ended_silently[0] = slug,
            _ => self.ended_silently.push(slug),
        }
    }

    /// An operation of a sick part is admitted as a trial.
    fn tries(&mut self, now: Instant, silence: &Silence) {
        if self.next_try.is_some() {
            self.next_try = Some(now + silence.refused_for);
        }
    }

    /// Whether there is nothing to remember at `now`.
    fn is_over(&self, now: Instant) -> bool {
        self.running.is_empty() && self.ended_silently.is_empty() && self.next_try.is_none_or(|at| at <= now)
    }
}

impl Bulkhead {
    pub(super) fn new(limits: Limits) -> Self {
        let (running, waiting, parts) = (HashMap::new(), VecDeque::new(), HashMap::new());
        Self { limits, last_ticket: 0, running, waiting, parts }
    }

    /// An operation on `slug`, whose token is in `range`, wants to begin at `now`.
    pub(super) fn enter(&mut self, now: Instant, slug: &Slug, range: u32) -> Entry {
        let parts = [Part::Slug(slug.clone()), Part::Range(range)];
        if let Some(silence) = self.limits.silence {
            if self.parts.len() > REMEMBERED {
                self.parts.retain(|_, state| !state.running.is_empty() || state.next_try.is_some_and(|at| at > now));
            }
            // Both are asked, so that both notice silence.
            let refused = parts
                .each_ref()
                .map(|part| self.parts.get_mut(part).is_some_and(|state| state.refuses(part, now, &silence)));
            if refused.contains(&true) {
                return Entry::Refused;
            }
            for part in &parts {
                if let Some(state) = self.parts.get_mut(part) {
                    state.tries(now, &silence);
                }
            }
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        if self.has_room(&parts) {
            self.run(now, ticket, parts);
            Entry::Runs(ticket)
        } else {
            self.waiting.push_back((ticket, parts));
            Entry::Waits(ticket)
        }
    }

    /// The operation with `ticket` ends at `now`. `is_answered` says whether the database has answered it. Returns the
    /// operations that run from now on.
    pub(super) fn leave(&mut self, now: Instant, ticket: Ticket, is_answered: bool) -> Vec<Ticket> {
        let Some(Operation { began, parts }) = self.running.remove(&ticket) else { return Vec::new() };
        let is_silent =
            !is_answered && self.limits.silence.is_some_and(|silence| now.duration_since(began) >= silence.after);
        for part in parts {
            let Some(state) = self.parts.get_mut(&part) else { continue };
            let ended = state.running.iter().position(|running| running.ticket == ticket);
            let ended = ended.map(|at| state.running.remove(at));
            if is_answered {
                (state.ended_silently, state.next_try, state.answered_at) = (Vec::new(), None, Some(now));
            } else if let Some(ended) = ended.filter(|_| is_silent) {
                state.ended_silently(ended.slug);
            }
            if state.is_over(now) {
                self.parts.remove(&part);
            }
        }
        let mut admitted = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() && self.running.len() < self.limits.permits {
            if !self.has_room(&self.waiting[at].1) {
                at += 1;
            } else if let Some((ticket, parts)) = self.waiting.remove(at) {
                self.run(now, ticket, parts);
                admitted.push(ticket);
            }
        }
        admitted
    }

    /// The operation with `ticket` does not wait any longer.
    pub(super) fn give_up(&mut self, ticket: Ticket) {
        self.waiting.retain(|(waiting, _)| *waiting != ticket);
    }

    /// How many operations run.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether no operation runs or waits.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    fn has_room(&self, parts: &[Part; 2]) -> bool {
        let is_full = |part| self.parts.get(part).is_some_and(|state| state.is_full(&self.limits));
        self.running.len() < self.limits.permits && !parts.iter().any(is_full)
    }

    fn run(&mut self, now: Instant, ticket: Ticket, parts: [Part; 2]) {
        if let Part::Slug(slug) = &parts[0] {
            for part in &parts {
                let running = Running { ticket, began: now, slug: slug.clone() };
                self.parts.entry(part.clone()).or_default().running.push(running);
            }
        }
        self.running.insert(ticket, Operation { began: now, parts });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SILENCE: Silence = Silence { after: Duration::from_secs(1), refused_for: Duration::from_millis(250) };
    const LIMITS: Limits = Limits { permits: 64, share: 16, silence: Some(SILENCE) };

    fn slug(number: u32) -> Slug {
        Slug::parse(&format!("page-{number}-22222222")).unwrap()
    }

    fn runs(entry: Entry) -> Ticket {
        let Entry::Runs(ticket) = entry else { panic!("{entry:?}") };
        ticket
    }

    fn waits(entry: Entry) -> Ticket {
        let Entry::Waits(ticket) = entry else { panic!("{entry:?}") };
        ticket
    }

    #[test]
    fn ranges_are_equal_parts_of_all_tokens_in_their_order() {
        assert_eq!([i64::MIN, -1, 0, i64::MAX].map(range_of), [0, RANGES / 2 - 1, RANGES / 2, RANGES - 1]);
        let width = 1_i64 << 58;
        assert_eq!([i64::MIN + width - 1, i64::MIN + width].map(range_of), [0, 1]);
    }

    #[test]
    fn a_slug_has_at_most_its_share_and_others_go_past_those_that_wait_for_it() {
        let (mut bulkhead, now) = (Bulkhead::new(LIMITS), Instant::now());
        let first = runs(bulkhead.enter(now, &slug(1), 1));
        for _ in 1..16 {
            runs(bulkhead.enter(now, &slug(1), 1));
        }
        let waiting = waits(bulkhead.enter(now, &slug(1), 1));
        runs(bulkhead.enter(now, &slug(2), 2));
        assert_eq!(bulkhead.leave(now, first, true), [waiting]);
    }

    #[test]
    fn a_range_has_at_most_its_share_however_many_slugs_it_has() {
        let (mut bulkhead, now) = (Bulkhead::new(LIMITS), Instant::now());
        for number in 0..16 {
            runs(bulkhead.enter(now, &slug(number), 7));
        }
        waits(bulkhead.enter(now, &slug(100), 7));
        runs(bulkhead.enter(now, &slug(101), 8));
    }

    #[test]
    fn operations_run_in_the_order_of_their_arrival_and_one_that_gave_up_gets_no_permit() {
        let (mut bulkhead, now) = (Bulkhead::new(Limits { permits: 2, share: 2, silence: None }), Instant::now());
        let [one, two] = [0, 1].map(|number| runs(bulkhead.enter(now, &slug(number), number)));
        let [third, fourth, fifth] = [2, 3, 4].map(|number| waits(bulkhead.enter(now, &slug(number), number)));
        bulkhead.give_up(third);
        assert_eq!(bulkhead.leave(now, one, true), [fourth]);
        assert_eq!(bulkhead.leave(now, two, true), [fifth]);
        assert!(bulkhead.leave(now, third, true).is_empty(), "it does not run");
        assert!(bulkhead.leave(now, fourth, true).is_empty());
        bulkhead.leave(now, fifth, true);
        assert!(bulkhead.is_idle() && bulkhead.parts.is_empty());
    }

    #[test]
    fn after_two_silent_reads_a_slug_is_refused_at_once_and_tried_again_every_quarter_of_a_second_until_it_answers() {
        let (mut bulkhead, start) = (Bulkhead::new(LIMITS), Instant::now());
        let first = runs(bulkhead.enter(start, &slug(1), 1));
        runs(bulkhead.enter(start, &slug(1), 2));
        let almost = start + SILENCE.after.mul_f64(0.9);
        let third = runs(bulkhead.enter(almost, &slug(1), 3));
        let silent = start + SILENCE.after;
        assert_eq!(bulkhead.enter(silent, &slug(1), 4), Entry::Refused);
        runs(bulkhead.enter(silent, &slug(2), 4));
        let again = silent + SILENCE.refused_for;
        assert_eq!(bulkhead.enter(again - Duration::from_millis(1), &slug(1), 4), Entry::Refused);
        runs(bulkhead.enter(again, &slug(1), 4));
        assert_eq!(bulkhead.enter(again, &slug(1), 4), Entry::Refused, "one tries");
        let later = again + SILENCE.refused_for;
        runs(bulkhead.enter(later, &slug(1), 4));
        bulkhead.leave(later, first, false);
        assert_eq!(bulkhead.enter(later, &slug(1), 4), Entry::Refused);
        bulkhead.leave(later, third, true);
        for range in 5..8 {
            runs(bulkhead.enter(later + Duration::from_millis(1), &slug(1), range));
        }
    }

    #[test]
    fn after_silent_reads_of_two_slugs_a_range_is_refused_whatever_the_slug() {
        let (mut bulkhead, start) = (Bulkhead::new(LIMITS), Instant::now());
        let end = start + SILENCE.after * 2;
        for number in [1, 1, 2] {
            runs(bulkhead.enter(end, &slug(3), 9));
            let ticket = runs(bulkhead.enter(start, &slug(100 + number), 9));
            bulkhead.leave(end, ticket, false);
        }
        assert_eq!(bulkhead.enter(end, &slug(4), 9), Entry::Refused);
        runs(bulkhead.enter(end, &slug(4), 10));
    }

    #[test]
    fn reads_that_fail_soon_or_are_answered_late_make_nothing_sick() {
        let (mut bulkhead, start) = (Bulkhead::new(LIMITS), Instant::now());
        for (took, is_answered) in [(Duration::from_millis(10), false), (SILENCE.after * 2, true)] {
            for _ in 0..10 {
                let ticket = runs(bulkhead.enter(start, &slug(1), 1));
                bulkhead.leave(start + took, ticket, is_answered);
            }
        }
        runs(bulkhead.enter(start + SILENCE.after * 3, &slug(1), 1));
    }

    #[test]
    fn without_silence_nothing_is_refused() {
        let (mut bulkhead, start) = (Bulkhead::new(Limits { silence: None, ..LIMITS }), Instant::now());
        for seconds in 0..16 {
            runs(bulkhead.enter(start + Duration::from_secs(seconds), &slug(1), 1));
        }
    }

    /// Three hot slugs whose reads never end, and readers of other pages whose reads take 2 ms, for two seconds. Returns how
    /// many of the others were refused or still wait at the end.
    fn failures_beside_three_hung_slugs(limits: Limits) -> usize {
        let (mut bulkhead, start) = (Bulkhead::new(limits), Instant::now());
        let mut ending: VecDeque<Ticket> = VecDeque::new();
        let (mut waiting, mut failures): (Vec<Ticket>, usize) = (Vec::new(), 0);
        for millis in 0..2000_u32 {
            let now = start + Duration::from_millis(millis.into());
            for hung in 0..3 {
                if millis % 10 == 0 {
                    bulkhead.enter(now, &slug(hung), hung);
                }
            }
            match bulkhead.enter(now, &slug(10 + millis % 500), 3 + millis % 61) {
                Entry::Runs(ticket) => ending.push_back(ticket),
                Entry::Waits(ticket) => waiting.push(ticket),
                Entry::Refused => failures += 1,
            }
            if ending.len() > 2
                && let Some(ticket) = ending.pop_front()
            {
                let admitted = bulkhead.leave(now, ticket, true);
                ending.extend(admitted.iter().filter(|ticket| waiting.contains(ticket)));
                waiting.retain(|ticket| !admitted.contains(ticket));
            }
        }
        failures + waiting.len()
    }

    #[test]
    fn three_hot_slugs_on_a_hung_partition_cost_no_other_reader_anything() {
        assert_eq!(failures_beside_three_hung_slugs(LIMITS), 0);
        // The test sees the fault that the shares are there for.
        assert!(failures_beside_three_hung_slugs(Limits { share: 64, silence: None, ..LIMITS }) > 1000);
    }

    proptest! {
        #[test]
        fn neither_the_permits_nor_a_share_is_ever_exceeded_and_whoever_has_room_runs(
            steps in prop::collection::vec((0_u32..6, 0_u32..3, 0_u64..400, any::<bool>(), 0_usize..20), 1..300),
        ) {
            let limits = Limits { permits: 8, share: 2, silence: Some(SILENCE) };
            let (mut bulkhead, mut now) = (Bulkhead::new(limits), Instant::now());
            for (number, range, millis, is_answered, leaving) in steps {
                now += Duration::from_millis(millis);
                bulkhead.enter(now, &slug(number), range);
                let mut running: Vec<Ticket> = bulkhead.running.keys().copied().collect();
                running.sort_unstable();
                if let Some(ticket) = running.get(leaving) {
                    bulkhead.leave(now, *ticket, is_answered);
                }
                prop_assert!(bulkhead.running.len() <= limits.permits);
                for state in bulkhead.parts.values() {
                    prop_assert!(state.running.len() <= limits.share);
                }
                for (_, parts) in &bulkhead.waiting {
                    prop_assert!(!bulkhead.has_room(parts), "it waits although there is room");
                }
            }
        }
    }
}
