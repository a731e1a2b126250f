//! The journal of a store: one line of JSON for each deletion, takedown, hiding and showing (contract, decision 18).
//!
//! After a restore, [`remaining`] lines apply to the older pages, in any order.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::archive::{Entry, Precedence, Stored, precedence};
use super::page::{PageHead, PageVersion, Tombstone};
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
pub enum Act {
    Delete(Tombstone),
    /// Hid the page, or with `None` showed it again.
    SetHidden {
        slug: Slug,
        version: PageVersion,
        at: UnixMillis,
        hidden: Option<Takedown>,
    },
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
    pub(crate) fn of_tombstone(tombstone: &Tombstone) -> Self {
        let kind = if tombstone.takedown.is_some() { Kind::Takedown } else { Kind::Delete };
        Self::new(kind, &tombstone.slug, tombstone.version, tombstone.deleted_at, tombstone.takedown.as_ref())
    }

    pub(crate) fn of_head(head: &PageHead) -> Self {
        let kind = if head.hidden.is_some() { Kind::Hide } else { Kind::Show };
        Self::new(kind, &head.slug, head.version, head.updated_at, head.hidden.as_deref())
    }

    fn new(kind: Kind, slug: &Slug, version: PageVersion, at: UnixMillis, takedown: Option<&Takedown>) -> Self {
        Self {
            kind,
            slug: slug.to_string(),
            version: version.get(),
            at: at.to_string(),
            reason: takedown.map(|takedown| takedown.reason),
            by: takedown.map(|takedown| takedown.by.clone()),
        }
    }

    /// `None` if the line is void or makes no sense.
    pub fn act(&self) -> Option<Act> {
        let slug = Slug::parse(&self.slug).ok()?;
        let at = UnixMillis::parse(&self.at)?;
        let version = PageVersion::new(self.version);
        let takedown = match (self.reason, &self.by) {
            (Some(reason), Some(by)) => Some(Takedown::new(reason, by).ok()?),
            _ => None,
        };
        Some(match self.kind {
            Kind::Delete | Kind::Takedown => {
                Act::Delete(Tombstone { slug, version, created_at: at, deleted_at: at, takedown })
            }
            Kind::Hide => Act::SetHidden { slug, version, at, hidden: Some(takedown?) },
            Kind::Show => Act::SetHidden { slug, version, at, hidden: None },
            Kind::Void => return None,
        })
    }
}

impl Act {
    pub fn slug(&self) -> &Slug {
        match self {
            Self::Delete(tombstone) => &tombstone.slug,
            Self::SetHidden { slug, .. } => slug,
        }
    }

    /// What to do to a restored page; `None` if it is later than this act. An absent page that was hidden is deleted,
    /// so that no import shows it.
    pub fn on(self, stored: Stored) -> Option<Self> {
        match (self, stored) {
            (Self::Delete(tombstone), _) => {
                let entry = Entry::Tombstone(tombstone.clone());
                (precedence(stored, &entry) == Precedence::Import).then_some(Self::Delete(tombstone))
            }
            (Self::SetHidden { slug, version, at, hidden: takedown @ Some(_) }, Stored::Absent) => {
                Some(Self::Delete(Tombstone { slug, version, created_at: at, deleted_at: at, takedown }))
            }
            // The version continues from the backup's, so only times compare.
            (Self::SetHidden { at, .. }, Stored::Active(state) | Stored::Hidden(state)) if at <= state.updated_at => {
                None
            }
            (act @ Self::SetHidden { .. }, Stored::Active(_) | Stored::Hidden(_)) => Some(act),
            (Self::SetHidden { .. }, Stored::Absent | Stored::Deleted) => None,
        }
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
    use crate::values::page::PageState;

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

    #[test]
    fn an_act_spares_later_pages_and_deletes_missing_hidden_ones() {
        let act = |kind, at| line(kind, 5, at).act().unwrap();
        let state = PageState { version: PageVersion::new(3), updated_at: UnixMillis::new(30) };
        for kind in [Kind::Hide, Kind::Show] {
            for stored in [Stored::Active(state), Stored::Hidden(state)] {
                assert_eq!(act(kind, 31).on(stored), Some(act(kind, 31)));
                assert_eq!(act(kind, 30).on(stored), None);
            }
            assert_eq!(act(kind, 31).on(Stored::Deleted), None);
        }
        assert_eq!(act(Kind::Show, 31).on(Stored::Absent), None);
        let Some(Act::Delete(tombstone)) = act(Kind::Hide, 31).on(Stored::Absent) else { panic!("it is deleted") };
        assert_eq!((tombstone.version.get(), tombstone.deleted_at.get()), (5, 31));
        assert!(tombstone.takedown.is_some());
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
