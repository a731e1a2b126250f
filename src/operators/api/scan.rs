//! Looking for pages.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;

use super::refusal::{OperatorsRefusal, operator, parse};
use super::state::OperatorsApi;
use super::types::{Inspection, ScanAnswer, ScanRequest};
use crate::operators::criteria::Criteria;
use handbill_core::domain::audit::AuditAction;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_scan::ScanCursor;
use handbill_core::service::PublishingPolicy;

/// `POST /scan`: the pages of one batch that meet the criteria, and where the next batch begins.
pub(super) async fn scan(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<ScanAnswer>, OperatorsRefusal> {
    let request: ScanRequest = parse(&body)?;
    let after = request.cursor.as_deref().map(cursor).transpose()?;
    let (by, criteria) = (operator(&request.by)?, criteria(&request, &api.policy)?);
    if after.is_none() {
        api.note(&by, AuditAction::Scan).await;
    }
    let scanned = api.operators.scan(move |page| criteria.are_met_by(page), after).await;
    api.count("scan", if scanned.is_ok() { "done" } else { "failed" });
    let scanned = scanned?;
    Ok(Json(ScanAnswer {
        examined: scanned.examined,
        total: scanned.total,
        pages: scanned.found.iter().map(|page| Inspection::of_found(page)).collect(),
        unreadable: scanned.unreadable,
        cursor: scanned.next.map(|next| next.to_hex()),
    }))
}

fn criteria(request: &ScanRequest, policy: &PublishingPolicy) -> Result<Criteria, OperatorsRefusal> {
    let refused = |error| OperatorsRefusal::invalid(format!("A criterion is not as expected: {error}."));
    let time = |text: Option<&str>| text.map(time).transpose();
    let list = || {
        let none = || OperatorsRefusal::invalid("There is no blocklist, or it is empty: give --blocklist-file.");
        policy.blocklist()?.ok_or_else(none)
    };
    let ScanRequest { linking_to, matching, created_after, created_before, changed_after, fingerprint, image, .. } =
        request;
    let criteria = Criteria {
        linking_to: linking_to.as_deref().map(Criteria::host).transpose().map_err(refused)?,
        matching: matching.as_deref().map(Criteria::pattern).transpose().map_err(refused)?,
        created_after: time(created_after.as_deref())?,
        created_before: time(created_before.as_deref())?,
        changed_after: time(changed_after.as_deref())?,
        fingerprint: fingerprint.as_deref().map(Criteria::fingerprint).transpose().map_err(refused)?,
        image: image.as_deref().map(Criteria::image).transpose().map_err(refused)?,
        refused_by: request.refused.then(list).transpose()?,
    };
    if criteria.are_none() {
        let advice = "Give at least one of `linking_to`, `matching`, `created_after`, `created_before`, `changed_after`, `fingerprint`, `image` and `refused`.";
        return Err(OperatorsRefusal::invalid(advice));
    }
    Ok(criteria)
}

/// `2026-11-21T04:30:00Z`, or the beginning of a day in UTC as `2026-11-21`.
fn time(text: &str) -> Result<UnixMillis, OperatorsRefusal> {
    let is_day = text.len() == "2026-11-21".len();
    let parsed =
        if is_day { humantime::parse_rfc3339(&format!("{text}T00:00:00Z")) } else { humantime::parse_rfc3339(text) };
    let since = parsed.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    millis
        .map(UnixMillis::new)
        .ok_or_else(|| OperatorsRefusal::invalid("A time is written like 2026-11-21 or 2026-11-21T04:30:00Z, in UTC."))
}

fn cursor(text: &str) -> Result<ScanCursor, OperatorsRefusal> {
    ScanCursor::from_hex(text)
        .ok_or_else(|| OperatorsRefusal::invalid("The field `cursor` is not one that an answer had."))
}
