//! The journal of a store: one line of JSON for each deletion, takedown, hiding and showing (contract, decision 18).
//!
//! After a restore, the lines are applied to the older pages, so no page returns that was deleted or hidden since. The order of the
//! lines does not matter: a line changes no page of a later version or time.

use serde::{Deserialize, Serialize};

use super::archive::Entry;
use super::page::{PageHead, PageVersion, Tombstone};
use super::slug::Slug;
use super::takedown::{Takedown, TakedownReason, Visibility};
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

    /// What the line says, for an import; `None` if that makes no sense, or if the line is void.
    pub fn entry(&self) -> Option<Entry> {
        let (slug, at) = (Slug::parse(&self.slug).ok()?, UnixMillis::parse(&self.at)?);
        let takedown = match (self.reason, &self.by) {
            (Some(reason), Some(by)) => Some(Takedown::new(reason, by).ok()?),
            _ => None,
        };
        Some(match self.kind {
            Kind::Delete | Kind::Takedown => {
                let version = PageVersion::new(self.version);
                Entry::Tombstone(Tombstone { slug, version, created_at: at, deleted_at: at, takedown })
            }
            Kind::Hide => Entry::Visibility(Visibility { slug, at, hidden: Some(takedown?) }),
            Kind::Show => Entry::Visibility(Visibility { slug, at, hidden: None }),
            Kind::Void => return None,
        })
    }
}
