//! The journal of a store: one line of JSON for each deletion, takedown, hiding and showing (contract, decision 18).
//!
//! After a restore, the lines are applied to the older pages, so no page returns that was deleted or hidden since. The order of the
//! lines does not matter: a line changes no page of a later version or time. Only where a restored store does not have a page, the
//! last of its lines about hiding and showing must be chosen first.

use serde::{Deserialize, Serialize};

use super::archive::{Entry, Precedence, Stored, precedence};
use super::page::{PageHead, PageVersion, Tombstone};
use super::slug::Slug;
use super::takedown::{Takedown, TakedownReason};
use super::timestamp::UnixMillis;

/// One act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub kind: Kind,
    pub slug: String,
    /// The version of the page after the act.
    pub version: u64,
    /// The time of the act, as in answers.
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<TakedownReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a line says, with checked values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Delete(Tombstone),
    /// Operators hid the page or, without a takedown, showed it again.
    Turn {
        slug: Slug,
        version: PageVersion,
        at: UnixMillis,
        hidden: Option<Takedown>,
    },
}

/// What was done to the page.
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

    /// The kind whose name this is, a void line apart.
    pub fn of_act(name: &str) -> Option<Self> {
        [Self::Delete, Self::Takedown, Self::Hide, Self::Show].into_iter().find(|kind| kind.name() == name)
    }
}

impl Line {
    pub fn of_tombstone(tombstone: &Tombstone) -> Self {
        let kind = if tombstone.takedown.is_some() { Kind::Takedown } else { Kind::Delete };
        Self::new(kind, &tombstone.slug, tombstone.version, tombstone.deleted_at, tombstone.takedown.as_ref())
    }

    /// The line of a page that was hidden or shown, and that has `head` since.
    pub fn of_head(head: &PageHead) -> Self {
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

    /// What the line says; `None` if it makes no sense, or if the line is void.
    pub fn act(&self) -> Option<Act> {
        let (slug, at) = (Slug::parse(&self.slug).ok()?, UnixMillis::parse(&self.at)?);
        let version = PageVersion::new(self.version);
        let takedown = match (self.reason, &self.by) {
            (Some(reason), Some(by)) => Some(Takedown::new(reason, by).ok()?),
            _ => None,
        };
        Some(match self.kind {
            Kind::Delete | Kind::Takedown => {
                Act::Delete(Tombstone { slug, version, created_at: at, deleted_at: at, takedown })
            }
            Kind::Hide => Act::Turn { slug, version, at, hidden: Some(takedown?) },
            Kind::Show => Act::Turn { slug, version, at, hidden: None },
            Kind::Void => return None,
        })
    }
}

impl Act {
    pub fn slug(&self) -> &Slug {
        match self {
            Self::Delete(tombstone) => &tombstone.slug,
            Self::Turn { slug, .. } => slug,
        }
    }

    /// What is to be done to the page `stored` of a restored store; `None` if that is nothing, because the page is later than this act. A
    /// page that the store does not have, and that is hidden since, is to be deleted: no later import may show it.
    pub fn on(self, stored: Stored) -> Option<Self> {
        match (self, stored) {
            (Self::Delete(tombstone), _) => {
                let entry = Entry::Tombstone(tombstone.clone());
                (precedence(stored, &entry) == Precedence::Import).then_some(Self::Delete(tombstone))
            }
            (Self::Turn { slug, version, at, hidden: takedown @ Some(_) }, Stored::Absent) => {
                Some(Self::Delete(Tombstone { slug, version, created_at: at, deleted_at: at, takedown }))
            }
            // The version of a restored page starts again from the backup's, so only times can be compared.
            (Self::Turn { at, .. }, Stored::Active(state) | Stored::Hidden(state)) if at <= state.updated_at => None,
            (act @ Self::Turn { .. }, Stored::Active(_) | Stored::Hidden(_)) => Some(act),
            (Self::Turn { .. }, Stored::Absent | Stored::Deleted) => None,
        }
    }
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
    fn an_act_changes_no_page_of_a_later_time_and_deletes_a_hidden_page_that_is_missing() {
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
    fn a_void_line_and_one_without_a_reason_are_no_acts() {
        assert_eq!(line(Kind::Void, 5, 31).act(), None);
        assert_eq!(Line { reason: None, ..line(Kind::Hide, 5, 31) }.act(), None);
    }
}
