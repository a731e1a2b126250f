//! The list of what operators did.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use super::refusal::OperatorsRefusal;
use super::state::OperatorsApi;
use handbill_core::domain::audit::{ActionJson, AuditAction, NumberedEntry};
use handbill_core::ports::audit_log::MAX_ENTRIES;

/// One line of `GET /audit`.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuditLine {
    /// 1 for the first entry, one more with each.
    pub number: u64,
    pub at: String,
    /// The operator's name.
    pub by: String,
    #[serde(flatten, with = "ActionJson")]
    pub action: AuditAction,
}

impl From<NumberedEntry> for AuditLine {
    fn from(NumberedEntry { number, entry }: NumberedEntry) -> Self {
        Self { number, at: entry.at.to_string(), by: entry.by, action: entry.action }
    }
}

/// `GET /audit?after=NUMBER`: the entries after that number as lines of JSON, oldest first. An empty answer means the
/// end.
pub(super) async fn list(
    State(api): State<Arc<OperatorsApi>>,
    RawQuery(query): RawQuery,
) -> Result<Response, OperatorsRefusal> {
    let after =
        after(query.as_deref()).ok_or_else(|| OperatorsRefusal::invalid("The query is `after=NUMBER`, or nothing."))?;
    let entries = api.operators.audit(after, MAX_ENTRIES).await?;
    let mut lines = String::new();
    for entry in entries {
        let line = serde_json::to_string(&AuditLine::from(entry)).map_err(|_| OperatorsRefusal::internal())?;
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

/// The number in the query; 0 without a query.
fn after(query: Option<&str>) -> Option<u64> {
    query.map_or(Some(0), |query| query.strip_prefix("after=")?.parse().ok())
}
