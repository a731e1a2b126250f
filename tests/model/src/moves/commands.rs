//! The steps of one `handbill failover`, as `crates/store-cql/src/failover` has them.

use self::Change::{Announce, Close, Keep, Open};
use super::{EAST, LEFT_THERE, Lease, MovesModel, MovesWeakening, Operator, ROWS, Row, SIDES, State, WEST, newest};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    /// The side writes already; a move away from it is given up.
    Keep,
    Announce,
    Close,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Start,
    /// The first row is changed if it is still as `before`. After a lost answer a refusal may be of one's own making.
    First {
        change: Change,
        before: Standing,
        again: bool,
    },
    /// The answer was lost: the rows are read again.
    Again {
        change: Change,
        before: Standing,
        next: Row,
    },
    Follow(Change, usize),
    /// Each side must show this row.
    Check(Change, usize),
    Waiting(Change),
    Copy(Change),
    Answered,
    /// Another command changed the fence, or something else has ended this one.
    Failed,
}

/// The rows as a command has found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Standing {
    pub(super) first: Row,
    /// The side that writes by the row with the highest epoch; nobody if two differ that have it.
    writes: Option<usize>,
    moving_to: Option<usize>,
    highest: u8,
}

impl Standing {
    fn of(row: Row) -> Self {
        Self { first: row, writes: row.writes, moving_to: row.moving_to, highest: row.epoch }
    }
}

impl MovesModel {
    /// Whether changes have times of their own. Otherwise the later one has the higher epoch.
    fn keeps_time(&self) -> bool {
        self.has_forced() || self.weakening.is_some()
    }

    /// The row that a command finds, which then is what its next reader finds too.
    fn view(&self, state: &mut State, index: usize, row: usize, sees_newest: bool) -> Row {
        let (command, copies) = (self.commands[index], &mut state.rows[row]);
        let all = newest(copies.serial, newest(copies.shown[WEST], copies.shown[EAST]));
        if command.is_forced {
            let shown = &mut copies.shown[command.to];
            *shown = if sees_newest { newest(*shown, copies.serial) } else { *shown };
            return *shown;
        }
        copies.serial = if sees_newest { all } else { copies.serial };
        copies.serial
    }

    fn write(&self, state: &mut State, index: usize, row: usize, mut value: Row) -> Row {
        state.clock += u8::from(self.keeps_time());
        value.time = if self.keeps_time() { state.clock } else { value.epoch };
        let command = self.commands[index];
        if command.is_forced {
            state.rows[row].shown[command.to] = value;
        } else {
            state.rows[row].serial = value;
        }
        value
    }

    /// The place of a row in the order in which a command changes them.
    fn row(&self, index: usize, place: usize) -> usize {
        if index == 1 && self.is_weakened(MovesWeakening::OppositeOrder) { ROWS - 1 - place } else { place }
    }

    pub(super) fn next_row(&self, change: Change, before: Standing, to: usize) -> Row {
        let (writes, moving_to) = match change {
            Keep | Open => (Some(to), None),
            Announce => (before.writes, Some(to)),
            Close => (None, Some(to)),
        };
        let epoch = if self.is_weakened(MovesWeakening::EpochKept) { before.highest } else { before.highest + 1 };
        Row { time: 0, epoch, writes, moving_to }
    }

    /// The rows, as `SERIAL` sees them and as each side shows them.
    fn read(&self, state: &mut State, index: usize, sees_newest: bool) -> Standing {
        let views: Vec<_> = (0..ROWS).map(|row| self.view(state, index, row, sees_newest)).collect();
        let first = views[self.row(index, 0)];
        let mut all = views;
        if !self.commands[index].is_forced && !self.is_weakened(MovesWeakening::SidesNotAsked) {
            all.extend(state.rows.iter().flat_map(|copies| copies.shown));
        }
        let newest = *all.iter().max_by_key(|row| row.epoch).expect("there are rows");
        let differs = all.iter().any(|row| row.epoch == newest.epoch && !row.says(&newest));
        let unknown = Row { writes: None, moving_to: None, ..newest };
        Standing { first, ..Standing::of(if differs { unknown } else { newest }) }
    }

    fn start(&self, state: &mut State, index: usize, sees_newest: bool) -> Option<Step> {
        let command = self.commands[index];
        let is_over = |operator: &Operator| matches!(operator.step, Step::Answered | Step::Failed);
        if command.is_last && !state.operators.iter().enumerate().all(|(other, it)| other == index || is_over(it)) {
            return None;
        }
        if command.is_forced {
            // The operator has said that the other side's replicas are stopped.
            let other = &mut state.replicas[1 - command.to];
            (other.is_stopped, other.lease) = (true, None);
            // And that no other command goes on, wherever it had come to.
            let goes_on = !self.misses || self.is_weakened(MovesWeakening::ForcedBesideAnother);
            for (place, operator) in state.operators.iter_mut().enumerate() {
                let is_ended = place != index && !self.commands[place].is_last && !goes_on;
                operator.step = if is_ended { Step::Failed } else { operator.step };
            }
        }
        let before = self.read(state, index, sees_newest);
        let copies_of_another = self.is_weakened(MovesWeakening::CopyOfAnother) && before.moving_to.is_some();
        let change = match before.writes {
            Some(side) if side == command.to => Keep,
            Some(_) if !command.is_forced && !copies_of_another => Announce,
            _ => Close,
        };
        state.operators[index].has_copied = copies_of_another;
        Some(Step::First { change, before, again: false })
    }

    /// Changes the first row, unless it is not as it was.
    pub(super) fn change_first(&self, state: &mut State, index: usize, sees_newest: bool) -> Option<(bool, Row)> {
        let Step::First { change, before, .. } = state.operators[index].step else { return None };
        let row = self.row(index, 0);
        let found = self.view(state, index, row, sees_newest);
        let next = self.next_row(change, before, self.commands[index].to);
        if found.epoch != before.first.epoch && !self.is_weakened(MovesWeakening::WrittenWithoutCondition) {
            return Some((false, next));
        }
        Some((true, self.write(state, index, row, next)))
    }

    /// The step after the row at `place` shows the change.
    fn after_row(&self, state: &mut State, index: usize, change: Change, place: usize) -> Step {
        if place + 1 < ROWS {
            return Step::Follow(change, place + 1);
        }
        let command = self.commands[index];
        if matches!(change, Announce | Close) {
            for replica in &mut state.replicas {
                for lease in [&mut replica.lease, &mut replica.sent].into_iter().flatten() {
                    lease.marks |= 1 << index;
                }
            }
            return Step::Waiting(change);
        }
        let own = state.operators[index].own;
        for (row, side) in (0..ROWS).flat_map(|row| SIDES.map(|side| (row, side))) {
            let shown = &state.rows[row].shown[side];
            let is_asked = !command.is_forced || side == command.to;
            if is_asked && !shown.says(&own) && shown.time <= own.time {
                state.broken = Some(LEFT_THERE);
            }
        }
        Step::Answered
    }

    /// The command's next step; `None` if it is not time for it.
    pub(super) fn operate(&self, state: &mut State, index: usize, sees_newest: bool) -> Option<()> {
        let (command, operator) = (self.commands[index], state.operators[index]);
        let own = operator.own;
        let following = |change| Step::First { change, before: Standing::of(own), again: false };
        let step = match operator.step {
            Step::Start => self.start(state, index, sees_newest)?,
            Step::First { change, before, again, .. } => match self.change_first(state, index, sees_newest)? {
                (true, next) => {
                    state.operators[index].own = next;
                    if command.is_forced { self.after_row(state, index, change, 0) } else { Step::Check(change, 0) }
                }
                (false, next) if again || self.is_weakened(MovesWeakening::WentOnAfterRefusal) => {
                    Step::Again { change, before, next }
                }
                (false, _) => Step::Failed,
            },
            Step::Again { change, before, next } => {
                let found = self.read(state, index, sees_newest);
                let is_as_it_was = found.first.says(&before.first) || found.first.says(&next);
                if is_as_it_was || self.is_weakened(MovesWeakening::WentOnAfterRefusal) {
                    Step::First { change, before: found, again: true }
                } else {
                    Step::Failed
                }
            }
            Step::Follow(change, place) => {
                let row = self.row(index, place);
                let found = self.view(state, index, row, sees_newest);
                if found.epoch > own.epoch && !self.is_weakened(MovesWeakening::FollowedWithoutCondition) {
                    Step::Failed
                } else {
                    self.write(state, index, row, own);
                    if command.is_forced {
                        self.after_row(state, index, change, place)
                    } else {
                        Step::Check(change, place)
                    }
                }
            }
            Step::Check(change, place) => {
                let shown = state.rows[self.row(index, place)].shown;
                let is_behind = shown.iter().any(|shown| shown.epoch < own.epoch);
                if is_behind && !self.is_weakened(MovesWeakening::ShownNotAwaited) {
                    return None;
                }
                self.after_row(state, index, change, place)
            }
            Step::Waiting(change) => {
                let mark = 1 << index;
                let is_of_before = |lease: &Lease| lease.marks & mark != 0;
                let waits =
                    !(self.is_weakened(MovesWeakening::WaitOfAnother) && change == Close && !operator.has_copied);
                if waits && state.replicas.iter().any(|replica| replica.sent.as_ref().is_some_and(is_of_before)) {
                    return None;
                }
                for replica in &mut state.replicas {
                    replica.lease = replica.lease.filter(|lease| !waits || !is_of_before(lease));
                    for lease in [&mut replica.lease, &mut replica.sent].into_iter().flatten() {
                        lease.marks &= !mark;
                    }
                }
                if command.is_forced {
                    state.excused |= state.acknowledged & !state.data[command.to];
                    following(Open)
                } else {
                    Step::Copy(change)
                }
            }
            Step::Copy(change) => {
                if change == Announce || !operator.has_copied {
                    state.data = [state.data[WEST] | state.data[EAST]; 2];
                }
                state.operators[index].has_copied = true;
                following(if change == Announce { Close } else { Open })
            }
            Step::Answered | Step::Failed => return None,
        };
        state.operators[index].step = step;
        Some(())
    }
}
