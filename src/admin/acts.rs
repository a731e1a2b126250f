//! Takes pages down, hides them, and shows them again.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::api::{AdminApi, LoggedAct, Refusal, failure, operator, parse};
use handbill_core::domain::slug::{SUFFIX_ALPHABET, SUFFIX_CHARS, Slug};
use handbill_core::domain::takedown::{Takedown, TakedownReason};
use handbill_core::ports::page_store::Record;
use handbill_core::service::{ActOutcome, ServiceError};

/// The most pages in one request.
pub const MAX_PAGES: usize = 100;

/// Pages of one request that are worked on at the same time: enough to share the store's commits, and few enough to leave clients
/// their share.
const AT_ONCE: usize = 16;

/// The message for a page that cannot be hidden or shown since its record cannot be read.
const UNREADABLE: &str = "The record of this page cannot be read, so the page can only be taken down. The runbook says how to bring it back from a backup.";

/// The body of `POST /takedown` and `POST /hide`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakedownRequest {
    /// Slugs or addresses of pages, at most [`MAX_PAGES`].
    pub pages: Vec<String>,
    pub reason: TakedownReason,
    /// The operator's name.
    pub by: String,
}

/// The body of `POST /show`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Slugs or addresses of hidden pages, at most [`MAX_PAGES`].
    pub pages: Vec<String>,
    /// The operator's name.
    pub by: String,
}

/// What became of one page. The answer to each act is a list of these, in the order of the request.
#[derive(Debug, Serialize, Deserialize)]
pub struct ActResult {
    /// The slug, or the text that is no slug.
    pub page: String,
    pub outcome: Outcome,
    /// When the page was deleted or hidden, or why the act failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    TakenDown,
    Hidden,
    AlreadyHidden,
    Shown,
    AlreadyShown,
    /// The page was deleted before, by an operator or with its key.
    AlreadyDeleted,
    /// No page ever had this slug.
    NotFound,
    /// The text is no slug and no address of a page.
    NotASlug,
    /// The store did not answer, or cannot read the page.
    Failed,
}

impl Outcome {
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

    /// Whether the page cannot be read any more, or never could.
    pub fn is_gone(self) -> bool {
        !matches!(self, Self::NotASlug | Self::Failed) && !self.is_shown()
    }

    /// Whether the page can be read.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Shown | Self::AlreadyShown)
    }
}

enum Act {
    TakeDown(Takedown),
    Hide(Takedown),
    /// The operator's name.
    Show(String),
}

type Results = Result<Json<Vec<ActResult>>, Refusal>;

pub(super) async fn take_down(State(api): State<Arc<AdminApi>>, body: Bytes) -> Results {
    let TakedownRequest { pages, reason, by } = parse(&body)?;
    on_each(&api, pages, &Act::TakeDown(Takedown { reason, by: operator(&by)? })).await
}

pub(super) async fn hide(State(api): State<Arc<AdminApi>>, body: Bytes) -> Results {
    let TakedownRequest { pages, reason, by } = parse(&body)?;
    on_each(&api, pages, &Act::Hide(Takedown { reason, by: operator(&by)? })).await
}

pub(super) async fn show(State(api): State<Arc<AdminApi>>, body: Bytes) -> Results {
    let ShowRequest { pages, by } = parse(&body)?;
    on_each(&api, pages, &Act::Show(operator(&by)?)).await
}

async fn on_each(api: &AdminApi, pages: Vec<String>, act: &Act) -> Results {
    if pages.len() > MAX_PAGES {
        return Err(Refusal::invalid(format!("Send at most {MAX_PAGES} pages at a time.")));
    }
    let results = stream::iter(pages).map(|page| on_one(api, page, act)).buffered(AT_ONCE).collect().await;
    Ok(Json(results))
}

async fn on_one(api: &AdminApi, page: String, act: &Act) -> ActResult {
    let slug = match slug_in(&page) {
        Ok(slug) => slug,
        Err(reason) => return ActResult { page, outcome: Outcome::NotASlug, detail: Some(reason) },
    };
    let (action, by, reason, done) = match act {
        Act::TakeDown(takedown) => {
            ("takedown", &takedown.by, Some(takedown.reason), api.operators.take_down(&slug, takedown).await)
        }
        Act::Hide(takedown) => {
            ("hide", &takedown.by, Some(takedown.reason), api.operators.hide(&slug, Some(takedown)).await)
        }
        Act::Show(by) => ("show", by, None, api.operators.hide(&slug, None).await),
    };
    let (outcome, detail) = outcome_of(act, &slug, done);
    let reason = reason.map(TakedownReason::code);
    api.log_act(&LoggedAct { action, slug: Some(slug.as_str()), reason, by, outcome: outcome.as_str() });
    ActResult { page: slug.to_string(), outcome, detail }
}

fn outcome_of(act: &Act, slug: &Slug, done: Result<ActOutcome, ServiceError>) -> (Outcome, Option<String>) {
    let [now, before] = match act {
        Act::TakeDown(_) => [Outcome::TakenDown, Outcome::AlreadyDeleted],
        Act::Hide(_) => [Outcome::Hidden, Outcome::AlreadyHidden],
        Act::Show(_) => [Outcome::Shown, Outcome::AlreadyShown],
    };
    match done {
        Ok(ActOutcome::Done(Record::Deleted(_))) => (now, None),
        Ok(ActOutcome::Done(record)) => (now, since(&record)),
        Ok(ActOutcome::Already(record @ Record::Active(_))) => (before, since(&record)),
        Ok(ActOutcome::Already(record)) => (Outcome::AlreadyDeleted, since(&record)),
        Ok(ActOutcome::NotFound) => (Outcome::NotFound, None),
        Ok(ActOutcome::Unreadable(reason)) => {
            tracing::error!(slug = slug.as_str(), error = reason.causes(), "a record cannot be read");
            (Outcome::Failed, Some(UNREADABLE.to_owned()))
        }
        Err(error) => (Outcome::Failed, Some(failure(&error).1)),
    }
}

/// When the page of `record` was deleted or hidden.
fn since(record: &Record) -> Option<String> {
    match record {
        Record::Active(page) => page.head.hidden.as_ref().map(|_| page.head.updated_at.to_string()),
        Record::Deleted(tombstone) => Some(tombstone.deleted_at.to_string()),
    }
}

/// The slug that `text` names: a slug, or an address of the page, as notices quote it. The error says what is wrong with it.
pub(super) fn slug_in(text: &str) -> Result<Slug, String> {
    let path = text.trim().split(['?', '#']).next().unwrap_or_default().trim_end_matches(['/', '.', ')', '>']);
    let last = path.rsplit('/').find(|part| *part != "edit").unwrap_or_default();
    Slug::parse(last.strip_suffix(".md").unwrap_or(last)).map_err(|_| {
        format!(
            "No page can have the address {last:?}: after lower-case words it ends with a hyphen and {SUFFIX_CHARS} characters of {}.",
            String::from_utf8_lossy(SUFFIX_ALPHABET)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_by_its_slug_or_any_of_its_addresses() {
        for named in [
            "a-page-22222222",
            " a-page-22222222\r\n",
            "https://pages.example/a-page-22222222",
            "https://pages.example/a-page-22222222.md",
            "https://pages.example/a-page-22222222/edit",
            "https://pages.example/api/pages/a-page-22222222?x=1#y",
            "https://pages.example/a-page-22222222/).",
        ] {
            assert_eq!(slug_in(named).unwrap().as_str(), "a-page-22222222", "{named:?}");
        }
    }

    #[test]
    fn the_part_of_an_address_that_is_no_slug_is_named() {
        for (other, part) in [
            ("", "\"\""),
            ("a page", "\"a page\""),
            ("https://pages.example/", "\"pages.example\""),
            ("https://pages.example/a-page-2222222/edit", "\"a-page-2222222\""),
            ("a-page-22222222.html", "\"a-page-22222222.html\""),
            ("a\u{1b}[2J", "\"a\\u{1b}[2J\""),
        ] {
            let reason = slug_in(other).unwrap_err();
            assert!(reason.starts_with(&format!("No page can have the address {part}: ")), "{reason}");
        }
    }
}
