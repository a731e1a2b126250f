//! The current states of pages that were read lately, so that a reader can tell without a read whether a cached page is
//! still current.
//!
//! # Why a known state is never stale
//!
//! A state that [`KnownStates::get`] returns is what the database holds at that moment. Four rules see to it. All steps
//! of one slug happen under the lock of its shard, so they have one order.
//!
//! 1. Before a commit can become visible, the writer takes the slugs that the commit may change out of the map, marks
//!    them as *in flux*, and raises the generation of their shards ([`KnownStates::changing`]).
//! 2. After the commit is on disk, and before any caller gets its answer, the writer removes the mark and raises the
//!    generation again (dropping [`Changing`]).
//! 3. A reader notes the generation before it begins to read the database ([`KnownStates::read_begins`]). It adds what
//!    it read only if the generation is still the same and the slug is not in flux ([`KnownStates::learned`]).
//! 4. If the database is replaced, because a commit failed, everything is forgotten and every generation is raised
//!    ([`KnownStates::forget_all`]). The writer keeps its marks until it knows what the file holds.
//!
//! A reader that began before rule 1 or during the flux finds another generation once rule 2 was followed, so it adds
//! nothing old. A reader that adds a state began after the last change was on disk and ended before the next one was
//! marked, so it read the current state. After rule 1 nobody gets the old state from here, so nobody gets it after
//! another reader has seen the new state in the database. Rule 2 comes before the answer, so a reader that begins after
//! the answer does not get the old state either.
//!
//! An insert changes no known state: only pages are known, and the slug had none. A slug is marked for each
//! compare-and-set, whether its condition holds or not.
//!
//! The tests try every order of these steps, and show that leaving out any rule is noticed.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZero;

use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};

use crate::domain::page::PageState;
use crate::domain::slug::Slug;

/// Shards, each with a lock of its own, so that readers of different pages rarely meet.
const SHARDS: usize = 64;

/// States that are kept, in all shards together: more pages than a cache of usual size holds. One takes about 150 bytes.
const MAX_STATES: usize = 32 * 1024;

/// The known states. See the module for the rules.
#[derive(Debug)]
pub(super) struct KnownStates {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug)]
struct Shard {
    /// Raised whenever something that a reader may be reading changes.
    generation: u64,
    /// The slugs that a commit in progress may change. A slug is here once for each of its operations.
    in_flux: Vec<Slug>,
    states: LruCache<Slug, PageState>,
}

/// The generation of a shard when a read began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation(u64);

/// Slugs that a commit may change. Dropping this value ends the flux.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    known: &'a KnownStates,
    slugs: Vec<Slug>,
}

impl KnownStates {
    pub(super) fn new() -> Self {
        Self::with_shards(SHARDS, MAX_STATES / SHARDS)
    }

    fn with_shards(shards: usize, states: usize) -> Self {
        let states = NonZero::new(states).unwrap_or(NonZero::<usize>::MIN);
        let shard = || Mutex::new(Shard { generation: 0, in_flux: Vec::new(), states: LruCache::sparse(states) });
        Self { hasher: RandomState::new(), shards: std::iter::repeat_with(shard).take(shards).collect() }
    }

    /// The state that the database holds for `slug`, if it is known.
    pub(super) fn get(&self, slug: &Slug) -> Option<PageState> {
        self.shard(slug).states.get(slug).copied()
    }

    /// Call this before a read of `slug` begins.
    pub(super) fn read_begins(&self, slug: &Slug) -> Generation {
        Generation(self.shard(slug).generation)
    }

    /// Adds the state that a read found. `began` is from before the read.
    pub(super) fn learned(&self, slug: &Slug, state: PageState, began: Generation) {
        let mut shard = self.shard(slug);
        if shard.generation == began.0 && !shard.in_flux.contains(slug) {
            shard.states.put(slug.clone(), state);
        }
    }

    /// Marks `slugs`, which a commit may change. Call this before the commit can become visible, and drop the result
    /// when it is known what the file holds, before any caller gets its answer.
    pub(super) fn changing(&self, slugs: Vec<Slug>) -> Changing<'_> {
        for slug in &slugs {
            let mut shard = self.shard(slug);
            shard.generation += 1;
            shard.states.pop(slug);
            shard.in_flux.push(slug.clone());
        }
        Changing { known: self, slugs }
    }

    /// Forgets every state, because the database was replaced. Call this while nobody can read the database.
    pub(super) fn forget_all(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.generation += 1;
            shard.states.clear();
        }
    }

    fn shard(&self, slug: &Slug) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hasher.hash_one(slug) >> 32).unwrap_or_default();
        self.shards[hash % self.shards.len()].lock()
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for slug in &self.slugs {
            let mut shard = self.known.shard(slug);
            shard.generation += 1;
            if let Some(at) = shard.in_flux.iter().position(|marked| marked == slug) {
                shard.in_flux.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::page::PageVersion;
    use crate::domain::timestamp::UnixMillis;

    fn slug(letter: char) -> Slug {
        Slug::parse(&format!("page-{}", letter.to_string().repeat(8))).unwrap()
    }

    fn state(version: u64) -> PageState {
        PageState { version: PageVersion::new(version), updated_at: UnixMillis::new(0) }
    }

    /// A rule that the model below leaves out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum LeftOut {
        Nothing,
        /// The writer takes the slug out only after it answered (rule 1).
        BeforeCommit,
        /// The writer takes the slug out but does not mark it, so that a reader may add it during the commit (rule 1).
        Flux,
        /// The writer ends the flux without raising the generation (rule 2).
        SecondRaise,
        /// A reader adds what it read whatever happened meanwhile (rule 3).
        Generation,
        /// The database is replaced and nothing is forgotten (rule 4).
        Forgetting,
    }

    /// One process that reads or writes, as the steps that others can come between.
    #[derive(Clone, Copy, Debug)]
    enum Actor {
        Writer,
        Reader,
        /// Replaces the database by one that lost the last change, which no caller was told of.
        Replacer,
    }

    /// A reader's result: when it began and ended, and the version.
    #[derive(Clone, Copy, Debug)]
    struct Seen {
        began: usize,
        ended: usize,
        version: u64,
    }

    /// A run of the model: a database with one page, and actors that take their steps in the order of a schedule.
    struct Run<'a> {
        left_out: LeftOut,
        known: &'a KnownStates,
        slug: Slug,
        /// The version that a read of the database finds.
        stored: u64,
        acknowledged: Vec<(usize, u64)>,
        seen: Vec<Seen>,
        now: usize,
    }

    /// An actor between two of its steps.
    struct Position<'a> {
        actor: Actor,
        step: usize,
        began: usize,
        changing: Option<Changing<'a>>,
        generation: Option<Generation>,
        read: Option<u64>,
    }

    impl<'a> Run<'a> {
        /// Takes the next step of `at`. Returns whether the actor has further steps.
        fn step(&mut self, at: &mut Position<'a>) -> bool {
            self.now += 1;
            at.step += 1;
            match (at.actor, at.step) {
                (Actor::Writer, 1) => {
                    match self.left_out {
                        LeftOut::BeforeCommit => {}
                        LeftOut::Flux => drop(self.changing()),
                        _ => at.changing = Some(self.changing()),
                    }
                    true
                }
                (Actor::Writer, 2) => {
                    self.stored += 1;
                    at.read = Some(self.stored);
                    true
                }
                (Actor::Writer, 3) => {
                    if at.changing.take().is_some() && self.left_out == LeftOut::SecondRaise {
                        self.known.shard(&self.slug).generation -= 1;
                    }
                    true
                }
                (Actor::Writer, 4) => {
                    self.acknowledged.push((self.now, at.read.unwrap()));
                    self.left_out == LeftOut::BeforeCommit
                }
                (Actor::Writer, _) => {
                    drop(self.changing());
                    false
                }
                (Actor::Reader, 1) => {
                    at.began = self.now;
                    if let Some(known) = self.known.get(&self.slug) {
                        self.saw(at.began, known.version.get());
                        return false;
                    }
                    true
                }
                (Actor::Reader, 2) => {
                    at.generation = Some(self.known.read_begins(&self.slug));
                    true
                }
                (Actor::Reader, 3) => {
                    at.read = Some(self.stored);
                    true
                }
                (Actor::Reader, 4) => {
                    let (version, mut began) = (at.read.unwrap(), at.generation.unwrap());
                    if self.left_out == LeftOut::Generation {
                        began = self.known.read_begins(&self.slug);
                    }
                    self.known.learned(&self.slug, state(version), began);
                    true
                }
                (Actor::Reader, _) => {
                    self.saw(at.began, at.read.unwrap());
                    false
                }
                (Actor::Replacer, _) => {
                    // The last change is lost, and no caller was told of it.
                    let told = self.acknowledged.iter().map(|&(_, version)| version).max().unwrap_or(1);
                    self.stored = told;
                    if self.left_out != LeftOut::Forgetting {
                        self.known.forget_all();
                    }
                    false
                }
            }
        }

        fn changing(&self) -> Changing<'a> {
            self.known.changing(vec![self.slug.clone()])
        }

        fn saw(&mut self, began: usize, version: u64) {
            self.seen.push(Seen { began, ended: self.now, version });
        }

        /// Whether one of three things is wrong: a reader saw an older version than an earlier reader; a reader saw an
        /// older version than the one acknowledged before it began; the database does not hold the known version.
        fn is_wrong(&self, may_lose: bool) -> bool {
            let known = self.known.get(&self.slug).is_some_and(|known| known.version.get() != self.stored);
            let told =
                |seen: &Seen| self.acknowledged.iter().any(|&(at, version)| at < seen.began && seen.version < version);
            let backwards = |seen: &Seen| {
                self.seen.iter().any(|earlier| earlier.ended < seen.began && seen.version < earlier.version)
            };
            known || self.seen.iter().any(|seen| told(seen) || (!may_lose && backwards(seen)))
        }
    }

    /// Tries every order of the steps of `actors`, up to the first that goes wrong. Returns how many were tried and how
    /// many went wrong.
    fn explore(actors: &[Actor], left_out: LeftOut) -> (usize, usize) {
        let (mut runs, mut wrong) = (0, 0);
        let is_replaced = actors.iter().any(|actor| matches!(actor, Actor::Replacer));
        // Each schedule says which of the actors with steps left is next. Schedules are counted up like numbers.
        let mut schedule: Vec<(usize, usize)> = Vec::new();
        loop {
            let known = KnownStates::with_shards(1, 4);
            let mut run = Run {
                left_out,
                known: &known,
                slug: slug('b'),
                // The second version is not acknowledged, so it may be lost.
                stored: if is_replaced { 2 } else { 1 },
                acknowledged: Vec::new(),
                seen: Vec::new(),
                now: 0,
            };
            let mut left: Vec<_> = actors
                .iter()
                .map(|&actor| Position { actor, step: 0, began: 0, changing: None, generation: None, read: None })
                .collect();
            let mut depth = 0;
            while !left.is_empty() {
                if depth == schedule.len() {
                    schedule.push((0, left.len()));
                }
                let next = schedule[depth].0;
                if !run.step(&mut left[next]) {
                    left.remove(next);
                }
                depth += 1;
            }
            runs += 1;
            wrong += usize::from(run.is_wrong(is_replaced));
            if wrong > 0 {
                return (runs, wrong);
            }
            while let Some((next, choices)) = schedule.pop() {
                if next + 1 < choices {
                    schedule.push((next + 1, choices));
                    break;
                }
            }
            if schedule.is_empty() {
                return (runs, wrong);
            }
        }
    }

    #[test]
    fn in_no_order_of_steps_is_a_known_state_stale() {
        let (runs, wrong) = explore(&[Actor::Writer, Actor::Reader, Actor::Reader], LeftOut::Nothing);
        assert!(runs > 10_000, "{runs}");
        assert_eq!(wrong, 0);
        let (runs, wrong) = explore(&[Actor::Writer, Actor::Writer, Actor::Reader], LeftOut::Nothing);
        assert!(runs > 1000, "{runs}");
        assert_eq!(wrong, 0);
    }

    #[test]
    fn in_no_order_of_steps_is_a_state_known_that_a_replaced_database_does_not_hold() {
        let (runs, wrong) = explore(&[Actor::Reader, Actor::Reader, Actor::Replacer], LeftOut::Nothing);
        assert!(runs > 100, "{runs}");
        assert_eq!(wrong, 0);
    }

    #[test]
    fn leaving_out_any_rule_is_noticed() {
        let both = [Actor::Writer, Actor::Reader, Actor::Reader];
        let replaced = [Actor::Reader, Actor::Reader, Actor::Replacer];
        for (actors, left_out) in [
            (both, LeftOut::BeforeCommit),
            (both, LeftOut::Flux),
            (both, LeftOut::SecondRaise),
            (both, LeftOut::Generation),
            (replaced, LeftOut::Forgetting),
        ] {
            let (runs, wrong) = explore(&actors, left_out);
            assert!(wrong > 0, "{left_out:?} went unnoticed in {runs} runs");
        }
    }

    #[test]
    fn what_is_not_read_lately_is_forgotten() {
        let known = KnownStates::with_shards(1, 2);
        for letter in ['b', 'c', 'd'] {
            known.learned(&slug(letter), state(1), known.read_begins(&slug(letter)));
        }
        assert_eq!(known.get(&slug('b')), None);
        assert_eq!((known.get(&slug('c')), known.get(&slug('d'))), (Some(state(1)), Some(state(1))));
    }

    #[test]
    fn a_slug_stays_in_flux_until_the_last_of_its_operations_is_done() {
        let known = KnownStates::new();
        let first = known.changing(vec![slug('b')]);
        let second = known.changing(vec![slug('b'), slug('c')]);
        drop(first);
        known.learned(&slug('b'), state(1), known.read_begins(&slug('b')));
        assert_eq!(known.get(&slug('b')), None);
        drop(second);
        known.learned(&slug('b'), state(2), known.read_begins(&slug('b')));
        assert_eq!(known.get(&slug('b')), Some(state(2)));
    }
}
