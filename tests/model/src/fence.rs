//! The model of two datacentres: the fence, the leases of replicas, and an operator who moves the writing side.
//!
//! Time passes in ticks. A page is a number of writes: each side counts what its own quorum has, and what one side has
//! written reaches the other later or never.

use stateright::{Model, Property};

/// How long a replica may write after the beginning of its last successful read of the fence.
const LEASE: u8 = 3;

/// How late a write may still be done after it was sent.
const LATE: u8 = 2;

/// Ticks that a run has: enough for a move there, which waits twice if it is planned, and writes after it.
const TICKS: u8 = 14;

/// A side: the one that writes at the start, and the one that takes over.
const SIDES: [usize; 2] = [OLD, NEW];
const OLD: usize = 0;
const NEW: usize = 1;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FenceWeakening {
    /// A replica does not look at its lease before it writes.
    LostFence,
    /// The operator opens the new side at once.
    NoWait,
    /// The operator waits for the lease, and not for writes that were sent within it.
    LateWritesIgnored,
    /// The lease begins with the answer to the read, not with its beginning.
    LeaseFromTheAnswer,
    /// The new side is opened before it has what the old one has written.
    NotCopied,
    /// The pages are copied before the leases of before have ended.
    CopiedAtOnce,
    /// While the pages are copied, a write is acknowledged that the old side alone has.
    NotConfirmed,
    /// A write that was sent while the pages were copied is not confirmed if the fence was closed before its answer came.
    ClosedConfirmsNothing,
    /// The copying begins although the old side's copies may not show that a move has begun.
    AnnouncedToOne,
    /// The operator takes the answer to the change of the row, which copies of the new side alone may have given, for one of both.
    AnswerTakenForBoth,
    /// The operator waits once the first row is closed, and closes the others later.
    OneRowClosed,
    /// Nobody stops the old side's replicas before a forced move, and they read the fence in their own datacentre.
    OldSideNotStopped,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct FenceModel {
    /// Whether the move is forced, because the datacentres are cut from each other.
    is_forced: bool,
    /// Whether replicas read the fence at a majority of both datacentres, which a cut makes impossible.
    reads_both: bool,
    /// The number of rows that the fence has, of which any one is enough for a replica.
    rows: usize,
    /// How often each side's replica writes, at most.
    writes: u8,
    pub(crate) weakening: Option<FenceWeakening>,
}

/// The fence, as a quorum of one datacentre shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fence {
    Open(usize),
    /// The old side writes, and confirms each write in both.
    Copying,
    Moving,
}

/// A replica of one side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    /// When it began to read a row of the fence, and what the read found; the answer is on its way.
    reading: Option<(u8, (u8, Fence))>,
    /// The highest epoch that it has seen.
    epoch: u8,
    /// Until when it may write, and whether it confirms what is done in both before it answers.
    lease_until: Option<u8>,
    confirms: bool,
    /// When the writes were sent that are not done yet.
    sent: Vec<u8>,
    left: u8,
    is_stopped: bool,
}

/// The operator's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    /// All rows are being changed to what [`FenceModel::change`] says, and so many parts of that are done: each row is first
    /// shown by the new side, then by the old one.
    Changing(Change, u8),
    /// The change counts since this tick.
    Waiting(Change, u8),
    /// The leases of before have ended, and the pages must be copied.
    Copying,
    Opened,
}

/// A change of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Announce,
    Close,
    Open,
}

/// The state of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: u8,
    /// The rows of the fence, each with its epoch, as each side's quorum has them.
    fences: Vec<[(u8, Fence); 2]>,
    replicas: [Replica; 2],
    operator: Operator,
    /// Acknowledged writes, and how many of them the new side has.
    written: u8,
    copied: u8,
    /// The new side has written.
    is_new_written: bool,
    is_split: bool,
    is_lost: bool,
}

/// A step of anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    BeginRead(usize, usize),
    EndRead(usize),
    Send(usize),
    Done(usize),
    /// One more write of the old side reaches the new one.
    Replicate,
    /// The operator's next step.
    Operate,
}

impl FenceModel {
    /// The moves as they are.
    pub(crate) fn as_it_is() -> [(Self, &'static str); 4] {
        let model = |is_forced, reads_both| Self { is_forced, reads_both, rows: 1, writes: 2, weakening: None };
        [
            (model(false, false), "a planned move, the fence read in one datacentre"),
            (Self { rows: 2, writes: 1, ..model(false, false) }, "a planned move, a fence of two rows"),
            (model(true, false), "a forced move, the old side's replicas stopped"),
            (model(true, true), "a forced move, the fence read in both datacentres, nobody stopped"),
        ]
    }

    /// The moves with one rule left out, and what then must be found.
    pub(crate) fn weakened() -> Vec<(Self, &'static str)> {
        use FenceWeakening::{
            AnnouncedToOne, AnswerTakenForBoth, ClosedConfirmsNothing, CopiedAtOnce, LateWritesIgnored,
            LeaseFromTheAnswer, LostFence, NoWait, NotConfirmed, NotCopied, OldSideNotStopped, OneRowClosed,
        };
        let planned =
            |weakening| Self { is_forced: false, reads_both: false, rows: 1, writes: 2, weakening: Some(weakening) };
        let mut all: Vec<_> = [LostFence, NoWait, LateWritesIgnored, LeaseFromTheAnswer, AnswerTakenForBoth]
            .map(|weakening| (planned(weakening), ONE_SIDE))
            .into();
        all.extend(
            [NotCopied, CopiedAtOnce, NotConfirmed, ClosedConfirmsNothing, AnnouncedToOne]
                .map(|weakening| (planned(weakening), NOTHING_LOST)),
        );
        all.push((Self { is_forced: true, ..planned(OldSideNotStopped) }, ONE_SIDE));
        all.push((Self { rows: 2, writes: 1, ..planned(OneRowClosed) }, ONE_SIDE));
        all
    }

    fn is_weakened(&self, weakening: FenceWeakening) -> bool {
        self.weakening == Some(weakening)
    }

    /// Whether the datacentres cannot reach each other: a forced move is made because of that.
    fn is_cut(&self) -> bool {
        self.is_forced
    }

    fn may_send(&self, state: &State, side: usize) -> bool {
        let replica = &state.replicas[side];
        let has_lease = replica.lease_until.is_some_and(|until| state.now < until);
        !replica.is_stopped && replica.left > 0 && (has_lease || self.is_weakened(FenceWeakening::LostFence))
    }

    /// The epoch and the state that a change gives to each row.
    fn change(change: Change) -> (u8, Fence) {
        match change {
            Change::Announce => (1, Fence::Copying),
            Change::Close => (2, Fence::Moving),
            Change::Open => (3, Fence::Open(NEW)),
        }
    }

    /// Whether the operator waits for a row of the old side to show `change`.
    fn is_shown_in_old(&self, change: Change) -> bool {
        !self.is_forced
            && match change {
                Change::Announce => !self.is_weakened(FenceWeakening::AnnouncedToOne),
                Change::Close => !self.is_weakened(FenceWeakening::AnswerTakenForBoth),
                Change::Open => true,
            }
    }

    /// How many rows show a change before it counts.
    fn rows_of(&self, change: Change) -> usize {
        if change == Change::Close && self.is_weakened(FenceWeakening::OneRowClosed) { 1 } else { self.rows }
    }

    /// The operator's next step; `None` if it is not time for it.
    fn operate(&self, state: &mut State) -> Option<()> {
        let wait = |change| match (self.weakening, change) {
            (Some(FenceWeakening::NoWait), Change::Close) | (Some(FenceWeakening::CopiedAtOnce), Change::Announce) => 0,
            (Some(FenceWeakening::LateWritesIgnored), Change::Close) => LEASE,
            _ => LEASE + LATE,
        };
        match state.operator {
            Operator::Changing(change, done) => {
                let (row, side) = (usize::from(done / 2), if done % 2 == 0 { NEW } else { OLD });
                if self.is_forced && change == Change::Close && done == 0 {
                    // The operator has been asked to stop the old side, unless a majority of both sides is needed.
                    state.replicas[OLD].is_stopped =
                        !self.reads_both && !self.is_weakened(FenceWeakening::OldSideNotStopped);
                }
                if side == NEW || self.is_shown_in_old(change) {
                    state.fences[row][side] = Self::change(change);
                }
                let is_last = usize::from(done) + 1 == 2 * self.rows_of(change);
                state.operator = match change {
                    _ if !is_last => Operator::Changing(change, done + 1),
                    Change::Open => Operator::Opened,
                    Change::Announce | Change::Close => Operator::Waiting(change, state.now),
                };
            }
            Operator::Waiting(change, since) if state.now >= since + wait(change) => {
                state.operator = match change {
                    Change::Announce => Operator::Copying,
                    Change::Close | Change::Open => Operator::Changing(Change::Open, 0),
                };
            }
            Operator::Copying => {
                if !self.is_weakened(FenceWeakening::NotCopied) {
                    state.copied = state.written;
                }
                state.operator = Operator::Changing(Change::Close, 0);
            }
            Operator::Waiting(..) | Operator::Opened => return None,
        }
        Some(())
    }
}

const ONE_SIDE: &str = "the old side writes nothing after the new one has written";
const NOTHING_LOST: &str = "the new side has every acknowledged write before it writes";

impl Model for FenceModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (reading, lease_until, sent) = (None, None, Vec::new());
        let (epoch, left) = (0, self.writes);
        let replica = Replica { reading, epoch, lease_until, confirms: false, sent, left, is_stopped: false };
        // A forced move has nothing to copy from.
        let first = if self.is_forced { Change::Close } else { Change::Announce };
        vec![State {
            now: 0,
            fences: vec![[(0, Fence::Open(OLD)); 2]; self.rows],
            replicas: [replica.clone(), replica],
            operator: Operator::Changing(first, 0),
            written: 0,
            copied: 0,
            is_new_written: false,
            is_split: false,
            is_lost: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.is_split || state.is_lost {
            return;
        }
        actions.extend([Action::Tick, Action::Replicate, Action::Operate]);
        for side in SIDES {
            actions.extend((0..self.rows).map(|row| Action::BeginRead(side, row)));
            actions.extend([Action::EndRead(side), Action::Send(side), Action::Done(side)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => {
                // A write that was sent is done by then, or never.
                let is_late = |replica: &Replica| replica.sent.iter().any(|sent| sent + LATE <= state.now);
                if state.now == TICKS || state.replicas.iter().any(is_late) {
                    return None;
                }
                next.now += 1;
            }
            Action::BeginRead(side, row) => {
                let replica = &mut next.replicas[side];
                if replica.reading.is_some() || replica.is_stopped || (self.reads_both && self.is_cut()) {
                    return None;
                }
                replica.reading = Some((state.now, state.fences[row][side]));
            }
            Action::EndRead(side) => {
                let replica = &mut next.replicas[side];
                let (began, (epoch, fence)) = replica.reading.take()?;
                if epoch < replica.epoch {
                    return Some(next);
                }
                replica.epoch = epoch;
                let from = if self.is_weakened(FenceWeakening::LeaseFromTheAnswer) { state.now } else { began };
                let may_write = fence == Fence::Open(side) || (fence == Fence::Copying && side == OLD);
                replica.lease_until = may_write.then_some(from + LEASE);
                let closed = fence == Fence::Moving && !self.is_weakened(FenceWeakening::ClosedConfirmsNothing);
                let is_moving = fence == Fence::Copying || closed;
                replica.confirms = is_moving && !self.is_weakened(FenceWeakening::NotConfirmed);
            }
            Action::Send(side) => {
                if !self.may_send(state, side) {
                    return None;
                }
                let replica = &mut next.replicas[side];
                replica.left -= 1;
                replica.sent.push(state.now);
            }
            Action::Done(side) => {
                if next.replicas[side].sent.is_empty() {
                    return None;
                }
                next.replicas[side].sent.remove(0);
                if side == NEW {
                    next.is_new_written = true;
                    // A forced move may lose what the old side has acknowledged, and says so.
                    next.is_lost = !self.is_forced && state.copied < state.written;
                } else {
                    next.written += 1;
                    next.copied += u8::from(state.replicas[OLD].confirms);
                    next.is_split = state.is_new_written;
                }
            }
            Action::Replicate if state.copied < state.written && !self.is_cut() => next.copied += 1,
            Action::Replicate => return None,
            Action::Operate => self.operate(&mut next)?,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_SIDE, |_, state: &State| !state.is_split),
            Property::always(NOTHING_LOST, |_, state: &State| !state.is_lost),
        ]
    }
}
