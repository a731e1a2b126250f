//! The journal of a store: one line of JSON for each deletion, takedown, hiding and showing (contract, decision 18).
//!
//! After a restore, the lines apply to the older pages ([`Outlook`]).

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::head::{Head, Live, PageVersion, State, Tombstone};
use super::takedown::{Takedown, TakedownReason};
use super::{page::Page, record::Record, slug::Slug, timestamp::UnixMillis};

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
    /// By this operator.
    Show(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    Delete,
    Takedown,
    Hide,
    Show,
    /// Takes back the last line with the same slug, version and time.
    Void,
}

impl Line {
    /// The line that the journal must have before `record` is stored; `None` if that is no act. `was_hidden` says whether the record
    /// takes the place of a hidden page.
    pub fn of(record: &Record, was_hidden: bool) -> Option<Self> {
        let takedown = record.takedown();
        let (kind, version, by) = match record {
            Record::Active(page) if was_hidden => (Kind::Show, page.head.version, page.head.state.shown_by.clone()),
            Record::Active(_) => return None,
            Record::Hidden(page, takedown) => (Kind::Hide, page.head.version, Some(takedown.by.clone())),
            Record::Deleted(tombstone) => {
                let kind = if takedown.is_some() { Kind::Takedown } else { Kind::Delete };
                (kind, tombstone.version, takedown.map(|takedown| takedown.by.clone()))
            }
        };
        Some(Self {
            kind,
            slug: record.slug().to_string(),
            version: version.get(),
            at: record.changed_at().to_string(),
            reason: takedown.map(|takedown| takedown.reason),
            by,
        })
    }

    fn key(&self) -> (String, u64, String) {
        (self.slug.clone(), self.version, self.at.clone())
    }

    /// Whether this line's act was done, if `found` is what the store that wrote the line has under its slug now. A later act
    /// has a line of its own.
    pub fn was_done(&self, found: Option<&Head>) -> bool {
        matches!(
            (self.kind, found.map(|head| &head.state)),
            (_, Some(State::Deleted(_))) | (Kind::Hide, Some(State::Hidden(..))) | (Kind::Show, Some(State::Active(_)))
        )
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
            Kind::Show => Change::Show(self.by.clone()),
            Kind::Void => return None,
        };
        Some(Act { slug, version: PageVersion::try_from(self.version).ok()?, at, change })
    }
}

impl Act {
    /// The record that repeats this act on what a restored store has under its slug; `None` if that stays.
    pub fn after(&self, found: Option<&Record>) -> Option<Record> {
        let next = self.on(found.map(Record::head).as_ref())?;
        let text = found.and_then(Record::page).map(|page| &page.text);
        // An act shows and hides only a page that is there.
        Record::from(next).try_map(|head| text.map(|text| Arc::new(Page { head, text: text.clone() })).ok_or(())).ok()
    }

    /// Only times compare, because a restored page continues from an older version. An absent page that was hidden is deleted, so
    /// that no import shows it.
    fn on(&self, found: Option<&Head>) -> Option<Head> {
        let Self { slug, version, at, change } = self;
        let Some(found) = found else {
            let takedown = match change {
                Change::Delete(takedown) => takedown.clone(),
                Change::Hide(takedown) => Some(takedown.clone()),
                Change::Show(_) => return None,
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
            Change::Show(by) => State::Active(Live { shown_by: by.clone(), ..live.clone() }),
            Change::Delete(_) => return None,
        };
        (*at > found.changed_at).then(|| Head { changed_at: *at, state, ..found.clone() })
    }
}

/// What must be known of all lines before one of them is repeated. Lines can then be repeated in any order, except for
/// lines of one page with one time.
#[derive(Debug, Default)]
pub struct Outlook {
    /// How many lines of an act are taken back, which nearly none is.
    voids: HashMap<(String, u64, String), usize>,
    /// When a page was shown last. Times of one form sort like their texts.
    shown: HashMap<String, String>,
}

impl Outlook {
    pub fn note(&mut self, line: &Line) {
        match line.kind {
            Kind::Void => *self.voids.entry(line.key()).or_default() += 1,
            Kind::Show => {
                let last = self.shown.entry(line.slug.clone()).or_default();
                if *last < line.at {
                    last.clone_from(&line.at);
                }
            }
            Kind::Delete | Kind::Takedown | Kind::Hide => {}
        }
    }

    /// Whether a restored store must repeat the line: it is not taken back, and no page is hidden that was shown later.
    pub fn must_repeat(&mut self, line: &Line) -> bool {
        if line.kind == Kind::Void {
            return false;
        }
        if !self.voids.is_empty()
            && let Some(voids) = self.voids.get_mut(&line.key()).filter(|voids| **voids > 0)
        {
            *voids -= 1;
            return false;
        }
        line.kind != Kind::Hide || self.shown.get(&line.slug).is_none_or(|shown| *shown <= line.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::details::Details;
    use crate::values::edit_key::EditKey;
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
        let head = PageHead::first(slug, Details::default(), EditKey::random(|_| 0).hash(), UnixMillis::new(10));
        let head = Head { version: PageVersion::FIRST.next().next(), changed_at: UnixMillis::new(30), ..head };
        head.map_state(|live| if is_hidden { State::Hidden(live, takedown) } else { State::Active(live) })
    }

    #[test]
    fn a_line_is_no_act_on_a_version_that_no_page_has() {
        assert_eq!([0, 1].map(|version| line(Kind::Delete, version, 30).act().is_some()), [false, true]);
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
        fn on_nothing(kind: Kind) -> Option<Head> {
            line(kind, 5, 31).act().unwrap().on(None)
        }

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

    fn repeated(lines: &[Line]) -> Vec<usize> {
        let mut outlook = Outlook::default();
        for line in lines {
            outlook.note(line);
        }
        (0..lines.len()).filter(|&number| outlook.must_repeat(&lines[number])).collect()
    }

    #[test]
    fn a_void_line_takes_back_one_line() {
        let lines = [(Kind::Delete, 2), (Kind::Void, 2), (Kind::Show, 3), (Kind::Delete, 2)];
        assert_eq!(repeated(&lines.map(|(kind, version)| line(kind, version, 31))), [2, 3]);
    }

    #[test]
    fn no_page_is_hidden_again_that_was_shown_later() {
        fn of(slug: &str, kind: Kind, at: i64) -> Line {
            Line { slug: slug.to_owned(), ..line(kind, 5, at) }
        }

        let lines = [
            of("a-22222222", Kind::Show, 3),
            of("a-22222222", Kind::Hide, 2),
            of("b-22222222", Kind::Hide, 2),
            of("b-22222222", Kind::Show, 3),
            of("b-22222222", Kind::Hide, 4),
            of("c-22222222", Kind::Hide, 2),
            of("a-22222222", Kind::Delete, 1),
        ];
        assert_eq!(repeated(&lines), [0, 3, 4, 5, 6]);
    }

    #[test]
    fn an_open_line_is_true_if_the_page_is_as_its_act_left_it() {
        let deleted = stored(false).map_state(|_| State::Deleted(None));
        for (kind, active, hidden, absent) in [
            (Kind::Delete, false, false, false),
            (Kind::Takedown, false, false, false),
            (Kind::Hide, false, true, false),
            (Kind::Show, true, false, false),
        ] {
            let was_done = |found: Option<&Head>| line(kind, 4, 31).was_done(found);
            let all = [was_done(Some(&stored(false))), was_done(Some(&stored(true))), was_done(None)];
            assert_eq!((all, was_done(Some(&deleted))), ([active, hidden, absent], true), "{kind:?}");
        }
    }

    #[test]
    fn a_void_line_and_one_without_a_reason_are_no_acts() {
        assert_eq!(line(Kind::Void, 5, 31).act(), None);
        assert_eq!(Line { reason: None, ..line(Kind::Hide, 5, 31) }.act(), None);
    }
}
