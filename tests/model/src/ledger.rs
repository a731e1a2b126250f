//! The model of deletions beyond the page itself: the ledger, which a restore replays, and the audit of takedowns.
//!
//! One page, whose head is an atomic register: the model of a page shows that. Each deletion writes in several places, and
//! its process may end between any two of them. A conditional write may be decided after everybody has given up on it.
//! `crates/store-cql/src/ledger.rs` and `audit.rs`, and `crates/store-redb/src/ledger.rs`, are the programs that this describes.

use stateright::{Model, Property};

/// How often an owner and an operator try to delete the page. An operator tries again what was not confirmed.
pub(crate) const RUNS: [Run; 3] = [Run { is_takedown: true }, Run { is_takedown: true }, Run { is_takedown: false }];

/// How often somebody edits the page.
const EDITS: u8 = 2;

/// How often the audit is read.
const READINGS: u8 = 2;

/// One attempt to delete the page.
pub(crate) struct Run {
    pub(crate) is_takedown: bool,
}

/// The place where pages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// Pages, ledger and audit are tables without common transactions.
    Cluster,
    /// Pages, audit and a list of deletions that the ledger lacks are one database; the ledger is a file beside it.
    Embedded,
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LedgerWeakening {
    /// A deletion is confirmed before the ledger has it.
    ConfirmedBeforeLedger,
    /// A repeated delete is answered that the page is gone, and does not look into the ledger.
    GoneWithoutLedger,
    /// A deletion is entered in the ledger before the page's head is written.
    EnteredBeforeHead,
    /// The database does not know which deletions the ledger lacks.
    NoListOfMissing,
    /// A reader of the ledger passes over deletions that were begun and not entered.
    BegunPassedOver,
    /// A reader of the ledger takes each deletion that was begun for one that was done.
    BegunMeansDone,
    /// A restore does not replay the ledger.
    NotReplayed,
    /// A restore takes the ledger back in time too.
    LedgerRestoredToo,
    /// Clients write before the ledger is replayed.
    ServedBeforeReplay,
    /// A takedown is noted for the audit after the page's head was written.
    NotedAfterHead,
    /// A takedown is entered in the audit before the page's head is written.
    AuditedBeforeHead,
    /// An entry is appended to the audit without a look whether it is there.
    AppendedWithoutLook,
    /// A reader of the audit removes the note of a takedown that is not done yet.
    NoteRemovedAtOnce,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct LedgerModel {
    pub(crate) store: Store,
    pub(crate) weakening: Option<LedgerWeakening>,
}

/// The head of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Head {
    /// A version, and whether it was made after the disaster.
    Active(u8, bool),
    /// The version of a tombstone, and the run that left it.
    Deleted(u8, usize),
}

/// The part of the ledger that is about the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entered {
    No,
    /// A deletion was begun.
    Begun,
    Tombstone(Head),
}

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Begin,
    /// The deletion of this version is noted for the ledger.
    NoteDeletion(u8),
    /// It is noted for the audit.
    NoteTakedown(u8),
    /// The page's head is written.
    Bury(u8),
    /// The page is read, to learn whether the head was written.
    LookForOwn,
    /// The tombstone is entered in the ledger.
    Enter,
    /// The audit is read, and the entry appended if it is not there; then the note is removed.
    Audit,
    /// The entry is appended under this number.
    Append(usize),
    /// The takedown makes sure that the ledger has the page's tombstone.
    Ensure,
    /// The caller is answered: 204, or 410 to a repeated delete, if `true`, and then the ledger has the deletion; else 503.
    Answer(bool),
    End,
}

/// A conditional write that was sent and that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sent {
    Bury(usize, u8),
    Append(usize, usize),
}

/// Somebody who reads the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    Idle,
    /// The reading began when the page was deleted by this run, if by any, and these runs have still to be looked at.
    Settling(Option<usize>, u8),
    /// The entry of a run is appended under this number.
    Appending(Option<usize>, u8, usize, usize),
}

/// The course of a disaster, after which the pages are those of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Restore {
    No,
    /// The pages are those of the backup; the ledger is read next.
    Restored,
    /// The ledger was read; what it has is imported next.
    Read(Option<Head>),
    /// Clients are served again.
    Served,
}

/// The state of the page, of what is beside it, and of everybody who uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) head: Head,
    pub(crate) backup: Option<(Head, Entered)>,
    pub(crate) ledger: Entered,
    /// The embedded store's process knows that the ledger lacks the deletion.
    pub(crate) is_missing: bool,
    /// The embedded store's database knows it too.
    pub(crate) is_listed: bool,
    /// The runs that are noted as begun, one bit each.
    pub(crate) notes: u8,
    /// The runs in the audit, in order.
    pub(crate) audit: Vec<usize>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) runs: [Step; RUNS.len()],
    pub(crate) edits_left: u8,
    /// The version that an editor has read.
    pub(crate) editing: Option<u8>,
    pub(crate) reader: Reader,
    /// How often the audit is still read.
    pub(crate) readings_left: u8,
    pub(crate) restore: Restore,
    pub(crate) faults_left: u8,
    /// The run that deleted the page, before the disaster.
    pub(crate) deleted_by: Option<usize>,
    /// Somebody was answered 204, or 410 to a repeated delete.
    pub(crate) is_confirmed: bool,
    pub(crate) broken: Option<&'static str>,
}

/// A step of anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// A run takes its next step.
    Go(usize),
    /// The next step of a run fails, or is not answered. `true`: it takes effect all the same.
    Fail(usize, bool),
    /// A write that nobody waits for is decided.
    Late(usize),
    /// The embedded store's process ends and starts again.
    Crash,
    Edit,
    Backup,
    ReadLedger,
    ReadAudit,
    Disaster,
    Restore,
}

pub(crate) const RETURNED: &str = "no restore brings back a page whose deletion was confirmed";
const NOT_DELETED: &str = "the ledger has only deletions that were done";
const INCOMPLETE: &str = "a ledger that is read has every deletion that was done before";
pub(crate) const NOT_AUDITED: &str = "an audit that is read has every takedown that was done before";
const AUDITED_TWICE: &str = "a takedown is in the audit once";
const NOT_TAKEN_DOWN: &str = "the audit has only takedowns that were done";

impl LedgerModel {
    /// The stores as they are.
    pub(crate) fn as_it_is() -> [(Self, &'static str); 2] {
        let model = |store| Self { store, weakening: None };
        [
            (model(Store::Cluster), "takedowns, a deletion, edits, the audit and a restore of a cluster, two faults"),
            (model(Store::Embedded), "takedowns, a deletion, edits and a restore of the embedded store, two faults"),
        ]
    }

    /// The stores with one rule left out, and what then must be found.
    pub(crate) fn weakened() -> Vec<(Self, &'static str)> {
        use LedgerWeakening as W;
        let model = |store| move |(weakening, rule)| (Self { store, weakening: Some(weakening) }, rule);
        let cluster = [
            (W::ConfirmedBeforeLedger, RETURNED),
            (W::GoneWithoutLedger, RETURNED),
            (W::EnteredBeforeHead, NOT_DELETED),
            (W::BegunPassedOver, INCOMPLETE),
            (W::BegunMeansDone, NOT_DELETED),
            (W::NotReplayed, RETURNED),
            (W::LedgerRestoredToo, RETURNED),
            (W::ServedBeforeReplay, RETURNED),
            (W::NotedAfterHead, NOT_AUDITED),
            (W::AuditedBeforeHead, NOT_TAKEN_DOWN),
            (W::AppendedWithoutLook, AUDITED_TWICE),
            (W::NoteRemovedAtOnce, NOT_AUDITED),
        ];
        let embedded = [
            (W::ConfirmedBeforeLedger, RETURNED),
            (W::EnteredBeforeHead, NOT_DELETED),
            (W::NoListOfMissing, RETURNED),
            (W::NotReplayed, RETURNED),
            (W::LedgerRestoredToo, RETURNED),
        ];
        let embedded = embedded.into_iter().map(model(Store::Embedded));
        cluster.into_iter().map(model(Store::Cluster)).chain(embedded).collect()
    }

    /// The name of the weakening and its store.
    pub(crate) fn subject(&self) -> String {
        format!("{:?}, {:?}", self.weakening.expect("it is weakened"), self.store)
    }
}

impl Model for LedgerModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            head: Head::Active(1, false),
            backup: None,
            ledger: Entered::No,
            is_missing: false,
            is_listed: false,
            notes: 0,
            audit: Vec::new(),
            sent: Vec::new(),
            runs: [Step::Begin; RUNS.len()],
            edits_left: EDITS,
            editing: None,
            reader: Reader::Idle,
            readings_left: READINGS,
            restore: Restore::No,
            faults_left: 2,
            deleted_by: None,
            is_confirmed: false,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        actions.push(Action::Restore);
        let is_served = state.restore == Restore::No;
        if is_served || self.is_weakened(LedgerWeakening::ServedBeforeReplay) {
            actions.push(Action::Edit);
        }
        if !is_served {
            return;
        }
        for run in 0..RUNS.len() {
            actions.push(Action::Go(run));
            if state.faults_left > 0 {
                actions.extend([true, false].map(|has_effect| Action::Fail(run, has_effect)));
            }
        }
        actions.extend((0..state.sent.len()).map(Action::Late));
        actions.extend([Action::Backup, Action::ReadLedger, Action::Disaster]);
        match self.store {
            Store::Cluster => actions.push(Action::ReadAudit),
            Store::Embedded if state.faults_left > 0 => actions.push(Action::Crash),
            Store::Embedded => {}
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Go(run) => self.go(&mut next, run)?,
            Action::Fail(run, has_effect) => self.fail(&mut next, run, has_effect)?,
            Action::Late(number) => self.decide_late(&mut next, number),
            Action::Crash => {
                next.faults_left -= 1;
                next.runs = next.runs.map(|step| if step == Step::Begin { step } else { Step::End });
                next.editing = None;
                // The start adds what the ledger lacks.
                next.is_missing = next.is_listed;
                self.enter(&mut next);
            }
            Action::Edit => match (next.editing.take(), next.head) {
                (None, Head::Active(version, _)) if next.edits_left > 0 => next.editing = Some(version),
                (Some(read), Head::Active(version, _)) if read == version => {
                    next.edits_left -= 1;
                    next.head = Head::Active(version + 1, next.restore != Restore::No);
                }
                _ => {}
            },
            Action::Backup => next.backup = Some((next.head, next.ledger)),
            Action::ReadLedger => {
                let found = self.read_ledger(&mut next);
                if self.store == Store::Cluster && found.is_none() && next.deleted_by.is_some() {
                    next.broken = Some(INCOMPLETE);
                }
            }
            Action::ReadAudit => self.read_audit(&mut next)?,
            Action::Disaster => {
                let (head, ledger) = next.backup?;
                next.head = head;
                if self.is_weakened(LedgerWeakening::LedgerRestoredToo) {
                    next.ledger = ledger;
                }
                // Nobody writes while the database is replaced.
                next.sent.clear();
                next.editing = None;
                next.restore = Restore::Restored;
            }
            Action::Restore => self.restore(&mut next)?,
        }
        next.sent.sort_unstable();
        next.check();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RETURNED, |_, state: &State| state.broken != Some(RETURNED)),
            Property::always(NOT_DELETED, |_, state: &State| state.broken != Some(NOT_DELETED)),
            Property::always(INCOMPLETE, |_, state: &State| state.broken != Some(INCOMPLETE)),
            Property::always(NOT_AUDITED, |_, state: &State| state.broken != Some(NOT_AUDITED)),
            Property::always(AUDITED_TWICE, |_, state: &State| state.broken != Some(AUDITED_TWICE)),
            Property::always(NOT_TAKEN_DOWN, |_, state: &State| state.broken != Some(NOT_TAKEN_DOWN)),
        ]
    }
}

impl State {
    /// Looks whether a rule is broken that holds at any time.
    fn check(&mut self) {
        let is_in_ledger = matches!(self.ledger, Entered::Tombstone(_))
            || matches!(self.restore, Restore::Read(Some(_)))
            || matches!(self.head, Head::Deleted(..));
        if is_in_ledger && self.deleted_by.is_none() {
            self.broken = Some(NOT_DELETED);
        }
        for (number, run) in self.audit.iter().enumerate() {
            if self.audit[..number].contains(run) {
                self.broken = Some(AUDITED_TWICE);
            } else if self.deleted_by != Some(*run) {
                self.broken = Some(NOT_TAKEN_DOWN);
            }
        }
    }
}
