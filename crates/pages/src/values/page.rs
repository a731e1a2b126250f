//! A page, its tombstone, and the changes between its states.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::content::Content;
use super::edit_key::{EditKey, EditKeyHash};
use super::language::Language;
use super::markdown::Rendered;
use super::origin::Origin;
use super::slug::Slug;
use super::takedown::Takedown;
use super::timestamp::UnixMillis;
use super::title::Title;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
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

impl TryFrom<u64> for PageVersion {
    type Error = &'static str;

    fn try_from(version: u64) -> Result<Self, Self::Error> {
        if version > 0 { Ok(Self(version)) } else { Err("the version is 0") }
    }
}

/// Identifies one state of a page. The version alone is not enough: a restored page continues from an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageState {
    pub version: PageVersion,
    pub updated_at: UnixMillis,
}

/// Enough to check a key or a precondition, to delete, and to answer 304.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHead {
    pub slug: Slug,
    /// `None` if an update cleared it.
    pub title: Option<Title>,
    pub key_hash: EditKeyHash,
    pub version: PageVersion,
    pub created_at: UnixMillis,
    pub updated_at: UnixMillis,
    pub link_origins: Vec<String>,
    pub renderer_version: u16,
    /// Stores keep it apart, so that no reader takes a hidden page for a readable one.
    pub hidden: Option<Box<Takedown>>,
}

/// `None` keeps a field, and `Some(None)` clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadChanges {
    pub title: Option<Option<Title>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    pub content: Content,
    pub html: String,
    pub excerpt: String,
    pub code_blocks: Vec<u32>,
    /// Unknown BCP 47 codes read back as `None`.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub head: PageHead,
    pub text: PageText,
}

/// What remains of a deleted page, and keeps its slug from being used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tombstone {
    pub slug: Slug,
    pub version: PageVersion,
    #[serde(rename = "created_at_ms")]
    pub created_at: UnixMillis,
    #[serde(rename = "deleted_at_ms")]
    pub deleted_at: UnixMillis,
    /// `None` if the page was deleted with its edit key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takedown: Option<Takedown>,
}

impl Tombstone {
    pub fn of_unreadable(slug: Slug, takedown: Takedown, now: UnixMillis) -> Self {
        let version = PageVersion::new(1);
        Self { slug, version, created_at: now, deleted_at: now, takedown: Some(takedown) }
    }
}

impl Page {
    pub fn new(head: PageHead, content: Content, rendered: Rendered) -> Self {
        let Rendered { html, excerpt, code_blocks, link_origins, language, renderer_version, .. } = rendered;
        Self {
            head: PageHead { link_origins, renderer_version, ..head },
            text: PageText { content, html, excerpt, code_blocks, language },
        }
    }

    pub fn seems_to_hold_a_key(&self) -> bool {
        let title = self.head.title.as_ref().map_or("", Title::as_str);
        EditKey::stands_in(title) || EditKey::stands_in(self.text.content.as_str())
    }
}

impl PageHead {
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
        // Names every field, so that none is forgotten.
        let HeadChanges { title } = changes;
        Self {
            title: title.unwrap_or(self.title),
            version: self.version.next(),
            updated_at: now.strictly_after(self.updated_at),
            ..self
        }
    }

    /// Without `hidden`, the page is shown again.
    #[must_use]
    pub fn with_hidden(&self, hidden: Option<Takedown>, now: UnixMillis) -> Self {
        Self { hidden: hidden.map(Box::new), ..self.clone().updated(HeadChanges::default(), now) }
    }

    /// For a page from a backup: its version stays, like its text.
    #[must_use]
    pub fn restored_with_hidden(&self, hidden: Option<Takedown>, at: UnixMillis) -> Self {
        Self { hidden: hidden.map(Box::new), updated_at: at, ..self.clone() }
    }

    pub fn state(&self) -> PageState {
        PageState { version: self.version, updated_at: self.updated_at }
    }

    pub fn has_external_links(&self, own: &Origin) -> bool {
        self.link_origins.iter().any(|origin| origin != own.as_str())
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

    pub fn taken_down(&self, takedown: Takedown, now: UnixMillis) -> Tombstone {
        Tombstone { takedown: Some(takedown), ..self.tombstone(now) }
    }
}
