//! The database in the model: one page's head and texts on three copies.
//!
//! A lightweight transaction is an atomic register: it is decided at one instant, and everything that was decided before is
//! then on a quorum. Its commit reaches each copy later or never. Plain writes reach each copy later or never too, and are
//! ordered by their timestamps alone. Any message may arrive after everybody has given up on it.

/// Any two of three copies are a quorum.
pub(crate) const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

/// One place for each write, more than any scenario has, and one for the text that the page has at the start.
pub(crate) const WRITES: usize = 6;

/// A write. The number is also its nonce, the name of the text that it inserts, and the title that it sets.
pub(crate) type WriteId = u8;

/// A time in a page's columns, and a timestamp of a plain write.
pub(crate) type Time = u8;

/// The columns of a head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Head {
    pub(crate) version: u8,
    pub(crate) updated_at: Time,
    /// Title and text of an active page; `None` for a tombstone.
    pub(crate) page: Option<Shown>,
    /// The nonces of the last writes, the newest first.
    pub(crate) nonces: Vec<WriteId>,
}

impl Head {
    /// Whether this head has a higher version than `other`, or the same version and a later time. A tombstone is newer than
    /// the page of its version and time.
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        let key = |head: &Self| (head.version, head.updated_at, head.page.is_none());
        key(self) > key(other)
    }
}

/// The title and text of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shown {
    pub(crate) title: WriteId,
    pub(crate) text: WriteId,
    /// The edit key and the time of the create, named after the write that created the page.
    pub(crate) key: WriteId,
}

/// The columns that a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Columns {
    /// The image of the whole head.
    All,
    /// A weakening: all but the text.
    NotText,
    /// A weakening: all but the title.
    NotTitle,
}

/// A transaction that was decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) write: WriteId,
    /// How many entries the writer had seen.
    pub(crate) base: usize,
    /// Whether the record of an archive was stored.
    pub(crate) is_import: bool,
    pub(crate) columns: Columns,
    pub(crate) head: Head,
}

/// A transaction on its way to the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transaction {
    pub(crate) attempt: u8,
    /// Version and time of the head that it replaces; `None` if there must be none.
    pub(crate) expected: Option<(u8, Time)>,
    pub(crate) entry: Entry,
}

/// A message to one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) to: usize,
    pub(crate) effect: Effect,
}

/// The effect of a message on a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// The commit of an entry.
    Commit(usize),
    /// The insert of a text.
    Insert(WriteId, Time),
    /// The deletion of a text.
    Delete(WriteId, Time),
    /// The deletion of all texts.
    DeleteAll(Time),
}

/// One copy of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Copy {
    /// The entries that it has, one bit each.
    pub(crate) entries: u16,
    /// The timestamp of each text that it has; 0 if it does not have the text.
    inserted: [Time; WRITES],
    /// The timestamp of the deletion of each text.
    deleted: [Time; WRITES],
    /// The timestamp of the deletion of all texts.
    all_deleted: Time,
}

impl Copy {
    /// Takes one message.
    pub(crate) fn take(&mut self, effect: Effect) {
        let raise = |slot: &mut Time, time: Time| *slot = (*slot).max(time);
        match effect {
            Effect::Commit(entry) => self.entries |= 1 << entry,
            Effect::Insert(text, time) => raise(&mut self.inserted[usize::from(text)], time),
            Effect::Delete(text, time) => raise(&mut self.deleted[usize::from(text)], time),
            Effect::DeleteAll(time) => raise(&mut self.all_deleted, time),
        }
    }

    /// Whether a query of these two copies returns `text`.
    pub(crate) fn show(&self, other: &Self, text: WriteId) -> bool {
        let text = usize::from(text);
        let newest = |of: fn(&Self, usize) -> Time| of(self, text).max(of(other, text));
        let inserted = newest(|copy, text| copy.inserted[text]);
        let deleted = newest(|copy, text| copy.deleted[text].max(copy.all_deleted));
        // A deletion wins if the timestamps are equal.
        inserted > deleted
    }

    /// The text with the latest timestamp among those that a query of these two copies returns.
    pub(crate) fn newest_text(&self, other: &Self) -> Option<WriteId> {
        let inserted = |text: WriteId| self.inserted[usize::from(text)].max(other.inserted[usize::from(text)]);
        let texts = (0..WRITES).map(|text| WriteId::try_from(text).expect("there are few"));
        texts.filter(|&text| self.show(other, text)).max_by_key(|&text| inserted(text))
    }
}

/// The head that copies with these `entries` show together, and the number of the newest entry. Each column has the value
/// of the newest entry that wrote it.
pub(crate) fn merged(chain: &[Entry], entries: u16) -> Option<(usize, Head)> {
    let mut shown: Option<(usize, Head)> = None;
    for (number, entry) in chain.iter().enumerate().filter(|(number, _)| entries & (1 << number) != 0) {
        let mut head = entry.head.clone();
        if let (Some((_, before)), Some(page)) = (&shown, &mut head.page) {
            match (entry.columns, before.page) {
                (Columns::NotText, Some(before)) => page.text = before.text,
                (Columns::NotTitle, Some(before)) => page.title = before.title,
                _ => {}
            }
        }
        shown = Some((number, head));
    }
    shown
}
