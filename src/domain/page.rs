//! A page, its tombstone once it is deleted, and the changes between its states.

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::edit_key::EditKeyHash;
use super::markdown::Rendered;
use super::slug::Slug;
use super::takedown::Takedown;
use super::timestamp::UnixMillis;
use super::title::Title;

/// Counts the writes to one page: 1 when it is created, one more with each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageVersion(u64);

impl PageVersion {
    /// The version of a page that was just created.
    pub const FIRST: Self = Self(1);

    /// The version that a store has kept.
    pub fn new(version: u64) -> Self {
        Self(version)
    }

    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The count itself.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Identifies one state of a page among all its past and future states. The version alone is not enough: a page that
/// was restored from a backup continues from an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState {
    /// The version of the write that made this state.
    pub version: PageVersion,
    /// The time of that write.
    pub updated_at: UnixMillis,
}

/// A page that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The page's name, which never changes.
    pub slug: Slug,
    /// The page's title; `None` if an update cleared it.
    pub title: Option<Title>,
    /// The page's Markdown source.
    pub content: Content,
    /// The HTML of `content`, with the version of its renderer.
    pub rendered: Rendered,
    /// The hash of the page's edit key.
    pub key_hash: EditKeyHash,
    /// The version of the last write.
    pub version: PageVersion,
    /// When the page was created.
    pub created_at: UnixMillis,
    /// When the page last changed; equal to `created_at` until the first change.
    pub updated_at: UnixMillis,
}

/// The record that remains of a deleted page. It keeps the slug from being used again, and contains none of the page's
/// text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The slug that stays reserved.
    pub slug: Slug,
    /// The version of the write that deleted the page.
    pub version: PageVersion,
    /// When the page was created.
    pub created_at: UnixMillis,
    /// When the page was deleted.
    pub deleted_at: UnixMillis,
    /// Why an operator deleted the page, and who; `None` if somebody with its edit key did.
    pub takedown: Option<Takedown>,
}

/// The changes of an update. A field that is `None` keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageEdit {
    /// The new title, `Some(None)` to clear it.
    pub title: Option<Option<Title>>,
    /// The new Markdown source.
    pub content: Option<Content>,
}

impl Page {
    /// The current state of the page.
    pub fn state(&self) -> PageState {
        PageState { version: self.version, updated_at: self.updated_at }
    }

    /// This page after `edit` at the time `now`. `rendered` is the HTML of the new content, if the edit has new
    /// content.
    #[must_use]
    pub fn edited(&self, edit: &PageEdit, rendered: Option<&Rendered>, now: UnixMillis) -> Self {
        Self {
            slug: self.slug.clone(),
            title: edit.title.clone().unwrap_or_else(|| self.title.clone()),
            content: edit.content.clone().unwrap_or_else(|| self.content.clone()),
            rendered: rendered.cloned().unwrap_or_else(|| self.rendered.clone()),
            key_hash: self.key_hash,
            version: self.version.next(),
            created_at: self.created_at,
            updated_at: now.strictly_after(self.updated_at),
        }
    }

    /// The tombstone of this page when it is deleted at `now`.
    pub fn tombstone(&self, now: UnixMillis) -> Tombstone {
        Tombstone {
            slug: self.slug.clone(),
            version: self.version.next(),
            created_at: self.created_at,
            deleted_at: now.strictly_after(self.updated_at),
            takedown: None,
        }
    }

    /// The tombstone of this page when an operator takes it down at `now`.
    pub fn taken_down(&self, takedown: Takedown, now: UnixMillis) -> Tombstone {
        Tombstone { takedown: Some(takedown), ..self.tombstone(now) }
    }
}
