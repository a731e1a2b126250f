//! Taking pages down, hiding and showing them, and looking at them.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use futures_util::{StreamExt, stream};
use tokio::task::spawn_blocking;

use super::refusal::{self, OperatorsRefusal, operator, parse};
use super::state::{LoggedAct, OperatorsApi};
use super::types::{
    Inspection, MAX_SLUGS, ShowRequest, TakedownAnswer, TakedownCode, TakedownRequest, TakedownResult, hidden_at,
};
use crate::api::error::ApiError;
use handbill_core::domain::page::Page;
use handbill_core::domain::slug::{SUFFIX_ALPHABET, SUFFIX_CHARS, Slug};
use handbill_core::domain::takedown::Takedown;
use handbill_core::ports::page_store::Record;
use handbill_core::service::{ActOutcome, Found, ServiceError};

/// Takedowns of one request at the same time: enough to share the store's commits, and few enough to leave clients
/// their share.
const AT_ONCE: usize = 16;

/// The message for a page that cannot be hidden or shown since its record cannot be read.
const UNREADABLE: &str = "The record of this page cannot be read, so the page can only be taken down. The runbook says at HandbillStoreCorrupt how to bring it back from a backup.";

pub(super) async fn take_down(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<TakedownAnswer>, OperatorsRefusal> {
    let (slugs, takedown) = asked(&body)?;
    on_each(&api, slugs, &Act::TakeDown(takedown)).await
}

/// `POST /hide`: hides pages until they are shown again or taken down.
pub(super) async fn hide(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<TakedownAnswer>, OperatorsRefusal> {
    let (slugs, takedown) = asked(&body)?;
    on_each(&api, slugs, &Act::Hide(takedown)).await
}

fn asked(body: &[u8]) -> Result<(Vec<String>, Takedown), OperatorsRefusal> {
    let TakedownRequest { slugs, reason, by } = parse(body)?;
    Ok((slugs, Takedown { reason, by: operator(&by)? }))
}

/// `POST /show`: shows hidden pages again.
pub(super) async fn show(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<TakedownAnswer>, OperatorsRefusal> {
    let request: ShowRequest = parse(&body)?;
    let by = operator(&request.by)?;
    on_each(&api, request.slugs, &Act::Show(by)).await
}

enum Act {
    TakeDown(Takedown),
    Hide(Takedown),
    /// The operator's name.
    Show(String),
}

/// Does `act` to each page. The results are in their order.
async fn on_each(api: &OperatorsApi, texts: Vec<String>, act: &Act) -> Result<Json<TakedownAnswer>, OperatorsRefusal> {
    if texts.len() > MAX_SLUGS {
        return Err(OperatorsRefusal::invalid(format!("Send at most {MAX_SLUGS} slugs at a time.")));
    }
    let one = |text| async move { on_one(api, text, act).await };
    let results = stream::iter(texts).map(one).buffered(AT_ONCE).collect().await;
    api.written().await;
    Ok(Json(TakedownAnswer { results }))
}

async fn on_one(api: &OperatorsApi, text: String, act: &Act) -> TakedownResult {
    let slug = match slug_in(&text) {
        Ok(slug) => slug,
        Err(reason) => {
            let (outcome, message) = (TakedownCode::NotASlug, Some(reason));
            return TakedownResult { slug: text, outcome, message, ..TakedownResult::default() };
        }
    };
    let (action, by, reason) = match act {
        Act::TakeDown(Takedown { reason, by }) => ("takedown", by, Some(reason.code())),
        Act::Hide(Takedown { reason, by }) => ("hide", by, Some(reason.code())),
        Act::Show(by) => ("show", by, None),
    };
    let outcome = match act {
        Act::TakeDown(takedown) => api.operators.take_down(&slug, takedown).await,
        Act::Hide(takedown) => api.operators.hide(&slug, Some(takedown)).await,
        Act::Show(_) => api.operators.hide(&slug, None).await,
    };
    let result = result_of(act, &slug, outcome);
    api.log_act(&LoggedAct { action, slug: Some(slug.as_str()), reason, by, outcome: result.outcome.as_str() });
    result
}

fn result_of(act: &Act, slug: &Slug, outcome: Result<ActOutcome, ServiceError>) -> TakedownResult {
    let [done, already] = match act {
        Act::TakeDown(_) => [TakedownCode::TakenDown, TakedownCode::AlreadyDeleted],
        Act::Hide(_) => [TakedownCode::Hidden, TakedownCode::AlreadyHidden],
        Act::Show(_) => [TakedownCode::Shown, TakedownCode::AlreadyShown],
    };
    let result = |outcome| TakedownResult { slug: slug.to_string(), outcome, ..TakedownResult::default() };
    match outcome {
        Ok(ActOutcome::Done(record)) => result_with(&record, done),
        Ok(ActOutcome::Already(record @ Record::Active(_))) => result_with(&record, already),
        Ok(ActOutcome::Already(record)) => result_with(&record, TakedownCode::AlreadyDeleted),
        Ok(ActOutcome::NotFound) => result(TakedownCode::NotFound),
        Ok(ActOutcome::Unreadable(reason)) => {
            tracing::error!(slug = slug.as_str(), error = reason.causes(), "a record cannot be read");
            TakedownResult { message: Some(UNREADABLE.to_owned()), ..result(TakedownCode::Failed) }
        }
        Err(failure) => {
            refusal::log(&failure);
            let message = Some(refusal::message(&failure, ApiError::from(&failure)));
            TakedownResult { message, ..result(TakedownCode::Failed) }
        }
    }
}

/// The result for a page of which `record` is there now.
fn result_with(record: &Record, outcome: TakedownCode) -> TakedownResult {
    let (deleted_at, hidden_at) = match record {
        Record::Active(page) => (None, hidden_at(page)),
        Record::Deleted(tombstone) => (Some(tombstone.deleted_at.to_string()), None),
    };
    TakedownResult { slug: record.slug().to_string(), outcome, deleted_at, hidden_at, ..TakedownResult::default() }
}

pub(super) async fn inspect(
    State(api): State<Arc<OperatorsApi>>,
    Path(text): Path<String>,
) -> Result<Json<Inspection>, OperatorsRefusal> {
    let slug = slug_in(&text).map_err(OperatorsRefusal::invalid)?;
    let found = api.operators.inspect(&slug).await;
    api.count("inspect", if found.is_ok() { "done" } else { "failed" });
    Ok(Json(match found? {
        Found::Page(page) => aside(page, Inspection::of_page).await,
        Found::Deleted(tombstone) => Inspection::of_tombstone(&tombstone),
        Found::Absent => Inspection::absent(&slug),
        Found::Unreadable(head, reason) => Inspection::unreadable(&slug, head.as_deref(), &reason),
    }))
}

/// The result of `work` on `page`, on a thread that answers nobody: a hostile page takes up to 0.2 s of CPU.
async fn aside<T: Send + 'static>(page: Arc<Page>, work: fn(&Page) -> T) -> T {
    spawn_blocking(move || work(&page)).await.expect("it does not panic")
}

/// The slug that `text` names: a slug, or an address of the page, as notices quote it. The error says what is wrong with it.
fn slug_in(text: &str) -> Result<Slug, String> {
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
