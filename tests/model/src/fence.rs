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

/// How often each side's replica writes, at most.
const WRITES: u8 = 2;

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
    /// The copying begins although the old side's copies may not show that a move has begun.
    AnnouncedToOne,
    /// The operator takes the answer to the change of the row, which copies of the new side alone may have given, for one of both.
    AnswerTakenForBoth,
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
    /// When it began to read the fence, and what the read found; the answer is on its way.
    reading: Option<(u8, Fence)>,
    /// Until when it may write, and whether it confirms what it writes in both.
    lease_until: Option<u8>,
    confirms: bool,
    /// When the writes were sent that are not done yet, and whether they are confirmed in both.
    sent: Vec<(u8, bool)>,
    left: u8,
    is_stopped: bool,
}

/// The operator's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    Idle,
    /// The beginning of a planned move is answered, and the new side shows it.
    Announcing,
    /// Both sides show that a move has begun, since this tick.
    Announced(u8),
    /// The new side has what was written before the copying.
    Copied,
    /// The closing is answered, and the new side shows it.
    Closing,
    /// Both sides show that the fence is moving, since this tick.
    Waiting(u8),
    Closed,
    Opened,
}

/// The state of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: u8,
    /// The fence as each side's quorum has it.
    fences: [Fence; 2],
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
    BeginRead(usize),
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
    pub(crate) fn as_it_is() -> [(Self, &'static str); 3] {
        let model = |is_forced, reads_both| Self { is_forced, reads_both, weakening: None };
        [
            (model(false, false), "a planned move, the fence read in one datacentre"),
            (model(true, false), "a forced move, the old side's replicas stopped"),
            (model(true, true), "a forced move, the fence read in both datacentres, nobody stopped"),
        ]
    }

    /// The moves with one rule left out, and what then must be found.
    pub(crate) fn weakened() -> Vec<(Self, &'static str)> {
        use FenceWeakening::{
            AnnouncedToOne, AnswerTakenForBoth, CopiedAtOnce, LateWritesIgnored, LeaseFromTheAnswer, LostFence, NoWait,
            NotConfirmed, NotCopied, OldSideNotStopped,
        };
        let planned = |weakening| Self { is_forced: false, reads_both: false, weakening: Some(weakening) };
        let mut all: Vec<_> = [LostFence, NoWait, LateWritesIgnored, LeaseFromTheAnswer, AnswerTakenForBoth]
            .map(|weakening| (planned(weakening), ONE_SIDE))
            .into();
        all.extend(
            [NotCopied, CopiedAtOnce, NotConfirmed, AnnouncedToOne].map(|weakening| (planned(weakening), NOTHING_LOST)),
        );
        all.push((Self { is_forced: true, ..planned(OldSideNotStopped) }, ONE_SIDE));
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

    /// The operator's next step; `None` if it is not time for it.
    fn operate(&self, state: &mut State) -> Option<()> {
        let wait = match self.weakening {
            Some(FenceWeakening::NoWait) => 0,
            Some(FenceWeakening::LateWritesIgnored) => LEASE,
            _ => LEASE + LATE,
        };
        match state.operator {
            Operator::Idle if self.is_forced => {
                // The operator has been asked to stop the old side, unless a majority of both sides is needed.
                state.replicas[OLD].is_stopped =
                    !self.reads_both && !self.is_weakened(FenceWeakening::OldSideNotStopped);
                // A forced move has nothing to copy from.
                state.fences[NEW] = Fence::Moving;
                state.operator = Operator::Waiting(state.now);
            }
            Operator::Idle => {
                state.fences[NEW] = Fence::Copying;
                let is_over = self.is_weakened(FenceWeakening::AnnouncedToOne);
                state.operator = if is_over { Operator::Announced(state.now) } else { Operator::Announcing };
            }
            Operator::Announcing => {
                state.fences[OLD] = Fence::Copying;
                state.operator = Operator::Announced(state.now);
            }
            Operator::Announced(since)
                if state.now >= since + LEASE + LATE || self.is_weakened(FenceWeakening::CopiedAtOnce) =>
            {
                if !self.is_weakened(FenceWeakening::NotCopied) {
                    state.copied = state.written;
                }
                state.operator = Operator::Copied;
            }
            Operator::Copied => {
                state.fences[NEW] = Fence::Moving;
                let is_over = self.is_weakened(FenceWeakening::AnswerTakenForBoth);
                state.operator = if is_over { Operator::Waiting(state.now) } else { Operator::Closing };
            }
            Operator::Closing => {
                state.fences[OLD] = Fence::Moving;
                state.operator = Operator::Waiting(state.now);
            }
            Operator::Waiting(since) if state.now >= since + wait => state.operator = Operator::Closed,
            Operator::Closed => {
                if self.is_forced {
                    state.fences[NEW] = Fence::Open(NEW);
                } else {
                    state.fences = [Fence::Open(NEW); 2];
                }
                state.operator = Operator::Opened;
            }
            Operator::Announced(_) | Operator::Waiting(_) | Operator::Opened => return None,
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
        let replica = Replica { reading, lease_until, confirms: false, sent, left: WRITES, is_stopped: false };
        vec![State {
            now: 0,
            fences: [Fence::Open(OLD); 2],
            replicas: [replica.clone(), replica],
            operator: Operator::Idle,
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
            actions.extend([Action::BeginRead(side), Action::EndRead(side), Action::Send(side), Action::Done(side)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => {
                // A write that was sent is done by then, or never.
                let is_late = |replica: &Replica| replica.sent.iter().any(|(sent, _)| sent + LATE <= state.now);
                if state.now == TICKS || state.replicas.iter().any(is_late) {
                    return None;
                }
                next.now += 1;
            }
            Action::BeginRead(side) => {
                let replica = &mut next.replicas[side];
                if replica.reading.is_some() || replica.is_stopped || (self.reads_both && self.is_cut()) {
                    return None;
                }
                replica.reading = Some((state.now, state.fences[side]));
            }
            Action::EndRead(side) => {
                let replica = &mut next.replicas[side];
                let (began, fence) = replica.reading.take()?;
                let from = if self.is_weakened(FenceWeakening::LeaseFromTheAnswer) { state.now } else { began };
                let may_write = fence == Fence::Open(side) || (fence == Fence::Copying && side == OLD);
                replica.lease_until = may_write.then_some(from + LEASE);
                replica.confirms = fence == Fence::Copying && !self.is_weakened(FenceWeakening::NotConfirmed);
            }
            Action::Send(side) => {
                if !self.may_send(state, side) {
                    return None;
                }
                let replica = &mut next.replicas[side];
                replica.left -= 1;
                replica.sent.push((state.now, replica.confirms));
            }
            Action::Done(side) => {
                if next.replicas[side].sent.is_empty() {
                    return None;
                }
                let (_, is_confirmed) = next.replicas[side].sent.remove(0);
                if side == NEW {
                    next.is_new_written = true;
                    // A forced move may lose what the old side has acknowledged, and says so.
                    next.is_lost = !self.is_forced && state.copied < state.written;
                } else {
                    next.written += 1;
                    next.copied += u8::from(is_confirmed);
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
