//! The model of a page that operators hide and show, of the ledger that says so, and of a restore that replays it.
//!
//! One page, whose head is an atomic register: the model of a page shows that. A head is the time of its last change and whether
//! it hides the page. `crates/store-cql/src/ledger.rs`, `crates/store-redb/src/visibility.rs` and
//! `src/operators/archive/import.rs` are the programs that this describes.

use stateright::{Model, Property};

use crate::ledger::Store;

/// The acts of operators: whether each hides the page. The second tries the first again.
const RUNS: [bool; 3] = [true, true, false];

/// How often the owner edits the page.
const EDITS: u8 = 2;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HidingWeakening {
    /// An act is confirmed before the ledger has it.
    ConfirmedBeforeLedger,
    /// An act is entered in the ledger before the page's head is written.
    EnteredBeforeHead,
    /// The entry that is written last to the ledger stays, although it was done earlier.
    LastWrittenStays,
    /// A reader of the ledger does not look at the page.
    BegunPassedOver,
    /// A reader of the ledger takes any page that is later than its hiding for one that was shown.
    LaterMeansShown,
    /// The database does not know which acts the ledger lacks.
    NoListOfMissing,
    /// A restore does not replay the ledger.
    NotReplayed,
    /// An import of a page does not ask the ledger.
    PageWithoutLedger,
    /// An import of a page does not ask the ledger again after it has stored the page.
    PageWithoutSecondLook,
    /// An import of a page that finds something new in the ledger afterwards imports the page once more, as any other.
    PageImportedAgain,
    /// The acts of both sides of a forced move are settled without hiding the page again.
    SettledWithoutHiding,
    /// An import of the ledger looks for the page before it has entered what it imports.
    PageBeforeLedger,
    /// A page whose time is over is taken down, although it was changed since it was looked at.
    EndedWithoutComparing,
    /// The owner's edit does not compare the page with what it has read.
    EditedWithoutComparing,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct HidingModel {
    pub(crate) store: Store,
    pub(crate) weakening: Option<HidingWeakening>,
}

/// When a page was changed last, or when operators did something, and whether the page is hidden since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Seen {
    at: u8,
    is_hidden: bool,
}

/// The head of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Head {
    Absent,
    Page(Seen),
    Deleted,
}

/// The part of the ledger that is about the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Row {
    /// When the latest act was done that was begun.
    begun: u8,
    noted: Option<Seen>,
}

/// The next step of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Begin,
    /// The change of this head is noted.
    Note(Seen),
    /// The head is replaced.
    Turn(Seen),
    /// The page is read, to learn whether the head was written.
    Look(Seen),
    Enter(Seen),
    /// The ledger gets what it lacks of this page.
    Ensure(Seen),
    End,
}

/// The next step of an import of the ledger, which has this entry, or of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Import {
    No,
    Keep(Seen),
    /// The page is looked for, and hidden or shown if it is older.
    Look(Seen),
    Ask(Seen),
    /// The page, and what the ledger said when it was asked.
    Store(Seen, Option<Seen>),
    AskAgain(Seen, Option<Seen>),
    End,
}

/// The course of a disaster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Restore {
    No,
    Importing,
    Served,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    head: Head,
    /// The page in a backup or an archive.
    backup: Option<Seen>,
    row: Row,
    /// Acts that the embedded store's process still has to enter, and that its database knows of.
    missing: Option<Seen>,
    listed: Option<Seen>,
    /// Changes of the head that were sent and that nobody waits for: each run and the head that it replaces.
    sent: Vec<(usize, Seen)>,
    runs: [Step; RUNS.len()],
    edits_left: u8,
    editing: Option<Seen>,
    ending: Option<Seen>,
    faults_left: u8,
    can_fork: bool,
    is_forked: bool,
    restore: Restore,
    /// The imports of the ledger and of the page.
    imports: [Import; 2],
    /// The last act that was done, and the last that was confirmed.
    done: Option<Seen>,
    confirmed: Option<Seen>,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Go(usize),
    /// The next step of a run fails, or is not answered. `true`: it takes effect all the same.
    Fail(usize, bool),
    Late(usize),
    Crash,
    Edit,
    /// A page whose time is over is looked at, and then taken down.
    EndHiding,
    Backup,
    ReadLedger,
    /// The other side of a forced move edits the page, and its head wins.
    Fork,
    /// The acts of both sides are settled.
    Settle,
    /// The pages are those of a snapshot, or there are none and an archive is imported. Both replay the ledger.
    Disaster(bool),
    Import(usize),
}

const RETURNED: &str = "no restore shows a page whose hiding was confirmed";
const HIDDEN_AGAIN: &str = "no restore hides a page that was shown again";
const NOT_DONE: &str = "the ledger has only acts of operators that were done";
const INCOMPLETE: &str = "a ledger that is read has what operators did last";
const LOST: &str = "a page that was shown again is not taken down";
const SHOWN_BY_OWNER: &str = "an edit shows no hidden page";

impl HidingModel {
    /// The stores as they are.
    pub(crate) fn as_it_is() -> [(Self, &'static str); 2] {
        let model = |store| Self { store, weakening: None };
        [
            (
                model(Store::Cluster),
                "a page that is hidden and shown, edits, its end and a restore of a cluster, two faults",
            ),
            (
                model(Store::Embedded),
                "a page that is hidden and shown, edits, its end and a restore of the embedded store, two faults",
            ),
        ]
    }

    /// The stores with one rule left out, and what then must be found.
    pub(crate) fn weakened() -> Vec<(Self, &'static str)> {
        use HidingWeakening as W;
        let model = |store| move |(weakening, rule)| (Self { store, weakening: Some(weakening) }, rule);
        let cluster = [
            (W::ConfirmedBeforeLedger, RETURNED),
            (W::EnteredBeforeHead, NOT_DONE),
            (W::LastWrittenStays, HIDDEN_AGAIN),
            (W::BegunPassedOver, INCOMPLETE),
            (W::LaterMeansShown, INCOMPLETE),
            (W::NotReplayed, RETURNED),
            (W::PageWithoutLedger, RETURNED),
            (W::PageWithoutSecondLook, RETURNED),
            (W::PageImportedAgain, HIDDEN_AGAIN),
            (W::PageBeforeLedger, RETURNED),
            (W::SettledWithoutHiding, RETURNED),
            (W::EndedWithoutComparing, LOST),
            (W::EditedWithoutComparing, SHOWN_BY_OWNER),
        ];
        let embedded = [
            (W::ConfirmedBeforeLedger, RETURNED),
            (W::NoListOfMissing, RETURNED),
            (W::NotReplayed, RETURNED),
            (W::EndedWithoutComparing, LOST),
        ];
        let embedded = embedded.into_iter().map(model(Store::Embedded));
        cluster.into_iter().map(model(Store::Cluster)).chain(embedded).collect()
    }

    /// The name of the weakening and its store.
    pub(crate) fn subject(&self) -> String {
        format!("hiding: {:?}, {:?}", self.weakening.expect("it is weakened"), self.store)
    }

    fn is_weakened(&self, weakening: HidingWeakening) -> bool {
        self.weakening == Some(weakening)
    }

    fn is_cluster(&self) -> bool {
        self.store == Store::Cluster
    }

    /// The next step of an operator, which succeeds.
    fn go(&self, state: &mut State, run: usize) -> Option<()> {
        let is_hiding = RUNS[run];
        let step = state.runs[run];
        state.runs[run] = match step {
            Step::Begin if run == 1 && state.runs[0] != Step::End => return None,
            Step::Begin => match state.head {
                Head::Page(seen) if seen.is_hidden == is_hiding => Step::Ensure(seen),
                Head::Page(seen) if self.is_cluster() => Step::Note(seen),
                Head::Page(seen) => Step::Turn(seen),
                Head::Deleted | Head::Absent => Step::End,
            },
            Step::Note(seen) => {
                let next = next(seen, is_hiding);
                state.row.begun = state.row.begun.max(next.at);
                if self.is_weakened(HidingWeakening::EnteredBeforeHead) {
                    state.row.noted = Some(next);
                }
                Step::Turn(seen)
            }
            Step::Turn(seen) if self.turn(state, run, seen) => Step::Enter(next(seen, is_hiding)),
            // The owner changed the page, or another operator did.
            Step::Turn(_) => Step::Begin,
            Step::Look(seen) if state.head == Head::Page(next(seen, is_hiding)) => Step::Enter(next(seen, is_hiding)),
            Step::Look(_) => Step::End,
            Step::Enter(act) => {
                self.enter(state, act);
                state.confirm(act);
                Step::End
            }
            Step::Ensure(seen) => {
                if self.is_cluster() {
                    let noted = self.visibility_with(state.row, seen);
                    if let Some(noted) = noted.filter(|noted| Some(*noted) != state.row.noted) {
                        self.enter(state, noted);
                    }
                } else if let Some(act) = state.missing {
                    self.enter(state, act);
                }
                if state.done.is_some_and(|done| done.is_hidden == is_hiding && done.at <= seen.at) {
                    let done = state.done?;
                    state.confirm(done);
                }
                Step::End
            }
            Step::End => return None,
        };
        Some(())
    }

    /// Replaces the head `seen`. Returns whether it was still there.
    fn turn(&self, state: &mut State, run: usize, seen: Seen) -> bool {
        if state.head != Head::Page(seen) {
            return false;
        }
        let act = next(seen, RUNS[run]);
        state.head = Head::Page(act);
        state.done = Some(act);
        if !self.is_cluster() {
            state.missing = Some(act);
            state.listed = Some(act).filter(|_| !self.is_weakened(HidingWeakening::NoListOfMissing));
        }
        if self.is_weakened(HidingWeakening::ConfirmedBeforeLedger) {
            state.confirm(act);
        }
        true
    }

    fn enter(&self, state: &mut State, act: Seen) {
        let is_later = state.row.noted.is_none_or(|noted| noted.at < act.at);
        if is_later || (self.is_cluster() && self.is_weakened(HidingWeakening::LastWrittenStays)) {
            state.row.noted = Some(act);
        }
        if state.missing == Some(act) {
            (state.missing, state.listed) = (None, None);
        }
    }

    /// The last act of operators, if the ledger has `row` and the page `seen`.
    fn visibility_with(&self, row: Row, seen: Seen) -> Option<Seen> {
        let is_begun = row.begun > row.noted.map_or(0, |noted| noted.at);
        let is_later = row.noted.is_none_or(|noted| noted.at < seen.at);
        let is_turned = row.noted.is_some_and(|noted| noted.is_hidden) != seen.is_hidden;
        let may_be_shown = is_begun || self.is_weakened(HidingWeakening::LaterMeansShown);
        if is_later && is_turned && (may_be_shown || seen.is_hidden) { Some(seen) } else { row.noted }
    }

    /// The entry that a reader of the ledger finds.
    fn read_ledger(&self, state: &State) -> Option<Seen> {
        match state.head {
            Head::Page(seen) if self.is_cluster() && !self.is_weakened(HidingWeakening::BegunPassedOver) => {
                self.visibility_with(state.row, seen)
            }
            _ => state.row.noted,
        }
    }

    fn fail(&self, state: &mut State, run: usize, has_effect: bool) -> Option<()> {
        let step = state.runs[run];
        state.faults_left -= 1;
        match step {
            Step::Note(_) if has_effect => {
                self.go(state, run)?;
                state.runs[run] = Step::End;
            }
            Step::Note(_) | Step::Enter(_) | Step::Ensure(_) if !has_effect => state.runs[run] = Step::End,
            Step::Turn(seen) if self.is_cluster() && !has_effect => {
                state.sent.push((run, seen));
                state.runs[run] = Step::Look(seen);
            }
            _ => return None,
        }
        Some(())
    }

    /// The next step of an import.
    fn import(&self, state: &mut State, number: usize) -> Option<()> {
        use HidingWeakening as W;
        state.imports[number] = match state.imports[number] {
            Import::Keep(act) => {
                let is_later = state.row.noted.is_none_or(|noted| noted.at < act.at);
                state.row.noted = if is_later { Some(act) } else { state.row.noted };
                if self.is_weakened(W::PageBeforeLedger) { Import::End } else { Import::Look(act) }
            }
            Import::Look(act) => {
                match state.head {
                    Head::Page(seen) if seen.at < act.at => state.head = Head::Page(act),
                    _ => {}
                }
                if self.is_weakened(W::PageBeforeLedger) && number == 0 { Import::Keep(act) } else { Import::End }
            }
            Import::Ask(page) => {
                let noted = state.row.noted.filter(|_| !self.is_weakened(W::PageWithoutLedger));
                Import::Store(page, noted)
            }
            Import::Store(page, noted) => {
                let turned = noted.filter(|noted| noted.at > page.at).unwrap_or(page);
                match state.head {
                    Head::Absent => state.head = Head::Page(turned),
                    // No page shows one that operators have hidden.
                    Head::Page(seen) if turned.at > seen.at && (turned.is_hidden || !seen.is_hidden) => {
                        state.head = Head::Page(turned);
                    }
                    Head::Page(_) | Head::Deleted => {}
                }
                Import::AskAgain(page, noted)
            }
            Import::AskAgain(page, noted) => {
                let is_left = self.is_weakened(W::PageWithoutSecondLook) || self.is_weakened(W::PageWithoutLedger);
                match state.row.noted.filter(|since| !is_left && Some(*since) != noted) {
                    Some(since) if self.is_weakened(W::PageImportedAgain) => Import::Store(page, Some(since)),
                    Some(since) => Import::Look(since),
                    None => Import::End,
                }
            }
            Import::No | Import::End => return None,
        };
        if state.imports.iter().all(|import| matches!(import, Import::No | Import::End)) {
            state.restore = Restore::Served;
            let Head::Page(seen) = state.head else { return Some(()) };
            // An act that was begun later and not confirmed may have been done or not.
            let is_last = state.confirmed == state.done;
            match state.confirmed {
                Some(act) if is_last && act.is_hidden && !seen.is_hidden => state.broken = Some(RETURNED),
                Some(act) if is_last && !act.is_hidden && seen.is_hidden => state.broken = Some(HIDDEN_AGAIN),
                _ => {}
            }
        }
        Some(())
    }

    fn disaster(&self, state: &mut State, is_snapshot: bool) -> Option<()> {
        let backup = state.backup?;
        // Beside a snapshot the ledger stays and is read afterwards; into an empty store a copy of it is imported.
        let copy = self.read_ledger(state);
        state.head = if is_snapshot { Head::Page(backup) } else { Head::Absent };
        let ledger = if is_snapshot { self.read_ledger(state) } else { copy };
        let ledger = ledger.filter(|_| !self.is_weakened(HidingWeakening::NotReplayed));
        if !is_snapshot {
            state.row = Row::default();
        }
        state.sent.clear();
        (state.editing, state.ending) = (None, None);
        let page = if is_snapshot { Import::No } else { Import::Ask(backup) };
        let ledger = ledger.map_or(Import::End, |act| {
            if self.is_weakened(HidingWeakening::PageBeforeLedger) { Import::Look(act) } else { Import::Keep(act) }
        });
        state.imports = [ledger, page];
        state.restore = Restore::Importing;
        if is_snapshot && ledger == Import::End {
            // Nothing is imported, so the restore ends at once.
            state.imports[1] = Import::AskAgain(backup, state.row.noted);
        }
        Some(())
    }
}

fn next(seen: Seen, is_hidden: bool) -> Seen {
    Seen { at: seen.at + 1, is_hidden }
}

impl State {
    fn confirm(&mut self, act: Seen) {
        if self.confirmed.is_none_or(|confirmed| confirmed.at < act.at) {
            self.confirmed = Some(act);
        }
    }
}

impl Model for HidingModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            head: Head::Page(Seen { at: 1, is_hidden: false }),
            backup: None,
            row: Row::default(),
            missing: None,
            listed: None,
            sent: Vec::new(),
            runs: [Step::Begin; RUNS.len()],
            edits_left: EDITS,
            editing: None,
            ending: None,
            faults_left: 2,
            can_fork: self.is_cluster(),
            is_forked: false,
            restore: Restore::No,
            imports: [Import::No; 2],
            done: None,
            confirmed: None,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        match state.restore {
            Restore::No => {}
            Restore::Importing => return actions.extend([0, 1].map(Action::Import)),
            Restore::Served => return,
        }
        for run in 0..RUNS.len() {
            actions.push(Action::Go(run));
            if state.faults_left > 0 {
                actions.extend([true, false].map(|has_effect| Action::Fail(run, has_effect)));
            }
        }
        actions.extend((0..state.sent.len()).map(Action::Late));
        actions.extend([Action::Edit, Action::EndHiding, Action::ReadLedger]);
        if state.is_forked {
            actions.push(Action::Settle);
        } else {
            actions.push(Action::Backup);
            actions.extend([true, false].map(Action::Disaster));
        }
        if state.can_fork {
            actions.push(Action::Fork);
        }
        if self.store == Store::Embedded && state.faults_left > 0 {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Go(run) => self.go(&mut next, run)?,
            Action::Fail(run, has_effect) => self.fail(&mut next, run, has_effect)?,
            Action::Late(number) => {
                let (run, seen) = next.sent.remove(number);
                self.turn(&mut next, run, seen);
            }
            Action::Crash => {
                next.faults_left -= 1;
                next.runs = next.runs.map(|step| if step == Step::Begin { step } else { Step::End });
                (next.editing, next.ending) = (None, None);
                // The start adds what the ledger lacks.
                next.missing = None;
                if let Some(act) = next.listed.take() {
                    self.enter(&mut next, act);
                }
            }
            Action::Edit => match (next.editing.take(), next.head) {
                (None, Head::Page(seen)) if next.edits_left > 0 && !seen.is_hidden => next.editing = Some(seen),
                (Some(read), Head::Page(seen))
                    if read == seen || self.is_weakened(HidingWeakening::EditedWithoutComparing) =>
                {
                    next.edits_left -= 1;
                    next.head = Head::Page(self::next(seen, false));
                    if seen.is_hidden {
                        next.broken = Some(SHOWN_BY_OWNER);
                    }
                }
                _ => {}
            },
            Action::EndHiding => match (next.ending.take(), next.head) {
                (None, Head::Page(seen)) if seen.is_hidden => next.ending = Some(seen),
                (Some(read), Head::Page(seen))
                    if read == seen || self.is_weakened(HidingWeakening::EndedWithoutComparing) =>
                {
                    next.head = Head::Deleted;
                    if !seen.is_hidden {
                        next.broken = Some(LOST);
                    }
                }
                _ => {}
            },
            Action::Backup => match next.head {
                Head::Page(seen) => next.backup = Some(seen),
                Head::Absent | Head::Deleted => return None,
            },
            Action::ReadLedger => {
                let found = self.read_ledger(&next);
                let is_page = matches!(next.head, Head::Page(_));
                let was_confirmed = next.done == next.confirmed;
                match (found, next.done) {
                    (Some(found), None) if found.is_hidden => next.broken = Some(NOT_DONE),
                    // The embedded store's ledger is complete once an act is confirmed, or the process started again.
                    (found, Some(done)) if is_page && (self.is_cluster() || was_confirmed) => {
                        if found.is_some_and(|found| found.is_hidden) != done.is_hidden {
                            next.broken = Some(INCOMPLETE);
                        }
                    }
                    _ => {}
                }
            }
            Action::Fork => {
                // Only an act that was confirmed is known to be on both sides. Once an operator has begun to show a page, an edit
                // of the other side shows it: they had decided so.
                let Head::Page(seen) = next.head else { return None };
                if next.row.begun > next.row.noted.map_or(0, |noted| noted.at) {
                    return None;
                }
                if next.done != next.confirmed || next.runs.iter().any(|step| !matches!(step, Step::Begin | Step::End))
                {
                    return None;
                }
                (next.can_fork, next.is_forked) = (false, true);
                next.head = Head::Page(Seen { at: seen.at + 5, is_hidden: false });
                next.runs = [Step::End; RUNS.len()];
                next.sent.clear();
                (next.editing, next.ending, next.backup) = (None, None, None);
            }
            Action::Settle => {
                next.is_forked = false;
                let noted = self.read_ledger(&next).filter(|noted| noted.is_hidden);
                if let (Some(_), Head::Page(seen)) = (noted, next.head)
                    && !seen.is_hidden
                {
                    if self.is_weakened(HidingWeakening::SettledWithoutHiding) {
                        next.broken = Some(RETURNED);
                    }
                    let act = self::next(seen, true);
                    next.head = Head::Page(act);
                    self.enter(&mut next, act);
                    (next.done, next.confirmed) = (Some(act), Some(act));
                }
            }
            Action::Disaster(is_snapshot) => self.disaster(&mut next, is_snapshot)?,
            Action::Import(number) => self.import(&mut next, number)?,
        }
        next.sent.sort_unstable();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RETURNED, |_, state: &State| state.broken != Some(RETURNED)),
            Property::always(HIDDEN_AGAIN, |_, state: &State| state.broken != Some(HIDDEN_AGAIN)),
            Property::always(NOT_DONE, |_, state: &State| state.broken != Some(NOT_DONE)),
            Property::always(INCOMPLETE, |_, state: &State| state.broken != Some(INCOMPLETE)),
            Property::always(LOST, |_, state: &State| state.broken != Some(LOST)),
            Property::always(SHOWN_BY_OWNER, |_, state: &State| state.broken != Some(SHOWN_BY_OWNER)),
        ]
    }
}
