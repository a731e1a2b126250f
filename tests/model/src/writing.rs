//! The steps of those who write one page: clients, operators, and imports.

use crate::database::{Effect, Head, PAIRS, WriteId, merged};
use crate::page::PageModel;
use crate::protocol::{Kind, Step, Verdict, Weakening, Work};
use crate::state::{Broken, State};

/// How often a write is sent, at most.
const ATTEMPTS: u8 = 2;

impl PageModel {
    /// The next step of a writer.
    pub(crate) fn write(&self, state: &mut State, number: usize, pair: usize) -> Option<()> {
        match state.writers[number].step.clone() {
            Step::Begin => self.begin(state, number, pair),
            Step::ReadAgain(version, time) => {
                let base = self.read_base(state, pair);
                let is_same = base.as_ref().is_some_and(|(_, head)| {
                    head.version == version
                        && (head.updated_at == time || self.is_weakened(Weakening::ImportComparesVersionAlone))
                });
                let is_active = base.as_ref().is_some_and(|(_, head)| head.page.is_some());
                state.writers[number].step =
                    if is_same && (is_active || self.is_weakened(Weakening::ImportOverTombstone)) {
                        self.work(number, state.writers[number].begun - 1, base).first_step(self.weakening)
                    } else {
                        // The import looks again, which is its next write here.
                        Step::Begin
                    };
            }
            Step::InsertText(work) => {
                state.send_to(pair, work.insert());
                state.writers[number].step = Step::Send(work);
            }
            Step::Send(work) => {
                state.transactions.push(work.transaction(self.weakening));
                state.writers[number].step = Step::Await(work);
            }
            Step::Await(_) => return None,
            Step::AwaitCommit(work, entry) => {
                let needed = if self.is_weakened(Weakening::CommitAtOne) { 1 } else { 2 };
                if state.copies.iter().filter(|copy| copy.entries & (1 << entry) != 0).count() < needed {
                    return None;
                }
                state.seen = state.seen.max(entry + 1);
                self.settle(state, number, work, true);
            }
            Step::ReadBack(work) => {
                state.commit_all(pair);
                let row = state.chain.last().map(|entry| &entry.head);
                match work.verdict(row, self.weakening) {
                    Verdict::Done => {
                        let entry = state.chain.iter().position(|entry| entry.write == work.id);
                        state.seen = state.seen.max(entry.map_or(0, |entry| entry + 1));
                        self.settle(state, number, work, true);
                    }
                    Verdict::Refused => {
                        state.denied |= 1 << work.id;
                        self.settle(state, number, work, false);
                    }
                    Verdict::NotYet if work.attempt + 1 < ATTEMPTS => {
                        state.writers[number].step = Step::Send(Work { attempt: work.attempt + 1, ..work });
                    }
                    // The client is told that the outcome is unknown.
                    Verdict::NotYet | Verdict::TooOld => state.writers[number].step = Step::Begin,
                }
            }
            Step::CleanUp(work, done) => {
                if done && work.has_text() && self.is_weakened(Weakening::PointerBeforeText) {
                    state.send_to(pair, work.insert());
                }
                if let Some(effect) = work.leftover(done, self.weakening) {
                    state.send_to(pair, effect);
                    state.deleted |= match effect {
                        Effect::Delete(text, _) => 1 << text,
                        // A text that no head has named is an orphan, which no request reads, and is swept.
                        Effect::DeleteAll(_) => state.named_texts(),
                        Effect::Insert(..) | Effect::Commit(_) => 0,
                    };
                }
                state.writers[number].step = Step::Begin;
            }
        }
        state.check_denials();
        Some(())
    }

    /// The next write of a writer begins.
    fn begin(&self, state: &mut State, number: usize, pair: usize) {
        let begun = state.writers[number].begun;
        state.writers[number].begun += 1;
        let kind = self.scenario.writers[number].0[begun];
        // A create does not read. If there is a page already, its transaction is refused.
        let base = if kind.is_create() { None } else { self.read_base(state, pair) };
        let found = base.as_ref().map(|(_, head)| head);
        let is_active = found.is_some_and(|head| head.page.is_some());
        let goes_on = match kind {
            Kind::Create | Kind::KeyedCreate => true,
            Kind::NewTitle | Kind::NewText | Kind::Delete => is_active,
            Kind::Import(record) => {
                record.is_newer_than(found)
                    || (is_active && self.is_weakened(Weakening::ImportWithoutComparing))
                    || (!is_active && self.is_weakened(Weakening::ImportOverTombstone))
            }
        };
        if !goes_on {
            return;
        }
        state.writers[number].step = match (kind, found) {
            (Kind::Import(_), Some(head)) => Step::ReadAgain(head.version, head.updated_at),
            _ => {
                let work = self.work(number, begun, base);
                let is_early = self.is_weakened(Weakening::TextDeletedFirst) && kind == Kind::NewText;
                if let Some(effect) = is_early.then(|| work.leftover(true, self.weakening)).flatten() {
                    state.send_to(pair, effect);
                }
                work.first_step(self.weakening)
            }
        };
    }

    /// The write with the number `begun` of a writer, on `base`.
    fn work(&self, number: usize, begun: usize, base: Option<(usize, Head)>) -> Work {
        let writers = self.scenario.writers;
        let before: usize = writers[..number].iter().map(|(kinds, _)| kinds.len()).sum();
        let id = WriteId::try_from(1 + before + begun).expect("there are few");
        let (kinds, ahead) = writers[number];
        Work::new(id, kinds[begun], base, 1 + ahead, self.scenario.kept, self.weakening)
    }

    /// The head that a writer reads at its beginning, and how many entries there are with it.
    fn read_base(&self, state: &mut State, pair: usize) -> Option<(usize, Head)> {
        let entries = state.entries_of(pair);
        if !self.is_weakened(Weakening::NoReadRepair) {
            state.repair(PAIRS[pair], entries);
        }
        let base = merged(&state.chain, entries).map(|(newest, head)| (newest + 1, head));
        let seen = state.seen;
        state.show(base.as_ref().map_or(0, |(entries, _)| *entries), seen);
        base
    }

    /// The outcome of `work` is known.
    pub(crate) fn settle(&self, state: &mut State, number: usize, work: Work, done: bool) {
        // An import is as good as done if a newer record of its page is there.
        let is_overtaken = matches!(work.kind, Kind::Import(_))
            && state.chain.last().is_some_and(|last| last.head.is_newer_than(&work.head));
        if done && !is_overtaken && state.chain.iter().all(|entry| entry.write != work.id) {
            state.broken = Some(Broken::FalseConfirmation);
        }
        let late_text = self.is_weakened(Weakening::PointerBeforeText) && done && work.has_text();
        let is_early = self.is_weakened(Weakening::TextDeletedFirst) && work.kind == Kind::NewText && done;
        state.writers[number].step = if late_text || (work.leftover(done, self.weakening).is_some() && !is_early) {
            Step::CleanUp(work, done)
        } else {
            Step::Begin
        };
        state.check_denials();
    }

    /// The request that a writer waits for fails. Its messages may still arrive.
    pub(crate) fn fail(&self, state: &mut State, number: usize) -> Option<()> {
        state.faults_left -= 1;
        match state.writers[number].step.clone() {
            Step::Begin | Step::ReadAgain(..) | Step::Send(_) => return None,
            Step::InsertText(work) => {
                state.send(work.insert());
                state.denied |= 1 << work.id;
                state.writers[number].step = Step::Begin;
            }
            Step::Await(mut work) | Step::AwaitCommit(mut work, _) => {
                work.is_unknown = true;
                state.writers[number].step = if !self.is_weakened(Weakening::NoReadBack) {
                    Step::ReadBack(work)
                } else if work.attempt + 1 < ATTEMPTS {
                    Step::Send(Work { attempt: work.attempt + 1, ..work })
                } else {
                    Step::Begin
                };
            }
            Step::ReadBack(_) => state.writers[number].step = Step::Begin,
            Step::CleanUp(work, done) => {
                if let Some(effect) = work.leftover(done, self.weakening) {
                    state.send(effect);
                }
                state.writers[number].step = Step::Begin;
            }
        }
        state.check_denials();
        Some(())
    }
}
