//! A page, its tombstone once it is deleted, and the changes between its states.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::content::Content;
use super::edit_key::{EditKey, EditKeyHash};
use super::language::Language;
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
    pub const FIRST: Self = Self(1);

    pub fn new(version: u64) -> Self {
        Self(version)
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

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
    pub updated_at: UnixMillis,
}

/// All of a page but its text. Every request asks for it: it is enough to check a key or a precondition, to delete the
/// page, and to tell a client that its copy is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageHead {
    /// The page's name, which never changes.
    pub slug: Slug,
    /// The page's title; `None` if an update cleared it.
    pub title: Option<Title>,
    pub key_hash: EditKeyHash,
    pub version: PageVersion,
    pub created_at: UnixMillis,
    /// When the page last changed; equal to `created_at` until the first change.
    pub updated_at: UnixMillis,
    pub link_origins: Vec<String>,
    pub renderer_version: u16,
    /// Set while the page is hidden, which it is since `updated_at`: why, and who did it. A store keeps it in its own way, so that no reader of a head takes a hidden page for one
    /// that can be read.
    #[serde(skip)]
    pub hidden: Option<Box<Takedown>>,
}

/// The fields of a head that an update changes: `None` keeps a field, and `Some(None)` clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadChanges {
    pub title: Option<Option<Title>>,
}

/// A page's text: the source, and what the renderer has made of it. It may be large, and is read only where it is shown
/// or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    pub content: Content,
    pub html: String,
    pub excerpt: String,
    pub code_blocks: Vec<u32>,
    /// Stored as a code of BCP 47, of which one that is not known says nothing.
    #[serde(serialize_with = "language_code", deserialize_with = "language_of_code")]
    pub language: Option<Language>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn language_code<S: Serializer>(language: &Option<Language>, serializer: S) -> Result<S::Ok, S::Error> {
    language.map(Language::code).serialize(serializer)
}

fn language_of_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Language>, D::Error> {
    let code = Option::<String>::deserialize(deserializer)?;
    Ok(code.as_deref().and_then(Language::from_code))
}

/// A page that can be read: its head and its text, which belong to the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// All but the text.
    pub head: PageHead,
    pub text: PageText,
}

/// The record that remains of a deleted page. It keeps the slug from being used again, and contains none of the page's
/// text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub slug: Slug,
    pub version: PageVersion,
    pub created_at: UnixMillis,
    pub deleted_at: UnixMillis,
    /// Why an operator deleted the page, and who; `None` if somebody with its edit key did.
    pub takedown: Option<Takedown>,
}

impl Tombstone {
    /// The tombstone of a page whose record cannot be read, when an operator takes it down at `now`: its version and the time of its
    /// creation are not known.
    pub fn of_unreadable(slug: Slug, takedown: Takedown, now: UnixMillis) -> Self {
        let version = PageVersion::new(1);
        Self { slug, version, created_at: now, deleted_at: now, takedown: Some(takedown) }
    }
}

impl Page {
    /// The page with this head, which has everything but the facts in `rendered`, and with the text `content`.
    pub fn new(head: PageHead, content: Content, rendered: Rendered) -> Self {
        let Rendered { html, excerpt, code_blocks, link_origins, language, renderer_version, .. } = rendered;
        Self {
            head: PageHead { link_origins, renderer_version, ..head },
            text: PageText { content, html, excerpt, code_blocks, language },
        }
    }

    /// Whether the title or the source has anything of the form of an edit key. People paste the wrong thing.
    pub fn seems_to_hold_a_key(&self) -> bool {
        let title = self.head.title.as_ref().map_or("", Title::as_str);
        EditKey::stands_in(title) || EditKey::stands_in(self.text.content.as_str())
    }
}

impl PageHead {
    /// The head of a page that is created at `now`, before its text is rendered.
    pub fn first(slug: Slug, title: Title, key_hash: EditKeyHash, now: UnixMillis) -> Self {
        Self {
            slug,
            title: Some(title),
            key_hash,
            version: PageVersion::FIRST,
            created_at: now,
            updated_at: now,
            link_origins: Vec::new(),
            renderer_version: 0,
            hidden: None,
        }
    }

    #[must_use]
    pub fn updated(self, changes: HeadChanges, now: UnixMillis) -> Self {
        Self {
            title: changes.title.unwrap_or(self.title),
            version: self.version.next(),
            updated_at: now.strictly_after(self.updated_at),
            ..self
        }
    }

    /// The head of this page when an operator hides it or, without `hidden`, shows it again at `now`.
    #[must_use]
    pub fn turned(&self, hidden: Option<Takedown>, now: UnixMillis) -> Self {
        Self { hidden: hidden.map(Box::new), ..self.clone().updated(HeadChanges::default(), now) }
    }

    /// This head, of a page that an older backup brought back, once it is hidden or shown again as operators did at `at`. The version
    /// stays the backup's, like the text.
    #[must_use]
    pub fn replayed(&self, hidden: Option<Takedown>, at: UnixMillis) -> Self {
        Self { hidden: hidden.map(Box::new), updated_at: at, ..self.clone() }
    }

    pub fn state(&self) -> PageState {
        PageState { version: self.version, updated_at: self.updated_at }
    }

    /// Whether a link of the page leads to another origin than `own`.
    pub fn has_external_links(&self, own: &Origin) -> bool {
        any_external(&self.link_origins, own.as_str())
    }

    pub fn tombstone(&self, now: UnixMillis) -> Tombstone {
        Tombstone {
            slug: self.slug.clone(),
            version: self.version.next(),
            created_at: self.created_at,
            deleted_at: now.strictly_after(self.updated_at),
            takedown: None,
        }
    }

    /// The tombstone for which everybody but operators takes this page while it is hidden.
    pub fn as_tombstone(&self) -> Tombstone {
        Tombstone {
            slug: self.slug.clone(),
            version: self.version,
            created_at: self.created_at,
            deleted_at: self.updated_at,
            takedown: self.hidden.as_deref().cloned(),
        }
    }

    /// The tombstone of this page when an operator takes it down at `now`.
    pub fn taken_down(&self, takedown: Takedown, now: UnixMillis) -> Tombstone {
        Tombstone { takedown: Some(takedown), ..self.tombstone(now) }
    }
}
