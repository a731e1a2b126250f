//! The model of copies of a cluster's ledger that go on from the copy before them.
//!
//! One page, whose head is an atomic register. An owner deletes it, and asks again. Each process may hang or end between any two
//! steps, and its clock is wrong by as much as clocks may be; the clock of the copies is right. The first copy reads the row of the
//! ledger; each later one first reads the lines of the times since the copy before it, and the row only if it finds one.
//! `crates/store-cql/src/ledger_since.rs` and `src/operators/archive/ledger_copy.rs` are the programs that this describes.

use stateright::{Model, Property};

/// The wrongness of the clocks of the first request and of its repeat.
const CLOCKS: [i8; 2] = [-1, 1];

/// How far the time may go on.
const END: i8 = 4;

/// How many copies are made.
const COPIES: u8 = 3;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CopiesWeakening {
    /// The entry is written before its line.
    EntryBeforeLine,
    /// The line is written when the deletion begins, and by nobody else.
    LineWhenBegun,
    /// A line has the deletion's own time.
    LineOfItsTime,
    /// A reader of the ledger enters what it finds by the page without a line.
    ReaderWritesNoLine,
    /// A copy reads no lines of before the copy that it goes on from.
    NothingBefore,
    /// A copy reads no lines of after its own time.
    NothingAfter,
    /// A copy goes on from the end of the one before it, not from its beginning.
    GoesOnFromTheEnd,
    /// A row of which only the line is there counts as not deleted.
    UnenteredPassedOver,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct CopiesModel {
    pub(crate) weakening: Option<CopiesWeakening>,
}

/// The next step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Begin,
    /// The page's head is written.
    Bury,
    /// The ledger is looked at, and if it has the deletion, the owner is answered.
    Look,
    Line,
    Enter,
    Answer,
    End,
}

/// The one who copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Copier {
    Idle,
    /// A copy was begun at this time. It must have the deletion if that was confirmed by then.
    Lines(i8, bool),
    /// The same, and now it reads the row.
    Row(i8, bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: i8,
    /// The time of the deletion, once it was begun.
    begun_at: Option<i8>,
    is_deleted: bool,
    /// The times that have a line, one bit each, from one before the beginning.
    lines: u8,
    is_entered: bool,
    is_confirmed: bool,
    /// The head's write was sent, and nobody waits for it.
    is_sent: bool,
    requests: [Step; CLOCKS.len()],
    copier: Copier,
    copies_left: u8,
    /// The time from which the next copy goes on, and whether the newest one has the deletion.
    newest: Option<(i8, bool)>,
    is_broken: bool,
}

/// A step of anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    Go(usize),
    /// The next step of a request is not answered, and ends it. `true`: it takes effect all the same.
    Fail(usize, bool),
    Late,
    /// Somebody else reads the ledger.
    ReadLedger,
    Copy,
}

const COMPLETE: &str = "a copy has every deletion that was confirmed before it was begun";

impl CopiesModel {
    pub(crate) fn as_it_is() -> [(Self, &'static str); 1] {
        [(Self { weakening: None }, "a deletion and its repeat by wrong clocks, and three copies of the ledger")]
    }

    /// One rule left out, and what then must be found.
    pub(crate) fn weakened() -> Vec<(Self, &'static str)> {
        use CopiesWeakening as W;
        let all = [
            W::EntryBeforeLine,
            W::LineWhenBegun,
            W::LineOfItsTime,
            W::ReaderWritesNoLine,
            W::NothingBefore,
            W::NothingAfter,
            W::GoesOnFromTheEnd,
            W::UnenteredPassedOver,
        ];
        all.into_iter().map(|weakening| (Self { weakening: Some(weakening) }, COMPLETE)).collect()
    }

    fn is_weakened(&self, weakening: CopiesWeakening) -> bool {
        self.weakening == Some(weakening)
    }

    /// Writes a line by a clock that is wrong by `wrong`.
    fn write_line(&self, state: &mut State, wrong: i8) {
        let of_itself = self.is_weakened(CopiesWeakening::LineOfItsTime).then_some(state.begun_at).flatten();
        state.lines |= 1 << (of_itself.unwrap_or(state.now + wrong) + 1);
    }

    /// The next step of a request, which succeeds.
    fn go(&self, state: &mut State, number: usize) -> Option<()> {
        let wrong = CLOCKS[number];
        let entry_first = self.is_weakened(CopiesWeakening::EntryBeforeLine);
        let line_when_begun = self.is_weakened(CopiesWeakening::LineWhenBegun);
        let to_enter = if entry_first || line_when_begun { Step::Enter } else { Step::Line };
        state.requests[number] = match state.requests[number] {
            Step::Begin if state.is_deleted => Step::Look,
            Step::Begin => {
                state.begun_at.get_or_insert(state.now + wrong);
                if line_when_begun {
                    self.write_line(state, wrong);
                }
                Step::Bury
            }
            Step::Bury if state.is_deleted => Step::Look,
            Step::Bury => {
                state.is_deleted = true;
                to_enter
            }
            Step::Look if state.is_entered => Step::Answer,
            Step::Look => to_enter,
            Step::Line => {
                self.write_line(state, wrong);
                if entry_first { Step::Answer } else { Step::Enter }
            }
            Step::Enter => {
                state.is_entered = true;
                if entry_first { Step::Line } else { Step::Answer }
            }
            Step::Answer => {
                state.is_confirmed = true;
                Step::End
            }
            Step::End => return None,
        };
        Some(())
    }

    /// Whether the row says that the page was deleted. A deletion that is found by the page is entered.
    fn read_row(&self, state: &mut State) -> bool {
        if state.is_deleted && !state.is_entered {
            if self.is_weakened(CopiesWeakening::UnenteredPassedOver) {
                return false;
            }
            let writes_none = [CopiesWeakening::ReaderWritesNoLine, CopiesWeakening::LineWhenBegun];
            if !writes_none.iter().any(|&weakening| self.is_weakened(weakening)) {
                self.write_line(state, 0);
            }
            state.is_entered = true;
        }
        state.is_entered
    }

    /// The next step of the copies.
    fn copy(&self, state: &mut State) -> Option<()> {
        match (state.copier, state.newest) {
            (Copier::Idle, _) if state.copies_left == 0 => return None,
            (Copier::Idle, newest) => {
                state.copies_left -= 1;
                let (begun, must) = (state.now, state.is_confirmed);
                state.copier = if newest.is_some() { Copier::Lines(begun, must) } else { Copier::Row(begun, must) };
            }
            (Copier::Lines(begun, must), Some((since, has))) => {
                let from = since - i8::from(!self.is_weakened(CopiesWeakening::NothingBefore));
                let until = begun + i8::from(!self.is_weakened(CopiesWeakening::NothingAfter));
                let finds = (from..=until).any(|time| state.lines & 1 << (time + 1) != 0);
                if finds {
                    state.copier = Copier::Row(begun, must);
                } else {
                    self.finish(state, begun, must, has);
                }
            }
            (Copier::Lines(..), None) => return None,
            (Copier::Row(begun, must), newest) => {
                let had = newest.is_some_and(|(_, has)| has);
                let has = self.read_row(state);
                self.finish(state, begun, must, had || has);
            }
        }
        Some(())
    }

    fn finish(&self, state: &mut State, begun: i8, must: bool, has: bool) {
        let from = if self.is_weakened(CopiesWeakening::GoesOnFromTheEnd) { state.now } else { begun };
        state.newest = Some((from, has));
        state.copier = Copier::Idle;
        state.is_broken |= must && !has;
    }
}

impl Model for CopiesModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            begun_at: None,
            is_deleted: false,
            lines: 0,
            is_entered: false,
            is_confirmed: false,
            is_sent: false,
            requests: [Step::Begin; CLOCKS.len()],
            copier: Copier::Idle,
            copies_left: COPIES,
            newest: None,
            is_broken: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.is_broken {
            return;
        }
        actions.extend([Action::Tick, Action::Late, Action::ReadLedger, Action::Copy]);
        for number in 0..CLOCKS.len() {
            actions.extend([Action::Go(number), Action::Fail(number, false), Action::Fail(number, true)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick if next.now < END => next.now += 1,
            Action::Tick => return None,
            Action::Go(number) => self.go(&mut next, number)?,
            Action::Fail(number, has_effect) => {
                match (next.requests[number], has_effect) {
                    (Step::Bury | Step::Line | Step::Enter, true) => self.go(&mut next, number)?,
                    // It may be decided later, although nobody waits for it.
                    (Step::Bury, false) => next.is_sent = true,
                    (Step::Line | Step::Enter, false) => {}
                    _ => return None,
                }
                next.requests[number] = Step::End;
            }
            Action::Late if next.is_sent => (next.is_sent, next.is_deleted) = (false, true),
            Action::Late => return None,
            Action::ReadLedger => {
                self.read_row(&mut next);
            }
            Action::Copy => self.copy(&mut next)?,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(COMPLETE, |_, state: &State| !state.is_broken)]
    }
}
