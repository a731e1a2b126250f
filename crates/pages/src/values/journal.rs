//! The journal of a store: one line of JSON for each deletion, takedown, hiding and showing (contract, decision 18).
//!
//! After a restore, [`remaining`] lines apply to the older pages, in any order.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::head::{Head, PageVersion, State, Tombstone};
use super::slug::Slug;
use super::takedown::{Takedown, TakedownReason};
use super::timestamp::UnixMillis;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub kind: Kind,
    pub slug: String,
    /// After the act.
    pub version: u64,
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<TakedownReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    pub slug: Slug,
    pub version: PageVersion,
    pub at: UnixMillis,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Delete(Option<Takedown>),
    Hide(Takedown),
    Show,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Delete,
    Takedown,
    Hide,
    Show,
    /// Takes back the last line with the same slug, version and time.
    Void,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Takedown => "takedown",
            Self::Hide => "hide",
            Self::Show => "show",
            Self::Void => "void",
        }
    }

    pub fn of_act(name: &str) -> Option<Self> {
        [Self::Delete, Self::Takedown, Self::Hide, Self::Show].into_iter().find(|kind| kind.name() == name)
    }
}

impl Line {
    /// What the journal must have before `next` is stored; `None` if that is no act. `was_hidden` says whether it takes the
    /// place of a hidden page.
    pub fn of(next: &Head, was_hidden: bool) -> Option<Self> {
        let (kind, takedown) = match &next.state {
            State::Active(_) if was_hidden => (Kind::Show, None),
            State::Active(_) => return None,
            State::Hidden(_, takedown) => (Kind::Hide, Some(takedown)),
            State::Deleted(None) => (Kind::Delete, None),
            State::Deleted(Some(takedown)) => (Kind::Takedown, Some(takedown)),
        };
        Some(Self {
            kind,
            slug: next.slug.to_string(),
            version: next.version.get(),
            at: next.changed_at.to_string(),
            reason: takedown.map(|takedown| takedown.reason),
            by: takedown.map(|takedown| takedown.by.clone()),
        })
    }

    /// `None` if the line is void or makes no sense.
    pub fn act(&self) -> Option<Act> {
        let slug = Slug::parse(&self.slug).ok()?;
        let at = UnixMillis::parse(&self.at)?;
        let takedown = match (self.reason, &self.by) {
            (Some(reason), Some(by)) => Some(Takedown::new(reason, by).ok()?),
            _ => None,
        };
        let change = match self.kind {
            Kind::Delete | Kind::Takedown => Change::Delete(takedown),
            Kind::Hide => Change::Hide(takedown?),
            Kind::Show => Change::Show,
            Kind::Void => return None,
        };
        Some(Act { slug, version: PageVersion::new(self.version), at, change })
    }
}

impl Act {
    /// What this act makes of what a restored store has under its slug; `None` if that stays. Only times compare, because a
    /// restored page continues from an older version. An absent page that was hidden is deleted, so that no import shows it.
    pub fn on(&self, found: Option<&Head>) -> Option<Head> {
        let Self { slug, version, at, change } = self;
        let Some(found) = found else {
            let takedown = match change {
                Change::Delete(takedown) => takedown.clone(),
                Change::Hide(takedown) => Some(takedown.clone()),
                Change::Show => return None,
            };
            return Some(Tombstone::alone(slug.clone(), *version, *at, takedown).map_state(State::Deleted));
        };
        let live = found.live()?;
        if let Change::Delete(takedown) = change {
            let version = found.version.next().max(*version);
            let tombstone = Tombstone::alone(slug.clone(), version, *at, takedown.clone());
            let tombstone = Head { created_at: found.created_at, ..tombstone.map_state(State::Deleted) };
            return (*at >= found.changed_at).then_some(tombstone);
        }
        let state = match change {
            Change::Hide(takedown) => State::Hidden(live.clone(), takedown.clone()),
            Change::Show | Change::Delete(_) => State::Active(live.clone()),
        };
        (*at > found.changed_at).then(|| Head { changed_at: *at, state, ..found.clone() })
    }
}

/// The lines that a restored store must repeat: neither void lines nor the lines that they take back, and only the last
/// line about hiding or showing of each page.
pub fn remaining(lines: Vec<Line>) -> Vec<Line> {
    let mut voids = HashSet::new();
    let mut done = Vec::with_capacity(lines.len());
    for line in lines.into_iter().rev() {
        let key = (line.slug.clone(), line.version, line.at.clone());
        if line.kind == Kind::Void {
            voids.insert(key);
        } else if !voids.remove(&key) {
            done.push(line);
        }
    }
    let (mut hidings, mut remaining): (Vec<_>, Vec<_>) =
        done.into_iter().rev().partition(|line| matches!(line.kind, Kind::Hide | Kind::Show));
    // Times of one form sort like their texts. A cluster's journal is in no order.
    hidings.sort_by(|one, other| one.at.cmp(&other.at));
    let last: HashMap<_, _> = hidings.into_iter().map(|line| (line.slug.clone(), line)).collect();
    remaining.extend(last.into_values());
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKeyHash;
    use crate::values::head::PageHead;

    fn line(kind: Kind, version: u64, at: i64) -> Line {
        let act = kind == Kind::Hide;
        Line {
            kind,
            slug: "a-page-22222222".to_owned(),
            version,
            at: UnixMillis::new(at).to_string(),
            reason: act.then_some(TakedownReason::Spam),
            by: act.then(|| "desk".to_owned()),
        }
    }

    /// What a store has of the page: version 3, hidden or not, last written at 30.
    fn stored(is_hidden: bool) -> Head {
        let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
        let slug = Slug::parse("a-page-22222222").unwrap();
        let head = PageHead::first(slug, Details::default(), EditKeyHash::from_bytes([0; 32]), UnixMillis::new(10));
        let head = Head { version: PageVersion::new(3), changed_at: UnixMillis::new(30), ..head };
        head.map_state(|live| if is_hidden { State::Hidden(live, takedown) } else { State::Active(live) })
    }

    #[test]
    fn an_act_spares_a_page_that_was_written_later_whatever_the_versions() {
        for (kind, version, spared, done) in
            [(Kind::Delete, 2, 29, 30), (Kind::Takedown, 9, 29, 30), (Kind::Hide, 2, 30, 31), (Kind::Show, 9, 30, 31)]
        {
            for is_hidden in [false, true] {
                let stored = stored(is_hidden);
                let on = |at| line(kind, version, at).act().unwrap().on(Some(&stored));
                assert_eq!(on(spared), None, "{kind:?}");
                let next = on(done).unwrap();
                assert_eq!((next.changed_at.get(), next.created_at.get()), (done, 10), "{kind:?}");
                assert!(next.order() > stored.order() || kind == Kind::Hide || kind == Kind::Show, "{kind:?}");
            }
        }
    }

    #[test]
    fn hiding_and_showing_leave_what_readers_hold_of_a_page() {
        for (kind, is_hidden) in [(Kind::Hide, false), (Kind::Show, true)] {
            let stored = stored(is_hidden);
            let next = line(kind, 9, 31).act().unwrap().on(Some(&stored)).unwrap();
            assert_eq!(next.live(), stored.live());
            assert_eq!((next.version, next.updated_at), (stored.version, stored.updated_at));
            assert_eq!(matches!(next.state, State::Hidden(..)), kind == Kind::Hide);
        }
    }

    #[test]
    fn an_absent_page_that_was_hidden_is_deleted() {
        let on_nothing = |kind| line(kind, 5, 31).act().unwrap().on(None);
        assert_eq!(on_nothing(Kind::Show), None);
        for (kind, is_takedown) in [(Kind::Delete, false), (Kind::Hide, true)] {
            let tombstone = on_nothing(kind).unwrap();
            assert_eq!((tombstone.version.get(), tombstone.changed_at.get()), (5, 31));
            assert!(matches!(tombstone.state, State::Deleted(takedown) if takedown.is_some() == is_takedown));
        }
        let deleted = stored(false).map_state(|_| State::Deleted(None));
        for kind in [Kind::Delete, Kind::Hide, Kind::Show] {
            assert_eq!(line(kind, 9, 99).act().unwrap().on(Some(&deleted)), None);
        }
    }

    #[test]
    fn a_void_line_takes_back_the_line_before_it() {
        let lines = [(Kind::Delete, 2), (Kind::Void, 2), (Kind::Show, 3), (Kind::Delete, 2)];
        let left = remaining(lines.map(|(kind, version)| line(kind, version, 31)).to_vec());
        let left: Vec<_> = left.into_iter().map(|line| (line.kind, line.version)).collect();
        assert_eq!(left, [(Kind::Delete, 2), (Kind::Show, 3)]);
    }

    #[test]
    fn only_the_last_hiding_or_showing_of_a_page_remains() {
        let of = |slug: &str, kind, at| Line { slug: slug.to_owned(), ..line(kind, 5, at) };
        let lines = vec![
            of("a-22222222", Kind::Show, 3),
            of("a-22222222", Kind::Hide, 2),
            of("b-22222222", Kind::Hide, 2),
            of("b-22222222", Kind::Show, 3),
            of("b-22222222", Kind::Hide, 4),
            of("c-22222222", Kind::Hide, 4),
            of("c-22222222", Kind::Show, 4),
            of("a-22222222", Kind::Delete, 1),
        ];
        let mut left: Vec<_> = remaining(lines).into_iter().map(|line| (line.slug, line.kind)).collect();
        left.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [("a", Kind::Delete), ("a", Kind::Show), ("b", Kind::Hide), ("c", Kind::Show)];
        assert_eq!(left, expected.map(|(letter, kind)| (format!("{letter}-22222222"), kind)));
    }

    #[test]
    fn a_void_line_and_one_without_a_reason_are_no_acts() {
        assert_eq!(line(Kind::Void, 5, 31).act(), None);
        assert_eq!(Line { reason: None, ..line(Kind::Hide, 5, 31) }.act(), None);
    }
}
