//! A page, its tombstone once it is deleted, and the changes between its states.

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::edit_key::{EditKey, EditKeyHash};
use super::markdown::{Rendered, any_external};
use super::origin::Origin;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageState {
    /// The version of the write that made this state.
    pub version: PageVersion,
    /// The time of that write.
    pub updated_at: UnixMillis,
}

/// Everything about a page except its text: enough to check a key or a precondition, to delete the page, and to tell a
/// client that its copy is current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// As [`Page::slug`].
    pub slug: Slug,
    /// As [`Page::title`].
    pub title: Option<Title>,
    /// As [`Page::key_hash`].
    pub key_hash: EditKeyHash,
    /// As [`Page::version`].
    pub version: PageVersion,
    /// As [`Page::created_at`].
    pub created_at: UnixMillis,
    /// As [`Page::updated_at`].
    pub updated_at: UnixMillis,
    /// As [`Rendered::link_origins`] of the page's text.
    pub link_origins: Vec<String>,
    /// As [`Rendered::renderer_version`] of the page's text.
    pub renderer_version: u16,
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

impl Page {
    /// The current state of the page.
    pub fn state(&self) -> PageState {
        PageState { version: self.version, updated_at: self.updated_at }
    }

    /// Whether the title or the source has anything of the form of an edit key. People paste the wrong thing.
    pub fn seems_to_hold_a_key(&self) -> bool {
        let title = self.title.as_ref().map_or("", Title::as_str);
        EditKey::stands_in(title) || EditKey::stands_in(self.content.as_str())
    }

    /// This page after an update at the time `now` that keeps the text. `title` is the new title: `None` keeps the present
    /// one, and `Some(None)` clears it.
    #[must_use]
    pub fn retitled(self, title: Option<Option<Title>>, now: UnixMillis) -> Self {
        Self {
            title: title.unwrap_or(self.title),
            version: self.version.next(),
            updated_at: now.strictly_after(self.updated_at),
            ..self
        }
    }

    /// The page without its text.
    pub fn head(&self) -> PageHead {
        PageHead {
            slug: self.slug.clone(),
            title: self.title.clone(),
            key_hash: self.key_hash,
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
            link_origins: self.rendered.link_origins.clone(),
            renderer_version: self.rendered.renderer_version,
        }
    }
}

impl PageHead {
    /// The current state of the page.
    pub fn state(&self) -> PageState {
        PageState { version: self.version, updated_at: self.updated_at }
    }

    /// Whether a link of the page leads to another origin than `own`.
    pub fn has_external_links(&self, own: &Origin) -> bool {
        any_external(&self.link_origins, own.as_str())
    }

    /// The page with this head, and with its text.
    pub fn with_text(self, content: Content, rendered: Rendered) -> Page {
        Page {
            slug: self.slug,
            title: self.title,
            content,
            rendered,
            key_hash: self.key_hash,
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    /// The page after an update at the time `now` that replaces the text, and the title as in [`Page::retitled`]. The
    /// present text is not needed.
    #[must_use]
    pub fn rewritten(
        &self,
        title: Option<Option<Title>>,
        content: Content,
        rendered: Rendered,
        now: UnixMillis,
    ) -> Page {
        self.clone().with_text(content, rendered).retitled(title, now)
    }

    /// The tombstone of the page when it is deleted at `now`.
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
