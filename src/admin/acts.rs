//! Takes pages down, hides them, and shows them again.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::api::{AdminApi, LoggedAct, Refusal, failure, operator, parse};
use handbill_pages::ports::page_store::Record;
use handbill_pages::service::{ActOutcome, ServiceError};
use handbill_pages::values::slug::{SUFFIX_ALPHABET, SUFFIX_CHARS, Slug};
use handbill_pages::values::takedown::{Takedown, TakedownReason};

pub const MAX_PAGES: usize = 100;

/// Enough to share the store's commits, and few enough to leave clients their share.
const AT_ONCE: usize = 16;

const UNREADABLE: &str = "The record of this page cannot be read, so the page can only be taken down. The runbook says how to bring it back from a backup.";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActRequest {
    /// Slugs or addresses, at most [`MAX_PAGES`].
    pub pages: Vec<String>,
    /// Only `/show` has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<TakedownReason>,
    pub by: String,
}

/// What became of one page; an answer lists the pages in the request's order.
#[derive(Debug, Serialize, Deserialize)]
pub struct ActResult {
    /// Or the text that is not a slug.
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
    /// By an operator or with its key.
    AlreadyDeleted,
    NotFound,
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

    /// The page cannot be read, or never could.
    pub fn is_gone(self) -> bool {
        !matches!(self, Self::NotASlug | Self::Failed) && !self.is_shown()
    }

    pub fn is_shown(self) -> bool {
        matches!(self, Self::Shown | Self::AlreadyShown)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    TakeDown,
    Hide,
    Show,
}

pub(super) async fn act(api: Arc<AdminApi>, body: Bytes, act: Act) -> Result<Json<Vec<ActResult>>, Refusal> {
    let ActRequest { pages, reason, by } = parse(&body)?;
    let by = operator(&by)?;
    if pages.len() > MAX_PAGES {
        return Err(Refusal::invalid(format!("Send at most {MAX_PAGES} pages at a time.")));
    }
    if reason.is_none() != (act == Act::Show) {
        return Err(Refusal::invalid(
            "Takedowns and hidden pages need a `reason`; pages that are shown again have none.",
        ));
    }
    let takedown = reason.map(|reason| Takedown { reason, by: by.clone() });
    let results = stream::iter(pages).map(|page| on_one(&api, page, act, takedown.as_ref(), &by));
    Ok(Json(results.buffered(AT_ONCE).collect().await))
}

async fn on_one(api: &AdminApi, page: String, act: Act, takedown: Option<&Takedown>, by: &str) -> ActResult {
    let slug = match slug_in(&page) {
        Ok(slug) => slug,
        Err(reason) => return ActResult { page, outcome: Outcome::NotASlug, detail: Some(reason) },
    };
    let done = match takedown {
        Some(takedown) if act == Act::TakeDown => api.operators.take_down(&slug, takedown).await,
        hiding => api.operators.hide(&slug, hiding).await,
    };
    let (outcome, detail) = outcome_of(act, &slug, done);
    let action = match act {
        Act::TakeDown => "takedown",
        Act::Hide => "hide",
        Act::Show => "show",
    };
    let reason = takedown.map(|takedown| takedown.reason.code());
    api.log_act(&LoggedAct { action, slug: Some(slug.as_str()), reason, by, outcome: outcome.as_str() });
    ActResult { page: slug.to_string(), outcome, detail }
}

fn outcome_of(act: Act, slug: &Slug, done: Result<ActOutcome, ServiceError>) -> (Outcome, Option<String>) {
    let [now, before] = match act {
        Act::TakeDown => [Outcome::TakenDown, Outcome::AlreadyDeleted],
        Act::Hide => [Outcome::Hidden, Outcome::AlreadyHidden],
        Act::Show => [Outcome::Shown, Outcome::AlreadyShown],
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

fn since(record: &Record) -> Option<String> {
    match record {
        Record::Active(page) => page.head.hidden.as_ref().map(|_| page.head.updated_at.to_string()),
        Record::Deleted(tombstone) => Some(tombstone.deleted_at.to_string()),
    }
}

/// Accepts a slug, or an address as notices quote it.
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
