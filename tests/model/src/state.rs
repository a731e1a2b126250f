//! The state of a page in the database and of everybody who uses it, and the rules that every state must keep.

use std::collections::BTreeSet;

use crate::database::{Copy, Effect, Entry, Message, PAIRS, Transaction, WRITES, WriteId};
use crate::protocol::{ReadStep, Reader, Writer};

// The rules by which the reports call them.
pub(crate) const OLD_READ: &str = "a read shows every write that was acknowledged or shown before";
pub(crate) const MIXTURE: &str = "a read shows a page as one write has made it";
pub(crate) const NO_TEXT: &str = "a read of an active page finds its text";
pub(crate) const LOST_UPDATE: &str = "a write replaces only the head that its writer has seen";
pub(crate) const REVIVAL: &str = "nothing follows a deletion";
pub(crate) const FALSE_DENIAL: &str = "a write that was reported as not done is not done";
pub(crate) const DONE_TWICE: &str = "a write is done once";
pub(crate) const READABLE_TEXT: &str = "no query returns a deleted text";
pub(crate) const FALSE_CONFIRMATION: &str = "a write that was reported as done is done";
pub(crate) const OLDER_RECORD: &str = "an import replaces nothing that is as new as its record";

/// A rule that was broken. The decisions are those of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// Decision 8: a read shows every write that was acknowledged, or shown, before the read began.
    OldRead,
    /// Decision 8: a read shows a page as one write has made it.
    Mixture,
    /// Decision 8: a read of an active page finds its text.
    NoText,
    /// Decision 8: a write replaces only the head that its writer has seen.
    LostUpdate,
    /// Decision 8: nothing follows a deletion.
    Revival,
    /// Decision 9: a write that was reported as not done is not done, at any time.
    FalseDenial,
    /// Decision 9: a write is done once.
    DoneTwice,
    /// Decision 11: no query returns a text after its deletion was acknowledged.
    ReadableText,
    /// Decision 9: a write that was reported as done is done.
    FalseConfirmation,
    /// Decision 18: an import never overwrites a newer version.
    OlderRecord,
}

/// The state of the database, and of everybody who uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) copies: [Copy; 3],
    /// Every transaction that was decided, in order.
    pub(crate) chain: Vec<Entry>,
    /// Messages to copies that have not arrived.
    pub(crate) messages: BTreeSet<Message>,
    /// Transactions that have not been decided.
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) writers: Vec<Writer>,
    pub(crate) readers: Vec<Reader>,
    pub(crate) faults_left: u8,
    /// How many entries somebody was told about.
    pub(crate) seen: usize,
    /// The writes that were reported as not done, one bit each.
    pub(crate) denied: u16,
    /// The texts whose deletion was acknowledged, one bit each.
    pub(crate) deleted: u16,
    pub(crate) broken: Option<Broken>,
}

/// Asks the first copy of `pair` for the head.
pub(crate) fn begin_read(state: &mut State, number: usize, pair: usize, first: usize, gone: Option<WriteId>) {
    let (first, second, seen) = (PAIRS[pair][first], PAIRS[pair][1 - first], state.seen);
    let entries = state.copies[first].entries;
    state.readers[number].step = ReadStep::FirstCopy { first, second, entries, seen, gone };
}

impl State {
    /// Sends `effect` to all copies. It arrives at each later, or never.
    pub(crate) fn send(&mut self, effect: Effect) {
        self.messages.extend((0..3).map(|to| Message { to, effect }));
    }

    /// Sends `effect` to all copies. `pair` has it when the sender goes on.
    pub(crate) fn send_to(&mut self, pair: usize, effect: Effect) {
        self.send(effect);
        for to in PAIRS[pair] {
            self.messages.remove(&Message { to, effect });
            self.copies[to].take(effect);
        }
    }

    /// The entries that `pair` has together.
    pub(crate) fn entries_of(&self, pair: usize) -> u16 {
        PAIRS[pair].iter().map(|&copy| self.copies[copy].entries).fold(0, std::ops::BitOr::bitor)
    }

    /// Brings a pair of copies to what they have together.
    pub(crate) fn repair(&mut self, pair: [usize; 2], entries: u16) {
        for copy in pair {
            self.copies[copy].entries |= entries;
        }
        self.drop_arrived();
    }

    /// Brings all that was decided to `pair`.
    pub(crate) fn commit_all(&mut self, pair: usize) {
        let all = (1 << self.chain.len()) - 1;
        self.repair(PAIRS[pair], all);
    }

    /// A commit that a copy has already need not arrive.
    pub(crate) fn drop_arrived(&mut self) {
        let copies = &self.copies;
        self.messages.retain(|message| match message.effect {
            Effect::Commit(entry) => copies[message.to].entries & (1 << entry) == 0,
            _ => true,
        });
    }

    /// Appends a decided entry, and returns its number.
    pub(crate) fn append(&mut self, entry: Entry) -> usize {
        let number = self.chain.len();
        if self.chain.iter().any(|before| before.write == entry.write) {
            self.broken = Some(Broken::DoneTwice);
        } else if self.denied & (1 << entry.write) != 0 {
            self.broken = Some(Broken::FalseDenial);
        } else if self.chain.last().is_some_and(|last| last.head.page.is_none()) {
            self.broken = Some(Broken::Revival);
        } else if entry.is_import && self.chain.last().is_some_and(|last| !entry.head.is_newer_than(&last.head)) {
            self.broken = Some(Broken::OlderRecord);
        } else if entry.base != number {
            self.broken = Some(Broken::LostUpdate);
        }
        self.chain.push(entry);
        self.send(Effect::Commit(number));
        number
    }

    /// Somebody was shown `newest` entries by a read that began when `seen` were known.
    pub(crate) fn show(&mut self, newest: usize, seen: usize) {
        if newest < seen {
            self.broken = Some(Broken::OldRead);
        }
        self.seen = self.seen.max(newest);
    }

    /// This state with its copies in an order that does not depend on their numbers. The copies are alike, so what can
    /// follow a state can follow any that differs from it only by the numbers of copies.
    pub(crate) fn representative(&self) -> Self {
        let key = |copy: usize| {
            let messages: Vec<Effect> =
                self.messages.iter().filter(|message| message.to == copy).map(|message| message.effect).collect();
            let reads = self.readers.iter().map(|reader| match reader.step {
                ReadStep::FirstCopy { first, second, .. } => (first == copy, second == copy),
                _ => (false, false),
            });
            (self.copies[copy].clone(), messages, reads.collect::<Vec<_>>())
        };
        let mut order = [0, 1, 2];
        order.sort_by_cached_key(|&copy| key(copy));
        let place = |copy: usize| order.iter().position(|&old| old == copy).expect("each copy has a place");
        let mut next = self.clone();
        next.copies = order.map(|copy| self.copies[copy].clone());
        next.messages =
            self.messages.iter().map(|message| Message { to: place(message.to), effect: message.effect }).collect();
        for reader in &mut next.readers {
            if let ReadStep::FirstCopy { first, second, .. } = &mut reader.step {
                (*first, *second) = (place(*first), place(*second));
            }
        }
        // Transactions that wait are a set, too.
        next.transactions.sort_by_key(|transaction| (transaction.entry.write, transaction.attempt));
        next
    }

    pub(crate) fn check_denials(&mut self) {
        if self.chain.iter().any(|entry| self.denied & (1 << entry.write) != 0) {
            self.broken = Some(Broken::FalseDenial);
        }
    }

    /// The texts that a head has named, one bit each.
    pub(crate) fn named_texts(&self) -> u16 {
        let texts = self.chain.iter().filter_map(|entry| entry.head.page).map(|page| 1 << page.text);
        texts.fold(0, std::ops::BitOr::bitor)
    }

    pub(crate) fn check_texts(&mut self) {
        for text in (0..WRITES).filter(|text| self.deleted & (1 << text) != 0) {
            let text = WriteId::try_from(text).expect("there are few");
            let is_readable = |[one, other]: [usize; 2]| self.copies[one].show(&self.copies[other], text);
            if PAIRS.into_iter().any(is_readable) {
                self.broken = Some(Broken::ReadableText);
            }
        }
    }
}
