//! The requests of one session, each within its time limit.

use std::sync::Arc;

use handbill_pages::ports::page_store::{Cause, StoreError};
use handbill_pages::values::{record::Record, slug::Slug};
use scylla::{
    client::session::Session, deserialize::row::DeserializeRow, response::query_result::QueryResult,
    serialize::row::SerializeRow, statement::prepared::PreparedStatement,
};
use tokio::time::{Instant, timeout_at};

use super::row::{HeadRow, Statements, WholeRow};
use super::session::{Limits, NO_ANSWER};

pub(super) struct Connected {
    pub(super) session: Arc<Session>,
    pub(super) statements: Statements,
    pub(super) limits: Limits,
}

impl Connected {
    /// Sends a request, which must be harmless to repeat. The statement has its time limit.
    pub(super) async fn send(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, StoreError> {
        Box::pin(self.session.execute_unpaged(statement, values)).await.map_err(unavailable)
    }

    async fn first_row<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Option<R>, StoreError>
    where
        R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
    {
        let rows = self.send(statement, values).await?.into_rows_result().map_err(unreadable)?;
        rows.maybe_first_row().map_err(unreadable)
    }

    pub(super) async fn head_row(&self, slug: &Slug) -> Result<Option<HeadRow>, StoreError> {
        let row = self.first_row(&self.statements.read_head, (slug.as_str(),)).await?;
        match row {
            Some(row) if !HeadRow::is_whole(&row) => Ok(self.settled_row(slug).await?.map(WholeRow::into_head)),
            row => Ok(row),
        }
    }

    pub(super) async fn record(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        let row = self.first_row(&self.statements.read_all, (slug.as_str(),)).await?;
        match row {
            Some(row) => self.record_in(row, slug).await,
            None => Ok(None),
        }
    }

    /// The record of a row that a plain read has returned.
    pub(super) async fn record_in(&self, row: WholeRow, slug: &Slug) -> Result<Option<Record>, StoreError> {
        let row = if row.is_whole() { Some(row) } else { self.settled_row(slug).await? };
        row.map_or(Ok(None), |row| row.into_record(slug)).map_err(StoreError::Unreadable)
    }

    /// Reads a row serially, which completes interrupted writes first, so all columns are of one write.
    pub(super) async fn settled_row(&self, slug: &Slug) -> Result<Option<WholeRow>, StoreError> {
        self.first_row(&self.statements.read_all_serially, (slug.as_str(),)).await
    }

    /// `None` before `handbill migrate`.
    pub(super) async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let row: Option<(Option<String>,)> = self.first_row(&self.statements.read_setting, (name,)).await?;
        Ok(row.and_then(|(value,)| value))
    }
}

pub(super) async fn before_deadline<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| Err(unavailable(NO_ANSWER)))
}

pub(super) fn unavailable(cause: impl Into<Cause>) -> StoreError {
    StoreError::Unavailable(cause.into())
}

fn unreadable(cause: impl Into<Cause>) -> StoreError {
    StoreError::Unreadable(cause.into())
}
