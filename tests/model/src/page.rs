//! The model of one page: writers and readers over three copies, and the rules that every state must keep.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::database::{Columns, Copy, Effect, Entry, Head, Message, PAIRS, Shown, Time, Transaction, WriteId, merged};
use crate::protocol::{Kind, ReadStep, Reader, Step, Weakening, Writer};
use crate::state::{
    Broken, DONE_TWICE, FALSE_CONFIRMATION, FALSE_DENIAL, LOST_UPDATE, MIXTURE, NO_TEXT, OLD_READ, OLDER_RECORD,
    READABLE_TEXT, REVIVAL, State, begin_read,
};

/// A run: who does what, and how much goes wrong.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Whether the page is there at the start.
    pub(crate) has_page: bool,
    /// The writes of each client, in order, and how far its replica's clock is ahead.
    pub(crate) writers: &'static [(&'static [Kind], Time)],
    /// How many reads each reader makes.
    pub(crate) reads: &'static [u8],
    /// How many requests of writers fail or are not answered.
    pub(crate) faults: u8,
    /// How many nonces a head keeps.
    pub(crate) kept: usize,
}

/// A scenario, as the protocol says or weakened.
#[derive(Clone, Debug)]
pub(crate) struct PageModel {
    pub(crate) scenario: Scenario,
    pub(crate) weakening: Option<Weakening>,
}

/// One step of anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// A message arrives.
    Arrive(Message),
    /// A transaction is decided, with this pair of copies as its quorum.
    Decide { transaction: usize, pair: usize },
    /// A writer takes its next step, with this pair of copies.
    Write { writer: usize, pair: usize },
    /// The request that a writer waits for fails, or is not answered.
    Fail { writer: usize },
    /// A reader takes its next step, with this pair, and the first of the two that answers.
    Read { reader: usize, pair: usize, first: usize },
}

impl Model for PageModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut copies: [Copy; 3] = Default::default();
        let mut chain = Vec::new();
        if self.scenario.has_page {
            let shown = Shown { title: 0, text: 0, key: 0 };
            let head = Head { version: 1, updated_at: 1, page: Some(shown), nonces: vec![0] };
            chain.push(Entry { write: 0, base: 0, is_import: false, columns: Columns::All, head });
            for copy in &mut copies {
                copy.take(Effect::Commit(0));
                copy.take(Effect::Insert(0, 1));
            }
        }
        vec![State {
            copies,
            seen: chain.len(),
            chain,
            messages: BTreeSet::new(),
            transactions: Vec::new(),
            writers: vec![Writer { step: Step::Begin, begun: 0 }; self.scenario.writers.len()],
            readers: vec![Reader { step: ReadStep::Begin, ended: 0, cached: None }; self.scenario.reads.len()],
            faults_left: self.scenario.faults,
            denied: 0,
            deleted: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // Nothing is learnt behind a state that breaks a rule.
        if state.broken.is_some() {
            return;
        }
        actions.extend(state.messages.iter().map(|&message| Action::Arrive(message)));
        for transaction in 0..state.transactions.len() {
            actions.extend((0..PAIRS.len()).map(|pair| Action::Decide { transaction, pair }));
        }
        for (number, writer) in state.writers.iter().enumerate() {
            match &writer.step {
                Step::Begin if writer.begun == self.scenario.writers[number].0.len() => {}
                Step::Send(_) | Step::AwaitCommit(..) => actions.push(Action::Write { writer: number, pair: 0 }),
                Step::Await(_) => {}
                Step::Begin | Step::ReadAgain(..) | Step::InsertText(_) | Step::ReadBack(_) | Step::CleanUp(..) => {
                    actions.extend((0..PAIRS.len()).map(|pair| Action::Write { writer: number, pair }));
                }
            }
            if state.faults_left > 0 && !matches!(writer.step, Step::Begin | Step::ReadAgain(..) | Step::Send(_)) {
                actions.push(Action::Fail { writer: number });
            }
        }
        for (number, reader) in state.readers.iter().enumerate() {
            match reader.step {
                ReadStep::Begin if reader.ended == self.scenario.reads[number] => {}
                ReadStep::Begin => {
                    for pair in 0..PAIRS.len() {
                        actions.extend([0, 1].map(|first| Action::Read { reader: number, pair, first }));
                    }
                }
                ReadStep::FirstCopy { .. } => actions.push(Action::Read { reader: number, pair: 0, first: 0 }),
                ReadStep::Text { .. } => {
                    actions.extend((0..PAIRS.len()).map(|pair| Action::Read { reader: number, pair, first: 0 }));
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Arrive(message) => {
                next.messages.remove(&message);
                next.copies[message.to].take(message.effect);
            }
            Action::Decide { transaction, pair } => self.decide(&mut next, transaction, pair),
            Action::Write { writer, pair } => self.write(&mut next, writer, pair)?,
            Action::Fail { writer } => self.fail(&mut next, writer)?,
            Action::Read { reader, pair, first } => self.read(&mut next, reader, pair, first),
        }
        next.check_texts();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(OLD_READ, |_, state: &State| state.broken != Some(Broken::OldRead)),
            Property::always(MIXTURE, |_, state: &State| state.broken != Some(Broken::Mixture)),
            Property::always(NO_TEXT, |_, state: &State| state.broken != Some(Broken::NoText)),
            Property::always(LOST_UPDATE, |_, state: &State| state.broken != Some(Broken::LostUpdate)),
            Property::always(REVIVAL, |_, state: &State| state.broken != Some(Broken::Revival)),
            Property::always(FALSE_DENIAL, |_, state: &State| state.broken != Some(Broken::FalseDenial)),
            Property::always(DONE_TWICE, |_, state: &State| state.broken != Some(Broken::DoneTwice)),
            Property::always(READABLE_TEXT, |_, state: &State| state.broken != Some(Broken::ReadableText)),
            Property::always(FALSE_CONFIRMATION, |_, state: &State| state.broken != Some(Broken::FalseConfirmation)),
            Property::always(OLDER_RECORD, |_, state: &State| state.broken != Some(Broken::OlderRecord)),
        ]
    }
}

impl PageModel {
    pub(crate) fn is_weakened(&self, weakening: Weakening) -> bool {
        self.weakening == Some(weakening)
    }

    /// Decides a transaction, wherever its writer is by now. All that was decided before is then on `pair`.
    fn decide(&self, state: &mut State, transaction: usize, pair: usize) {
        let Transaction { attempt, expected, entry } = state.transactions.remove(transaction);
        state.commit_all(pair);
        let present = state.chain.last().map(|last| (last.head.version, last.head.updated_at));
        let is_active = state.chain.last().is_some_and(|last| last.head.page.is_some());
        let applies = if self.is_weakened(Weakening::NoComparison) && expected.is_some() {
            is_active
        } else {
            let may_replace = is_active || (entry.is_import && self.is_weakened(Weakening::ImportOverTombstone));
            present == expected && (expected.is_none() || may_replace)
        };
        let decided = applies.then(|| state.append(entry.clone()));
        let awaits = |writer: &Writer| matches!(&writer.step, Step::Await(work) if work.id == entry.write && work.attempt == attempt);
        let Some(number) = state.writers.iter().position(awaits) else { return };
        let Step::Await(work) = state.writers[number].step.clone() else { return };
        match decided {
            Some(entry) => state.writers[number].step = Step::AwaitCommit(work, entry),
            None if work.is_unknown && !self.is_weakened(Weakening::NoReadBack) => {
                state.writers[number].step = Step::ReadBack(work);
            }
            None => {
                state.denied |= 1 << work.id;
                self.settle(state, number, work, false);
            }
        }
    }

    /// The next step of a reader.
    fn read(&self, state: &mut State, number: usize, pair: usize, first: usize) {
        match state.readers[number].step.clone() {
            ReadStep::Begin => {
                if let (true, Some(cached)) = (self.is_weakened(Weakening::StaleCache), state.readers[number].cached) {
                    let seen = state.seen;
                    state.show(cached + 1, seen);
                    state.readers[number].ended += 1;
                    return;
                }
                begin_read(state, number, pair, first, None);
            }
            ReadStep::FirstCopy { first, second, entries, seen, gone } => {
                let entries = entries | state.copies[second].entries;
                if !self.is_weakened(Weakening::NoReadRepair) {
                    state.repair([first, second], entries);
                }
                self.show_head(state, number, entries, seen, gone);
            }
            ReadStep::Text { head, text, gone } => {
                let [one, other] = PAIRS[pair];
                if self.is_weakened(Weakening::NewestText) {
                    let newest = state.copies[one].newest_text(&state.copies[other]);
                    if newest.is_some_and(|newest| newest != text) {
                        state.broken = Some(Broken::Mixture);
                    }
                }
                if state.copies[one].show(&state.copies[other], text) {
                    state.readers[number].step = ReadStep::Begin;
                    state.readers[number].ended += 1;
                    state.readers[number].cached = Some(head);
                } else if gone == Some(text) {
                    state.broken = Some(Broken::NoText);
                } else {
                    begin_read(state, number, pair, first, Some(text));
                }
            }
        }
    }

    /// The head is read: `entries` are what its two copies have together.
    fn show_head(&self, state: &mut State, number: usize, entries: u16, seen: usize, gone: Option<WriteId>) {
        let shown = merged(&state.chain, entries);
        let newest = shown.as_ref().map_or(0, |(newest, _)| newest + 1);
        state.show(newest, seen);
        let reader = &mut state.readers[number];
        match shown {
            Some((head, Head { page: Some(page), .. })) => {
                let made = state.chain[head].head.page;
                if made != Some(page) {
                    state.broken = Some(Broken::Mixture);
                }
                reader.step = ReadStep::Text { head, text: page.text, gone };
            }
            _ => {
                reader.step = ReadStep::Begin;
                reader.ended += 1;
                reader.cached = shown.map(|(head, _)| head);
            }
        }
    }
}
