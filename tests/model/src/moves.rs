//! The model of several `handbill failover` at the same time: what each reads, changes and awaits, step by step.
//!
//! It has no clock, which the model in [`super::fence`] has. A command that waits does so until nothing is left of before: each
//! lease and each write that was sent carries the marks of the commands which have begun to wait since, and a wait ends once all
//! that has its mark is over. Until then leases last as long as they like. A replica remembers no epoch, and any one row is
//! enough for it, so it does more than a real one. Whether a write is confirmed, it decides when the answer has come.
//!
//! A row is what `SERIAL` sees, and what a quorum of each side shows. Planned commands change the first; the sides show it later.
//! A forced one changes only what its own side shows. `SERIAL` sees that too if all copies of that side have it, or the other side
//! shows it. Otherwise `SERIAL` may miss it, since a quorum may be all copies of the other side and one that lacks the change; that
//! is [`MovesModel::misses`]. If two values of a row differ, the later one wins, whatever its epoch.
//!
//! Operators keep the rules of the runbook. Before a forced move the other side's replicas are stopped, and all other commands ended.
//! Those replicas start again after a planned command that was begun when all others had ended, and a repair.

mod commands;

use stateright::{Model, Property};

use self::commands::Step;

/// The rows of the fence. The others of the five would do as the second does.
const ROWS: usize = 2;

/// A side: the one that writes at the start, and the other.
const SIDES: [usize; 2] = [WEST, EAST];
const WEST: usize = 0;
const EAST: usize = 1;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MovesWeakening {
    /// The first row is written without a condition.
    WrittenWithoutCondition,
    /// A command whose change is refused makes it from the row that it then finds.
    WentOnAfterRefusal,
    /// The second command changes the rows in the opposite order.
    OppositeOrder,
    /// A change keeps the epoch that it finds.
    EpochKept,
    /// The other rows are written without a condition.
    FollowedWithoutCondition,
    /// A change counts before each side shows it.
    ShownNotAwaited,
    /// A command that finds the fence closed does not wait, as if the one that has closed it had waited.
    WaitOfAnother,
    /// A command that finds a move begun closes the fence at once, as if the one that has begun it had copied the pages.
    CopyOfAnother,
    /// A write that was sent while pages were copied is not confirmed if the fence was closed before its answer came.
    ClosedConfirmsNothing,
    /// A command believes what `SERIAL` has read, and does not read what each side shows.
    SidesNotAsked,
    /// Another command goes on while a side is forced, and `SERIAL` misses that.
    ForcedBesideAnother,
}

/// A run of `handbill failover`.
#[derive(Clone, Copy, Debug)]
struct Command {
    to: usize,
    is_forced: bool,
    /// It begins once all others have ended.
    is_last: bool,
}

const fn planned(to: usize) -> Command {
    Command { to, is_forced: false, is_last: false }
}

const fn forced(to: usize) -> Command {
    Command { is_forced: true, ..planned(to) }
}

const fn last(to: usize) -> Command {
    Command { is_last: true, ..planned(to) }
}

/// Several commands, and what replicas write beside them.
#[derive(Clone, Debug)]
pub(crate) struct MovesModel {
    commands: &'static [Command],
    /// How often each side's replica writes, at most.
    writes: u8,
    /// How often the answer to a change of the first row is lost.
    faults: u8,
    /// Whether `SERIAL` may miss a forced change.
    misses: bool,
    pub(crate) weakening: Option<MovesWeakening>,
}

/// A row of the fence. Rows with the same `time` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    time: u8,
    epoch: u8,
    writes: Option<usize>,
    moving_to: Option<usize>,
}

impl Row {
    /// Whether both say the same, which is all that a command can see.
    fn says(&self, other: &Self) -> bool {
        (self.epoch, self.writes, self.moving_to) == (other.epoch, other.writes, other.moving_to)
    }
}

fn newest(one: Row, other: Row) -> Row {
    if other.time > one.time { other } else { one }
}

/// A row as its readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Copies {
    serial: Row,
    shown: [Row; 2],
}

/// A write that is under way, or the right to send one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lease {
    /// The commands that have begun to wait since.
    marks: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Replica {
    lease: Option<Lease>,
    /// By the row that it has read last, a write is acknowledged only once both sides have it.
    confirms: bool,
    sent: Option<Lease>,
    left: u8,
    is_stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Operator {
    step: Step,
    /// The first row as it has made it last.
    own: Row,
    /// It has copied the pages while each write was confirmed by both sides.
    has_copied: bool,
}

/// The state of both sides and of all commands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    rows: [Copies; ROWS],
    replicas: [Replica; 2],
    operators: Vec<Operator>,
    clock: u8,
    faults: u8,
    /// The writes that each side has, those that were acknowledged, and those that a forced move may lose: a bit each.
    data: [u8; 2],
    acknowledged: u8,
    excused: u8,
    broken: Option<&'static str>,
}

/// A step of anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// A side's quorum shows the newest of a row.
    Show(usize, usize),
    Read(usize, usize),
    Send(usize),
    Done(usize),
    /// A command's next step; whether its quorum has the newest of a row.
    Operate(usize, bool),
    /// The same, for a change of the first row whose answer is lost; whether it reached the servers.
    Lose(usize, bool),
    /// A command ends early.
    End(usize),
    /// The replicas of a side that was lost start, after the runbook's repair.
    StartAgain(usize),
}

const ONE_SIDE: &str = "no side may write, or has a write under way, while the other may or has";
const NOTHING_LOST: &str = "a side that may write has every acknowledged write but those that the lost side alone had";
const LEFT_THERE: &str = "when a move is answered each row shows it, or a later one, on each side";

impl MovesModel {
    fn with(commands: &'static [Command]) -> Self {
        Self { commands, writes: 1, faults: 0, misses: false, weakening: None }
    }

    /// The commands as they are.
    pub(crate) fn as_it_is() -> Vec<(Self, &'static str)> {
        let missing = |commands| Self { misses: true, ..Self::with(commands) };
        vec![
            (
                Self { writes: 2, faults: 1, ..Self::with(TO_EAST_TWICE) },
                "two moves to one side at once, one lost answer",
            ),
            (
                Self { writes: 2, faults: 1, ..Self::with(THERE_AND_BACK) },
                "a move and one back at once, one lost answer",
            ),
            (Self::with(THREE), "two moves to one side and one back, all at once"),
            (Self::with(FORCED_THERE), "a forced move beside a planned one, and one back after both"),
            (Self::with(FORCED_AGAINST), "a forced move beside a planned one away, and one back after both"),
            (Self::with(FORCED_UP), "a move given up by force while it goes on, and another after both"),
            (Self::with(FORCED_AMONG), "a forced move beside two planned ones, and one back after all"),
            (missing(FORCED_THERE), "a forced move that SERIAL misses, from any point of a planned one, and one back"),
            (
                missing(FORCED_AGAINST),
                "a forced move that SERIAL misses, from any point of a planned one away, and one back",
            ),
            (missing(FORCED_UP), "a move given up by force that SERIAL misses, and another after it"),
            (
                missing(FORCED_AMONG),
                "a forced move that SERIAL misses, from any point of two planned ones, and one back",
            ),
        ]
    }

    /// The commands with one rule left out, and what then must be found.
    pub(crate) fn weakened() -> Vec<(Self, &'static str)> {
        use MovesWeakening::{
            ClosedConfirmsNothing, CopyOfAnother, EpochKept, FollowedWithoutCondition, ForcedBesideAnother,
            OppositeOrder, ShownNotAwaited, SidesNotAsked, WaitOfAnother, WentOnAfterRefusal, WrittenWithoutCondition,
        };
        let of = |commands, weakening| Self { weakening: Some(weakening), ..Self::with(commands) };
        vec![
            (of(THERE_AND_BACK, WrittenWithoutCondition), NOTHING_LOST),
            (of(THERE_AND_BACK, WentOnAfterRefusal), NOTHING_LOST),
            (of(THERE_AND_BACK, OppositeOrder), ONE_SIDE),
            (of(THERE_AND_BACK, EpochKept), NOTHING_LOST),
            (of(THERE_AND_BACK, FollowedWithoutCondition), ONE_SIDE),
            (of(THERE_AND_BACK, ShownNotAwaited), LEFT_THERE),
            (of(THERE_AND_BACK, ClosedConfirmsNothing), NOTHING_LOST),
            (of(TO_EAST_TWICE, WaitOfAnother), ONE_SIDE),
            (of(TO_EAST_TWICE, CopyOfAnother), NOTHING_LOST),
            (Self { misses: true, ..of(FORCED_THERE, SidesNotAsked) }, ONE_SIDE),
            (Self { misses: true, ..of(FORCED_UP, SidesNotAsked) }, NOTHING_LOST),
            (Self { misses: true, ..of(FORCED_THERE, ForcedBesideAnother) }, ONE_SIDE),
            (Self { misses: true, ..of(FORCED_UP, ForcedBesideAnother) }, NOTHING_LOST),
        ]
    }

    fn is_weakened(&self, weakening: MovesWeakening) -> bool {
        self.weakening == Some(weakening)
    }

    fn has_forced(&self) -> bool {
        self.commands.iter().any(|command| command.is_forced)
    }

    /// Whether a side that was lost may start: a planned command that began after the forced one has been answered.
    fn may_start_again(&self, state: &State) -> bool {
        let mut commands = self.commands.iter().zip(&state.operators);
        commands.any(|(command, operator)| command.is_last && operator.step == Step::Answered)
    }
}

const TO_EAST_TWICE: &[Command] = &[planned(EAST), planned(EAST)];
const THERE_AND_BACK: &[Command] = &[planned(EAST), planned(WEST)];
const THREE: &[Command] = &[planned(EAST), planned(WEST), planned(EAST)];
const FORCED_THERE: &[Command] = &[forced(EAST), planned(EAST), last(WEST)];
const FORCED_AGAINST: &[Command] = &[forced(EAST), planned(WEST), last(WEST)];
const FORCED_UP: &[Command] = &[forced(WEST), planned(EAST), last(EAST)];
const FORCED_AMONG: &[Command] = &[forced(EAST), planned(EAST), planned(WEST), last(WEST)];

impl Model for MovesModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = Row { time: 1, epoch: 1, writes: Some(WEST), moving_to: None };
        let replica = Replica { lease: None, confirms: false, sent: None, left: self.writes, is_stopped: false };
        let operator = Operator { step: Step::Start, own: row, has_copied: false };
        vec![State {
            rows: [Copies { serial: row, shown: [row; 2] }; ROWS],
            replicas: [replica; 2],
            operators: vec![operator; self.commands.len()],
            clock: 1,
            faults: self.faults,
            data: [0; 2],
            acknowledged: 0,
            excused: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for side in SIDES {
            actions.extend((0..ROWS).flat_map(|row| [Action::Show(row, side), Action::Read(row, side)]));
            actions.extend([Action::Send(side), Action::Done(side), Action::StartAgain(side)]);
        }
        for index in 0..self.commands.len() {
            actions.push(Action::Operate(index, true));
            if self.misses {
                actions.push(Action::Operate(index, false));
            }
            // One that takes no further step is the same, if nobody asks whether it has ended.
            if self.commands.iter().any(|command| command.is_last) {
                actions.push(Action::End(index));
            }
            if state.faults > 0 {
                actions.extend([true, false].map(|is_sent| Action::Lose(index, is_sent)));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Show(row, side) => {
                let copies = &mut next.rows[row];
                copies.shown[side] = newest(copies.serial, newest(copies.shown[WEST], copies.shown[EAST]));
                if copies.shown[WEST] == copies.shown[EAST] {
                    copies.serial = copies.shown[WEST];
                }
            }
            Action::Read(row, side) => {
                let (shown, other) = (state.rows[row].shown[side], state.replicas[1 - side]);
                let replica = &mut next.replicas[side];
                if replica.is_stopped {
                    return None;
                }
                replica.lease = (shown.writes == Some(side)).then_some(Lease { marks: 0 });
                let closed = shown.writes.is_none() && self.is_weakened(MovesWeakening::ClosedConfirmsNothing);
                replica.confirms = shown.moving_to.is_some() && !closed;
                if replica.lease.is_some() && (other.lease.is_some() || other.sent.is_some()) {
                    next.broken = Some(ONE_SIDE);
                } else if replica.lease.is_some() && state.acknowledged & !state.data[side] & !state.excused != 0 {
                    next.broken = Some(NOTHING_LOST);
                }
            }
            Action::Send(side) => {
                let replica = &mut next.replicas[side];
                if replica.sent.is_some() || replica.left == 0 {
                    return None;
                }
                replica.sent = Some(replica.lease?);
                replica.left -= 1;
            }
            Action::Done(side) => {
                let replica = &mut next.replicas[side];
                replica.sent.take()?;
                let bit = 1 << (u8::try_from(side).ok()? * 4 + replica.left);
                next.data[side] |= bit;
                next.data[1 - side] |= if replica.confirms { bit } else { 0 };
                next.acknowledged |= bit;
            }
            Action::Operate(index, sees_newest) => self.operate(&mut next, index, sees_newest)?,
            Action::Lose(index, is_sent) => {
                let Step::First { change, before, .. } = state.operators[index].step else { return None };
                let mut lost = self.next_row(change, before, self.commands[index].to);
                if is_sent {
                    lost = self.change_first(&mut next, index, true)?.1;
                }
                next.faults -= 1;
                next.operators[index].step = Step::Again { change, before, next: lost };
            }
            Action::End(index) if state.operators[index].step == Step::Answered => return None,
            Action::End(index) => next.operators[index].step = Step::Failed,
            Action::StartAgain(side) => {
                if !state.replicas[side].is_stopped || !self.may_start_again(state) {
                    return None;
                }
                next.replicas[side].is_stopped = false;
                next.data = [state.data[WEST] | state.data[EAST]; 2];
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        [ONE_SIDE, NOTHING_LOST, LEFT_THERE]
            .map(|rule| match rule {
                ONE_SIDE => Property::always(rule, |_, state: &State| state.broken != Some(ONE_SIDE)),
                NOTHING_LOST => Property::always(rule, |_, state: &State| state.broken != Some(NOTHING_LOST)),
                _ => Property::always(rule, |_, state: &State| state.broken != Some(LEFT_THERE)),
            })
            .into()
    }
}
