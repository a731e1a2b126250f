//! What is stored under a slug.

use std::{convert::Infallible, sync::Arc};

use super::head::{Head, PageHead, State, Tombstone};
use super::{page::Page, slug::Slug, takedown::Takedown, timestamp::UnixMillis};

/// Bytes of a record besides its text.
const RECORD_BYTES: usize = 200;

/// What a used slug has. `T` is what is known of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<T = Arc<Page>> {
    Active(T),
    /// Operators have hidden the page: to everybody else it is deleted.
    Hidden(T, Takedown),
    Deleted(Tombstone),
}

impl<T> Record<T> {
    pub fn try_map<U, E>(self, map: impl FnOnce(T) -> Result<U, E>) -> Result<Record<U>, E> {
        Ok(match self {
            Self::Active(page) => Record::Active(map(page)?),
            Self::Hidden(page, takedown) => Record::Hidden(map(page)?, takedown),
            Self::Deleted(tombstone) => Record::Deleted(tombstone),
        })
    }

    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Record<U> {
        let Ok(record) = self.try_map(|page| Ok::<_, Infallible>(map(page)));
        record
    }

    pub fn as_ref(&self) -> Record<&T> {
        match self {
            Self::Active(page) => Record::Active(page),
            Self::Hidden(page, takedown) => Record::Hidden(page, takedown.clone()),
            Self::Deleted(tombstone) => Record::Deleted(tombstone.clone()),
        }
    }

    /// The page, hidden or not.
    pub fn page(&self) -> Option<&T> {
        match self {
            Self::Active(page) | Self::Hidden(page, _) => Some(page),
            Self::Deleted(_) => None,
        }
    }

    pub fn takedown(&self) -> Option<&Takedown> {
        match self {
            Self::Active(_) => None,
            Self::Hidden(_, takedown) => Some(takedown),
            Self::Deleted(tombstone) => tombstone.state.as_ref(),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Active(_) => "active",
            Self::Hidden(..) => "hidden",
            Self::Deleted(_) => "deleted",
        }
    }
}

/// What has the head of a page.
pub trait Headed {
    fn head(&self) -> &PageHead;
}

impl Headed for Arc<Page> {
    fn head(&self) -> &PageHead {
        &self.head
    }
}

impl<T: Headed> Record<T> {
    pub fn head(&self) -> Head {
        self.as_ref().map(|page| page.head().clone()).into()
    }

    pub fn slug(&self) -> &Slug {
        match self {
            Self::Active(page) | Self::Hidden(page, _) => &page.head().slug,
            Self::Deleted(tombstone) => &tombstone.slug,
        }
    }

    /// When it was last written.
    pub fn changed_at(&self) -> UnixMillis {
        match self {
            Self::Active(page) | Self::Hidden(page, _) => page.head().changed_at,
            Self::Deleted(tombstone) => tombstone.changed_at,
        }
    }
}

impl Record {
    /// In memory, about.
    pub fn bytes(&self) -> usize {
        let text = self.page().map_or(0, |page| page.text.content.as_str().len() + page.text.html.len());
        RECORD_BYTES + text
    }
}

impl From<Record<PageHead>> for Head {
    fn from(record: Record<PageHead>) -> Self {
        match record {
            Record::Active(head) => head.map_state(State::Active),
            Record::Hidden(head, takedown) => head.map_state(|live| State::Hidden(live, takedown)),
            Record::Deleted(tombstone) => tombstone.map_state(State::Deleted),
        }
    }
}

impl From<Head> for Record<PageHead> {
    fn from(head: Head) -> Self {
        let Head { slug, version, created_at, updated_at, changed_at, state, unknown } = head;
        let head = Head { slug, version, created_at, updated_at, changed_at, state: (), unknown };
        match state {
            State::Active(live) => Self::Active(head.map_state(|()| live)),
            State::Hidden(live, takedown) => Self::Hidden(head.map_state(|()| live), takedown),
            State::Deleted(takedown) => Self::Deleted(head.map_state(|()| takedown)),
        }
    }
}
