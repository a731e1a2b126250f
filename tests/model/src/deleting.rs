//! The steps of those who delete one page, read the ledger and the audit, and restore a backup.

use crate::ledger::{
    Entered, Head, LedgerModel, LedgerWeakening, NOT_AUDITED, RETURNED, RUNS, Reader, Restore, Sent, State, Step, Store,
};

impl LedgerModel {
    pub(crate) fn is_weakened(&self, weakening: LedgerWeakening) -> bool {
        self.weakening == Some(weakening)
    }

    /// The next step of a run, which succeeds.
    pub(crate) fn go(&self, state: &mut State, run: usize) -> Option<()> {
        let is_takedown = RUNS[run].is_takedown;
        let is_cluster = self.store == Store::Cluster;
        let step = state.runs[run];
        state.runs[run] = match step {
            // An operator tries again when the first attempt has ended.
            Step::Begin if run == 1 && state.runs[0] != Step::End => return None,
            Step::Begin => match state.head {
                Head::Active(version, _) if is_cluster || self.is_weakened(LedgerWeakening::EnteredBeforeHead) => {
                    Step::NoteDeletion(version)
                }
                Head::Active(version, _) => Step::Bury(version),
                // The owner is told that the page is gone, and believes it.
                Head::Deleted(..) if self.is_weakened(LedgerWeakening::GoneWithoutLedger) => Step::Answer(true),
                Head::Deleted(..) => Step::Ensure,
            },
            Step::NoteDeletion(version) => {
                if self.is_weakened(LedgerWeakening::EnteredBeforeHead) {
                    state.ledger = Entered::Tombstone(Head::Deleted(version + 1, run));
                } else if state.ledger == Entered::No {
                    state.ledger = Entered::Begun;
                }
                if is_takedown { Step::NoteTakedown(version) } else { Step::Bury(version) }
            }
            Step::NoteTakedown(version) => {
                if self.is_weakened(LedgerWeakening::AuditedBeforeHead) {
                    state.audit.push(run);
                }
                if !self.is_weakened(LedgerWeakening::NotedAfterHead) {
                    state.notes |= 1 << run;
                }
                Step::Bury(version)
            }
            Step::Bury(version) if self.bury(state, run, version) => Step::Enter,
            // Somebody changed or deleted the page; the operator looks again, and the owner's request ends.
            Step::Bury(_) => {
                state.notes &= !(1 << run);
                if is_takedown { Step::Begin } else { Step::End }
            }
            Step::LookForOwn if state.deleted_by == Some(run) => Step::Enter,
            // The outcome stays unknown.
            Step::LookForOwn => Step::End,
            Step::Enter => {
                self.enter(state);
                self.after_entering(state, run, true)
            }
            Step::Audit if state.audit.contains(&run) => {
                state.notes &= !(1 << run);
                Step::Ensure
            }
            Step::Audit => Step::Append(state.audit.len()),
            Step::Append(number) => {
                append(state, run, number);
                // The next look finds it, or that the number was taken.
                Step::Audit
            }
            Step::Ensure => {
                self.enter(state);
                Step::Answer(true)
            }
            Step::Answer(is_in_ledger) => {
                state.is_confirmed |= is_in_ledger;
                Step::End
            }
            Step::End => return None,
        };
        Some(())
    }

    /// Writes the tombstone if the page still has `version`. Returns whether that was so.
    fn bury(&self, state: &mut State, run: usize, version: u8) -> bool {
        let is_same = matches!(state.head, Head::Active(present, _) if present == version);
        if is_same {
            state.head = Head::Deleted(version + 1, run);
            state.deleted_by = Some(run);
            if self.store == Store::Embedded {
                state.is_missing = true;
                state.is_listed = !self.is_weakened(LedgerWeakening::NoListOfMissing);
                if RUNS[run].is_takedown {
                    state.audit.push(run);
                }
            }
            if self.is_weakened(LedgerWeakening::ConfirmedBeforeLedger) {
                state.is_confirmed = true;
            }
        }
        is_same
    }

    /// The ledger gets the page's tombstone.
    pub(crate) fn enter(&self, state: &mut State) {
        if self.store == Store::Cluster || state.is_missing {
            state.ledger = Entered::Tombstone(state.head);
            state.is_missing = false;
            state.is_listed = false;
        }
    }

    /// The step after the ledger was written, or could not be.
    fn after_entering(&self, state: &mut State, run: usize, is_in_ledger: bool) -> Step {
        match (self.store, RUNS[run].is_takedown) {
            (_, false) => Step::Answer(is_in_ledger),
            (Store::Embedded, true) => Step::Ensure,
            (Store::Cluster, true) => {
                if self.is_weakened(LedgerWeakening::NotedAfterHead) {
                    state.notes |= 1 << run;
                }
                Step::Audit
            }
        }
    }

    /// The next step of a run fails, or is not answered.
    pub(crate) fn fail(&self, state: &mut State, run: usize, has_effect: bool) -> Option<()> {
        let step = state.runs[run];
        if has_effect && !matches!(step, Step::NoteDeletion(_) | Step::NoteTakedown(_)) {
            return None;
        }
        if has_effect {
            self.go(state, run)?;
        }
        state.faults_left -= 1;
        state.runs[run] = match step {
            // Nothing was changed but the notes.
            Step::NoteDeletion(_) | Step::NoteTakedown(_) => Step::End,
            Step::Bury(version) if self.store == Store::Cluster => {
                state.sent.push(Sent::Bury(run, version));
                Step::LookForOwn
            }
            Step::LookForOwn => Step::End,
            Step::Enter => self.after_entering(state, run, false),
            Step::Append(number) => {
                state.sent.push(Sent::Append(run, number));
                Step::Audit
            }
            // The audit has to wait. Whoever reads it finds the note.
            Step::Audit => Step::Ensure,
            Step::Ensure => Step::Answer(false),
            _ => return None,
        };
        Some(())
    }

    /// A write that nobody waits for is decided.
    pub(crate) fn decide_late(&self, state: &mut State, number: usize) {
        match state.sent.remove(number) {
            Sent::Bury(run, version) => {
                self.bury(state, run, version);
            }
            Sent::Append(run, number) => append(state, run, number),
        }
    }

    /// The deletion in the ledger, as a reader of the ledger finds it. It enters what it finds by the page.
    pub(crate) fn read_ledger(&self, state: &mut State) -> Option<Head> {
        match (state.ledger, state.head) {
            (Entered::Tombstone(tombstone), _) => Some(tombstone),
            (Entered::Begun, _) if self.is_weakened(LedgerWeakening::BegunPassedOver) => None,
            (Entered::Begun, Head::Deleted(..)) => {
                state.ledger = Entered::Tombstone(state.head);
                Some(state.head)
            }
            (Entered::Begun, Head::Active(version, _)) if self.is_weakened(LedgerWeakening::BegunMeansDone) => {
                Some(Head::Deleted(version + 1, 0))
            }
            (Entered::Begun | Entered::No, _) => None,
        }
    }

    /// The next step of somebody who reads the audit.
    pub(crate) fn read_audit(&self, state: &mut State) -> Option<()> {
        state.reader = match state.reader {
            Reader::Idle if state.readings_left == 0 => return None,
            Reader::Idle => Reader::Settling(state.deleted_by, state.notes),
            Reader::Settling(deleted_by, 0) => {
                let has_it = |run: usize| !RUNS[run].is_takedown || state.audit.contains(&run);
                if !deleted_by.is_none_or(has_it) {
                    state.broken = Some(NOT_AUDITED);
                }
                state.readings_left -= 1;
                Reader::Idle
            }
            Reader::Settling(deleted_by, left) => {
                let run = left.trailing_zeros() as usize;
                let is_done = state.deleted_by == Some(run);
                if is_done && (self.is_weakened(LedgerWeakening::AppendedWithoutLook) || !state.audit.contains(&run)) {
                    Reader::Appending(deleted_by, left, run, state.audit.len())
                } else {
                    if is_done || self.is_weakened(LedgerWeakening::NoteRemovedAtOnce) {
                        state.notes &= !(1 << run);
                    }
                    Reader::Settling(deleted_by, left & !(1 << run))
                }
            }
            Reader::Appending(deleted_by, left, run, number) => {
                append(state, run, number);
                // The next look finds it, or that the number was taken.
                Reader::Settling(deleted_by, left)
            }
        };
        Some(())
    }

    /// The next step of a restore.
    pub(crate) fn restore(&self, state: &mut State) -> Option<()> {
        state.restore = match state.restore {
            Restore::No => return None,
            Restore::Restored if self.is_weakened(LedgerWeakening::NotReplayed) => Restore::Served,
            Restore::Restored => Restore::Read(self.read_ledger(state)),
            Restore::Read(tombstone) => {
                // A page of the backup is older than its deletion, so the import stores the tombstone. Only an edit since
                // the disaster is newer.
                if let (Some(tombstone @ Head::Deleted(deleted, _)), Head::Active(version, is_later)) =
                    (tombstone, state.head)
                    && (deleted, false) >= (version, is_later)
                {
                    state.head = tombstone;
                }
                Restore::Served
            }
            Restore::Served => return None,
        };
        if state.restore == Restore::Served && state.is_confirmed && matches!(state.head, Head::Active(..)) {
            state.broken = Some(RETURNED);
        }
        Some(())
    }
}

/// Appends `run` to the audit if `number` is free.
fn append(state: &mut State, run: usize, number: usize) {
    if state.audit.len() == number {
        state.audit.push(run);
    }
}
