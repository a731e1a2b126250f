//! The JSON of the operators' API, for its routes and for the commands that call them.

use serde::{Deserialize, Deserializer, Serialize};

use handbill_core::domain::fingerprint::Fingerprint;
use handbill_core::domain::link_hosts::link_hosts;
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

/// The body of `POST /takedown`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakedownRequest {
    /// Slugs or addresses of pages, at most [`MAX_SLUGS`].
    pub slugs: Vec<String>,
    pub reason: TakedownReason,
    /// The operator's name.
    pub by: String,
    /// Whether to only look.
    #[serde(default)]
    pub dry_run: bool,
    /// Hides the pages for so many seconds, in which they can be shown again, and only then deletes them.
    pub hidden_for_seconds: Option<u32>,
}

/// The body of `POST /show`, whose answer is that of `POST /takedown`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Slugs or addresses of hidden pages, at most [`MAX_SLUGS`].
    pub slugs: Vec<String>,
    /// The operator's name.
    pub by: String,
    /// Whether to only look.
    #[serde(default)]
    pub dry_run: bool,
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
    /// The page's title, in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// The time at which a hidden page will be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<String>,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Entries for `--blocklist-file` that refuse the same text or links; none if the page was gone before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakedownCode {
    /// The page was taken down now.
    TakenDown,
    /// There is the page, and a dry run left it.
    WouldTakeDown,
    /// The page was hidden now.
    Hidden,
    /// The page can be read, and a dry run left it.
    WouldHide,
    /// The page was hidden before, until the time that it says.
    AlreadyHidden,
    /// The page can be read again from now on.
    Shown,
    /// The page is hidden, and a dry run left it.
    WouldShow,
    /// The page could be read already.
    AlreadyShown,
    /// The page was deleted before.
    AlreadyDeleted,
    /// No page ever had this slug.
    NotFound,
    /// It was done, but the ledger could not be written.
    NotInLedger,
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
            Self::WouldTakeDown => "would_take_down",
            Self::Hidden => "hidden",
            Self::WouldHide => "would_hide",
            Self::AlreadyHidden => "already_hidden",
            Self::Shown => "shown",
            Self::WouldShow => "would_show",
            Self::AlreadyShown => "already_shown",
            Self::AlreadyDeleted => "already_deleted",
            Self::NotFound => "not_found",
            Self::NotInLedger => "not_in_ledger",
            Self::NotASlug => "not_a_slug",
            Self::Failed => "failed",
        }
    }

    /// Whether the page cannot be read any more, or never could, and no restore brings it back.
    pub fn is_gone(self) -> bool {
        !matches!(self, Self::NotInLedger | Self::NotASlug | Self::Failed) && !self.is_shown()
    }

    /// Whether the page can be read, or could have been after a dry run.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Shown | Self::WouldShow | Self::AlreadyShown)
    }
}

/// The answer of `GET /inspect/{slug}`, and a page that `POST /scan` finds. It has neither the text nor anything of the key.
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
    /// The time at which a hidden page will be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<String>,
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
    /// Entries for `--blocklist-file` that refuse the same text or links; none for a short text without links. A page that `POST
    /// /scan` finds has no such field: a hostile page takes up to 0.2 s of CPU, and one answer has hundreds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprints: Option<Vec<String>>,
}

/// The body of `POST /scan`. At least one criterion must be given, and a page must meet all that are given.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanRequest {
    /// The operator's name.
    pub by: String,
    /// A host that links or images lead to, or a domain above it.
    pub linking_to: Option<String>,
    /// A regular expression that the title or the Markdown has a match of.
    pub matching: Option<String>,
    /// A time at which, or after which, the page was created.
    pub created_after: Option<String>,
    /// A time before which the page was created.
    pub created_before: Option<String>,
    /// A time at which, or after which, the page was created or changed.
    pub changed_after: Option<String>,
    /// A fingerprint that the page has.
    pub fingerprint: Option<String>,
    /// The address of an image that the page shows, or one above it.
    pub image: Option<String>,
    /// Whether the blocklist in force must refuse the page.
    #[serde(default)]
    pub refused: bool,
    /// The cursor of the answer before; none at the beginning.
    pub cursor: Option<String>,
}

/// The answer of `POST /scan`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScanAnswer {
    /// Records that were looked at, tombstones included.
    pub examined: usize,
    /// About how many records there are, if the store knows.
    pub total: Option<u64>,
    /// The pages that meet the criteria.
    pub pages: Vec<Inspection>,
    /// Records that cannot be read.
    pub unreadable: Vec<String>,
    /// The beginning of the next batch; `None` at the end.
    pub cursor: Option<String>,
}

/// The body of `PUT /log`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogChange {
    /// The directives of `--log`.
    pub filter: String,
    /// The operator's name.
    pub by: String,
}

/// The answer of both methods of `/log`.
#[derive(Debug, Serialize)]
pub struct LogBody {
    pub filter: String,
}

/// The body of `PATCH /creates`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatesChange {
    /// Whether every create is refused.
    pub paused: Option<bool>,
    /// How many pages all clients together may create within any hour; `null` for any number.
    #[serde(default, deserialize_with = "sent", skip_serializing_if = "Option::is_none")]
    pub hourly_budget: Option<Option<u32>>,
    /// The operator's name.
    pub by: String,
}

/// A field that was sent, perhaps as `null`.
fn sent<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Option<u32>>, D::Error> {
    Deserialize::deserialize(field).map(Some)
}

/// The time at which `page`, if it is hidden, will be deleted.
pub(super) fn hidden_until(page: &Page) -> Option<String> {
    page.head.hidden.as_ref().map(|hiding| hiding.until.to_string())
}

/// The entries for `--blocklist-file` that refuse the same text or links as `page`.
pub(super) fn fingerprints(page: &Page) -> Vec<String> {
    let html = &page.text.html;
    Fingerprint::of_page(html, &link_hosts(html)).iter().map(ToString::to_string).collect()
}

impl Inspection {
    pub(super) fn of_page(page: &Page) -> Self {
        let found = Self::of_found(page);
        let facts = found.page.map(|facts| InspectedPage { fingerprints: Some(fingerprints(page)), ..facts });
        Self { page: facts, ..found }
    }

    /// The facts of a page that cost little.
    pub(super) fn of_found(page: &Page) -> Self {
        Self {
            slug: page.head.slug.to_string(),
            state: if page.head.hidden.is_some() { "hidden" } else { "active" }.to_owned(),
            takedown: page.head.hidden.as_ref().map(|hiding| hiding.takedown.clone()),
            hidden_until: hidden_until(page),
            created_at: Some(page.head.created_at.to_string()),
            page: Some(InspectedPage {
                title: page.head.title.as_ref().map(|title| title.as_str().to_owned()),
                excerpt: page.text.excerpt.clone(),
                updated_at: page.head.updated_at.to_string(),
                version: page.head.version.get(),
                content_bytes: page.text.content.as_str().len(),
                html_bytes: page.text.html.len(),
                hosts: link_hosts(&page.text.html).into_iter().collect(),
                fingerprints: None,
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
