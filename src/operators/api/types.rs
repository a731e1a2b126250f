//! The JSON of the operators' API, for its routes and for the commands that call them.

use serde::{Deserialize, Serialize};

use handbill_core::domain::blocklist;
use handbill_core::domain::link_hosts::link_hosts;
use handbill_core::domain::markdown::render;
use handbill_core::domain::page::{Page, PageHead, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, TakedownReason};
use handbill_core::ports::page_store::StoreError;

/// The most slugs in one request.
pub const MAX_SLUGS: usize = 100;

#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The stable code.
    pub error: String,
    /// The problem and how to solve it.
    pub message: String,
}

/// The body of `POST /takedown` and `POST /hide`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakedownRequest {
    /// Slugs or addresses of pages, at most [`MAX_SLUGS`].
    pub slugs: Vec<String>,
    pub reason: TakedownReason,
    /// The operator's name.
    pub by: String,
}

/// The body of `POST /show`, whose answer is that of `POST /takedown`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Slugs or addresses of hidden pages, at most [`MAX_SLUGS`].
    pub slugs: Vec<String>,
    /// The operator's name.
    pub by: String,
}

/// The answer of `POST /takedown`: one result for each slug, in the order of the request.
#[derive(Debug, Serialize, Deserialize)]
pub struct TakedownAnswer {
    pub results: Vec<TakedownResult>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TakedownResult {
    /// The slug, or the text that is no slug.
    pub slug: String,
    pub outcome: TakedownCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// When a hidden page was hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_at: Option<String>,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakedownCode {
    /// The page was taken down now.
    TakenDown,
    /// The page was hidden now.
    Hidden,
    /// The page was hidden before.
    AlreadyHidden,
    /// The page can be read again from now on.
    Shown,
    /// The page could be read already.
    AlreadyShown,
    /// The page was deleted before.
    AlreadyDeleted,
    /// No page ever had this slug.
    NotFound,
    /// The text is no slug and no address of a page.
    NotASlug,
    /// The store did not answer, or cannot read the page.
    #[default]
    Failed,
}

impl TakedownCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TakenDown => "taken_down",
            Self::Hidden => "hidden",
            Self::AlreadyHidden => "already_hidden",
            Self::Shown => "shown",
            Self::AlreadyShown => "already_shown",
            Self::AlreadyDeleted => "already_deleted",
            Self::NotFound => "not_found",
            Self::NotASlug => "not_a_slug",
            Self::Failed => "failed",
        }
    }

    /// Whether the page cannot be read any more, or never could, and no restore brings it back.
    pub fn is_gone(self) -> bool {
        !matches!(self, Self::NotASlug | Self::Failed) && !self.is_shown()
    }

    /// Whether the page can be read.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Shown | Self::AlreadyShown)
    }
}

/// The answer of `GET /inspect/{slug}`. It has neither the text nor anything of the key.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// The page's slug.
    pub slug: String,
    /// `active`, `hidden`, `deleted`, `absent`, or `unreadable`.
    pub state: String,
    /// Why the record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The facts of a page, perhaps hidden.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub page: Option<InspectedPage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// The takedown, if an operator deleted or hid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takedown: Option<Takedown>,
    /// When a hidden page was hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_at: Option<String>,
}

/// The facts of a page, perhaps hidden, for operators: what its text is like, without the text.
#[derive(Debug, Serialize, Deserialize)]
pub struct InspectedPage {
    /// The title; `None` if an update cleared it.
    pub title: Option<String>,
    /// The beginning of the text.
    pub excerpt: String,
    /// When the page last changed.
    pub updated_at: String,
    /// How often it was written.
    pub version: u64,
    /// Size of the Markdown, in bytes.
    pub content_bytes: usize,
    /// Size of the HTML, in bytes.
    pub html_bytes: usize,
    /// The hosts of its links and images.
    pub hosts: Vec<String>,
    /// The entry for `--blocklist-file` that refuses the same text.
    pub fingerprint: String,
}

/// The body of `PUT /creates`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatesChange {
    /// Whether every create is refused from now on.
    pub paused: bool,
    /// The operator's name.
    pub by: String,
}

/// The answer of both methods of `/creates`.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreatesBody {
    pub paused: bool,
}

/// When `page` was hidden, if it is.
pub(super) fn hidden_at(page: &Page) -> Option<String> {
    page.head.hidden.as_ref().map(|_| page.head.updated_at.to_string())
}

impl Inspection {
    pub(super) fn of_page(page: &Page) -> Self {
        Self {
            slug: page.head.slug.to_string(),
            state: if page.head.hidden.is_some() { "hidden" } else { "active" }.to_owned(),
            takedown: page.head.hidden.as_deref().cloned(),
            hidden_at: hidden_at(page),
            created_at: Some(page.head.created_at.to_string()),
            page: Some(InspectedPage {
                title: page.head.title.as_ref().map(|title| title.as_str().to_owned()),
                excerpt: page.text.excerpt.clone(),
                updated_at: page.head.updated_at.to_string(),
                version: page.head.version.get(),
                content_bytes: page.text.content.as_str().len(),
                html_bytes: page.text.html.len(),
                hosts: link_hosts(&render(page.text.content.as_str()).shown.addresses).into_iter().collect(),
                fingerprint: blocklist::entry_of(page.text.content.as_str()),
            }),
            ..Self::default()
        }
    }

    /// The facts of a deleted page.
    pub(super) fn of_tombstone(tombstone: &Tombstone) -> Self {
        Self {
            slug: tombstone.slug.to_string(),
            state: "deleted".to_owned(),
            created_at: Some(tombstone.created_at.to_string()),
            deleted_at: Some(tombstone.deleted_at.to_string()),
            takedown: tombstone.takedown.clone(),
            ..Self::default()
        }
    }

    /// No page ever had this slug.
    pub(super) fn absent(slug: &Slug) -> Self {
        Self { slug: slug.to_string(), state: "absent".to_owned(), ..Self::default() }
    }

    /// The record cannot be read because of `reason`, or only its `head`.
    pub(super) fn unreadable(slug: &Slug, head: Option<&PageHead>, reason: &StoreError) -> Self {
        Self {
            slug: slug.to_string(),
            state: "unreadable".to_owned(),
            error: Some(reason.causes()),
            created_at: head.map(|head| head.created_at.to_string()),
            ..Self::default()
        }
    }
}
