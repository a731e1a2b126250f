//! The protocol in the model: what a replica does for one write, and a reader for one read, step by step.
//!
//! `crates/store-cql/src/store.rs`, `lwt.rs` and `import.rs`, and `src/operators/archive/import.rs`, are the program that this describes.
//! A client that crashes is one that takes no further step, which every run of the model includes.

use crate::database::{Columns, Effect, Entry, Head, Shown, Time, Transaction, WriteId};

/// The effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Create,
    /// A create with the key of a client. Two of them are one create and its repeat.
    KeyedCreate,
    NewTitle,
    NewText,
    /// A deletion by the page's owner, or a takedown: both write the same.
    Delete,
    /// The record of an archive is stored if it is newer than the store's.
    Import(Record),
}

/// A page or tombstone in an archive. Its page is the one that is there at the start, at another time of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) version: u8,
    /// When the page was changed or deleted.
    pub(crate) time: Time,
    pub(crate) is_tombstone: bool,
}

/// The edit key of the page at the start and of every record.
const KEY: WriteId = 0;

/// The first write of a scenario.
const FIRST: WriteId = 1;

impl Kind {
    /// Whether the write makes a page without reading first.
    pub(crate) fn is_create(self) -> bool {
        matches!(self, Self::Create | Self::KeyedCreate)
    }
}

impl Record {
    /// Whether this record is stored over `found`.
    pub(crate) fn is_newer_than(self, found: Option<&Head>) -> bool {
        let Some(found) = found else { return true };
        let is_active = found.page.is_some();
        match (self.version, self.time).cmp(&(found.version, found.updated_at)) {
            std::cmp::Ordering::Greater => is_active,
            std::cmp::Ordering::Equal => is_active && self.is_tombstone,
            std::cmp::Ordering::Less => false,
        }
    }
}

/// A rule of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Weakening {
    /// The head is written before its text.
    PointerBeforeText,
    /// The text that is replaced is deleted before the head.
    TextDeletedFirst,
    /// After an unknown outcome the write is sent again, and the answer to that is believed.
    NoReadBack,
    /// A row that does not show the write yet is taken for one that never will.
    UnchangedMeansNotDone,
    /// A row that may have lost the nonce is taken for one that never had it.
    ForgottenMeansNotDone,
    /// A transaction writes only the columns that change.
    MixedImage,
    /// A transaction does not compare versions.
    NoComparison,
    /// A page's deletion has the time of its own clock, and the page that it replaces may be later.
    DeletionByItsClock,
    /// A second read of a replica answers with the head of its first.
    StaleCache,
    /// A read does not repair the copies that it found different.
    NoReadRepair,
    /// A commit counts as acknowledged when one copy has it.
    CommitAtOne,
    /// A read takes the newest text that it finds, not the one that the head names.
    NewestText,
    /// An import stores its record whatever the store has.
    ImportWithoutComparing,
    /// An import takes a tombstone for a page that it may replace.
    ImportOverTombstone,
    /// An import replaces a head of the version that it has compared with, whatever the time of that head.
    ImportComparesVersionAlone,
    /// A page with the key of an imported page is taken for that import.
    ImportKnownByKey,
    /// A page with the key of a create is taken for the page that it made, although a repeat may have made it.
    RepeatKnownByKey,
    /// The text of a create is named after the page's key, so that a repeat has the text of the first.
    TextNamedByKey,
    /// An import that keeps the version puts its nonce in the place of the write that it replaces.
    NonceInWrongPlace,
    /// The texts of a page are deleted as of the time in the imported tombstone.
    ImportedDeletionAtItsTime,
}

/// One write on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Work {
    pub(crate) id: WriteId,
    pub(crate) kind: Kind,
    /// The text that it inserts, if it has one.
    pub(crate) text: WriteId,
    /// The head that it replaces, and how many entries had been made by then.
    pub(crate) base: Option<(usize, Head)>,
    pub(crate) head: Head,
    /// The time when it began.
    pub(crate) clock: Time,
    /// Whether an attempt had an unknown outcome.
    pub(crate) is_unknown: bool,
    pub(crate) attempt: u8,
}

/// A step of a write that comes next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The next write of the client begins.
    Begin,
    /// An import has found this version and time; the store's own read of the head comes next.
    ReadAgain(u8, Time),
    /// The insert of the text comes next.
    InsertText(Work),
    /// The transaction comes next.
    Send(Work),
    /// The transaction was sent, and nothing was answered yet.
    Await(Work),
    /// It was decided as this entry; the answer comes when a quorum has it.
    AwaitCommit(Work, usize),
    /// The read of the outcome comes next.
    ReadBack(Work),
    /// The outcome is known; the deletion of its leftovers comes next.
    CleanUp(Work, bool),
}

/// A client of a replica, which makes one write after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Writer {
    pub(crate) step: Step,
    /// How many writes have begun.
    pub(crate) begun: usize,
}

/// A reader, which makes one read after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(crate) step: ReadStep,
    /// Reads that have ended.
    pub(crate) ended: u8,
    /// The head of the last read, for a weakening.
    pub(crate) cached: Option<usize>,
}

/// A step of a read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadStep {
    /// The next read begins.
    Begin,
    /// The first copy has answered with these entries. The read began when `seen` entries were known.
    FirstCopy { first: usize, second: usize, entries: u16, seen: usize, gone: Option<WriteId> },
    /// The head is known; the read of the text comes next.
    Text { head: usize, text: WriteId, gone: Option<WriteId> },
}

/// The outcome of a write, as a row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    Refused,
    NotYet,
    TooOld,
}

impl Work {
    /// A write that makes what `kind` says of `base`, by a replica whose clock shows `clock`.
    pub(crate) fn new(
        id: WriteId,
        kind: Kind,
        base: Option<(usize, Head)>,
        clock: Time,
        kept: usize,
        weakening: Option<Weakening>,
    ) -> Self {
        let before = base.as_ref().map(|(_, head)| head);
        let shown = before.and_then(|head| head.page);
        let is_named_by_key = kind == Kind::KeyedCreate && weakening == Some(Weakening::TextNamedByKey);
        let text = if is_named_by_key { FIRST } else { id };
        let page = match (kind, shown) {
            (Kind::Create | Kind::KeyedCreate, _) => Some(Shown { title: id, text, key: id }),
            (Kind::NewTitle, Some(shown)) => Some(Shown { title: id, ..shown }),
            (Kind::NewText, Some(shown)) => Some(Shown { text: id, ..shown }),
            (Kind::Import(record), _) if !record.is_tombstone => Some(Shown { title: id, text: id, key: KEY }),
            _ => None,
        };
        let (version, updated_at) = match kind {
            Kind::Import(record) => (record.version, record.time),
            _ => {
                (before.map_or(1, |head| head.version + 1), before.map_or(clock, |head| clock.max(head.updated_at + 1)))
            }
        };
        let kept_before = before.filter(|head| head.version + 1 == version).map(|head| head.nonces.as_slice());
        let is_same_version = before.is_some_and(|head| head.version == version);
        let nonces = if is_same_version && weakening != Some(Weakening::NonceInWrongPlace) {
            Vec::new()
        } else {
            std::iter::once(id).chain(kept_before.unwrap_or_default().iter().copied()).take(kept).collect()
        };
        let head = Head { version, updated_at, page, nonces };
        Self { id, kind, text, base, head, clock, is_unknown: false, attempt: 0 }
    }

    /// Whether the write brings a text.
    pub(crate) fn has_text(&self) -> bool {
        matches!(
            self.kind,
            Kind::Create | Kind::KeyedCreate | Kind::NewText | Kind::Import(Record { is_tombstone: false, .. })
        )
    }

    /// The step after the beginning.
    pub(crate) fn first_step(self, weakening: Option<Weakening>) -> Step {
        if self.has_text() && weakening != Some(Weakening::PointerBeforeText) {
            Step::InsertText(self)
        } else {
            Step::Send(self)
        }
    }

    /// The insert of its text.
    pub(crate) fn insert(&self) -> Effect {
        Effect::Insert(self.text, self.head.updated_at)
    }

    /// Its transaction.
    pub(crate) fn transaction(&self, weakening: Option<Weakening>) -> Transaction {
        let columns = match (weakening, self.kind) {
            (Some(Weakening::MixedImage), Kind::NewTitle) => Columns::NotText,
            (Some(Weakening::MixedImage), Kind::NewText) => Columns::NotTitle,
            _ => Columns::All,
        };
        Transaction {
            attempt: self.attempt,
            expected: self.base.as_ref().map(|(_, head)| (head.version, head.updated_at)),
            entry: Entry {
                write: self.id,
                base: self.base.as_ref().map_or(0, |(entries, _)| *entries),
                is_import: matches!(self.kind, Kind::Import(_)),
                columns,
                head: self.head.clone(),
            },
        }
    }

    /// The outcome of this write, as `row` shows it.
    pub(crate) fn verdict(&self, row: Option<&Head>, weakening: Option<Weakening>) -> Verdict {
        let made = self.head.version;
        let verdict = match row {
            None if self.base.is_none() => Verdict::NotYet,
            None => Verdict::Refused,
            Some(row) => {
                let age = row.version.checked_sub(made).map(usize::from);
                let unchanged = self.base.as_ref().is_some_and(|(_, base)| row.version == base.version);
                let is_forgotten = age.is_some_and(|age| row.nonces.get(age).is_none());
                // A page keeps the key and the time of its create, so a create is recognised for as long as the page is
                // active. Each import of a page has these too, so the nonce decides if the row still has it.
                let key = if self.kind.is_create() { self.id } else { KEY };
                let is_any_repeat = self.kind == Kind::KeyedCreate && weakening == Some(Weakening::RepeatKnownByKey);
                let has_key = self.base.is_none() && row.page.is_some_and(|page| is_any_repeat || page.key == key);
                let is_known_by_key = has_key && (is_forgotten || weakening == Some(Weakening::ImportKnownByKey));
                if is_known_by_key || age.and_then(|age| row.nonces.get(age)) == Some(&self.id) {
                    Verdict::Done
                } else if unchanged && row.page.is_some() {
                    Verdict::NotYet
                } else if is_forgotten && (self.base.is_some() || row.page.is_none()) {
                    Verdict::TooOld
                } else {
                    Verdict::Refused
                }
            }
        };
        match (verdict, weakening) {
            (Verdict::NotYet, Some(Weakening::UnchangedMeansNotDone))
            | (Verdict::TooOld, Some(Weakening::ForgottenMeansNotDone)) => Verdict::Refused,
            _ => verdict,
        }
    }

    /// The leftovers that are deleted once the outcome is known.
    pub(crate) fn leftover(&self, done: bool, weakening: Option<Weakening>) -> Option<Effect> {
        let replaced = self.base.as_ref().and_then(|(_, head)| Some((head.page?.text, head.updated_at)));
        match (self.kind, done) {
            (Kind::Delete, true) => {
                let is_weakened = weakening == Some(Weakening::DeletionByItsClock);
                Some(Effect::DeleteAll(if is_weakened { self.clock } else { self.head.updated_at } + 1))
            }
            (Kind::Import(Record { is_tombstone: true, time, .. }), true) => {
                // Texts are there that were written after the deletion in the archive.
                let replaced_at = self.base.as_ref().map_or(0, |(_, head)| head.updated_at);
                let is_weakened = weakening == Some(Weakening::ImportedDeletionAtItsTime);
                let until = if is_weakened { time } else { time.max(self.clock).max(replaced_at) };
                Some(Effect::DeleteAll(until + 1))
            }
            (Kind::NewText | Kind::Import(_), true) => replaced.map(|(text, time)| Effect::Delete(text, time + 1)),
            (_, false) if self.has_text() => Some(Effect::Delete(self.text, self.head.updated_at + 1)),
            _ => None,
        }
    }
}
