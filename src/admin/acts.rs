//! Takes pages down, hides them, and shows them again.

use std::{borrow::Cow, sync::Arc};

use axum::{Json, body::Bytes, extract::State};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::api::{AdminApi, Refusal, failure, operator, parse};
use handbill_pages::service::{ActOutcome, OperatorAct};
use handbill_pages::values::slug::{SUFFIX_ALPHABET, SUFFIX_CHARS, Slug};
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::{details::UnknownMembers, record::Record};

/// Pages at the same time: enough to share the store's commits, and few enough to leave clients their share.
const AT_ONCE: usize = 16;

const UNREADABLE: &str = "The record of this page cannot be read, so the page can only be taken down. The runbook says how to bring it back from a backup.";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActRequest {
    /// Slugs or addresses.
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
    pub outcome: Cow<'static, str>,
    /// Whether the page is as the operator wants it: gone, or for a page that is shown again, readable.
    pub is_as_wanted: bool,
    /// When the page was deleted or hidden, or why the act failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum Action {
    TakeDown,
    Hide,
    Show,
}

pub(super) async fn act(
    State(api): State<Arc<AdminApi>>,
    body: Bytes,
    action: Action,
) -> Result<Json<Vec<ActResult>>, Refusal> {
    let ActRequest { pages, reason, by } = parse(&body)?;
    let by = operator(&by)?;
    let takedown = reason.map(|reason| Takedown { reason, by: by.clone(), unknown: UnknownMembers::new() });
    let act = match (action, &takedown) {
        (Action::TakeDown, Some(takedown)) => OperatorAct::TakeDown(takedown),
        (Action::Hide, Some(takedown)) => OperatorAct::Hide(takedown),
        (Action::Show, None) => OperatorAct::Show(&by),
        (Action::TakeDown | Action::Hide, None) | (Action::Show, Some(_)) => {
            return Err(Refusal::invalid(
                "Takedowns and hidden pages need a `reason`; pages that are shown again have none.",
            ));
        }
    };
    let results = stream::iter(pages).map(|page| on_one(&api, page, act));
    Ok(Json(results.buffered(AT_ONCE).collect().await))
}

async fn on_one(api: &AdminApi, page: String, act: OperatorAct<'_>) -> ActResult {
    let slug = match slug_in(&page) {
        Ok(slug) => slug,
        Err(reason) => {
            return ActResult { page, outcome: "not_a_slug".into(), is_as_wanted: false, detail: Some(reason) };
        }
    };
    let (name, now, before) = match act {
        OperatorAct::TakeDown(_) => ("takedown", "taken_down", "already_deleted"),
        OperatorAct::Hide(_) => ("hide", "hidden", "already_hidden"),
        OperatorAct::Show(_) => ("show", "shown", "already_shown"),
    };
    let (outcome, detail) = match api.operators.act(&slug, act).await {
        Ok(ActOutcome::Done(Record::Deleted(_))) => (now, None),
        Ok(ActOutcome::Done(record)) => (now, since(&record)),
        Ok(ActOutcome::Already(record @ (Record::Active(_) | Record::Hidden(..)))) => (before, since(&record)),
        Ok(ActOutcome::Already(record)) => ("already_deleted", since(&record)),
        Ok(ActOutcome::NotFound) => ("not_found", None),
        Ok(ActOutcome::Unreadable(reason)) => {
            tracing::error!(slug = slug.as_str(), error = reason.causes(), "a record cannot be read");
            ("failed", Some(UNREADABLE.to_owned()))
        }
        Err(error) => ("failed", Some(failure(&error).1)),
    };
    let (reason, by) = match act {
        OperatorAct::TakeDown(takedown) | OperatorAct::Hide(takedown) => (Some(takedown.reason.code()), &*takedown.by),
        OperatorAct::Show(by) => (None, by),
    };
    api.log_act(name, Some(slug.clone()), reason, by.to_owned(), outcome).await;
    let is_as_wanted =
        outcome != "failed" && (!matches!(act, OperatorAct::Show(_)) || [now, before].contains(&outcome));
    ActResult { page: slug.to_string(), outcome: outcome.into(), is_as_wanted, detail }
}

fn since(record: &Record) -> Option<String> {
    match record {
        Record::Active(_) => None,
        Record::Hidden(..) | Record::Deleted(_) => Some(record.changed_at().to_string()),
    }
}

/// The slug in a text that is a slug, or an address as notices quote it.
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
