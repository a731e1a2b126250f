//! Writes from the beginning of a planned move to its end: each is acknowledged only once a quorum of each datacentre has it, so that
//! nothing that was acknowledged meanwhile is left to copy.
//!
//! A plain write is sent at `EACH_QUORUM`. A conditional write cannot be: it is decided in one datacentre, and Cassandra counts the
//! copies of all datacentres together when it commits one. So the head that it has made is sent once more, plainly, at
//! `EACH_QUORUM` and **with its own timestamp**: the same cells, as a repair would bring them. Whatever else is written to the
//! page meanwhile has another timestamp, and the later one stays everywhere.
//!
//! If that fails, the outcome is unknown: the writing side shows the write, and the new side may lack it. An answer to a
//! repeated request that finds the write already done confirms it first.

use std::borrow::Cow;

use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, MaybeUnset, Row};

use super::permit::Permit;
use super::request_error::unreadable;
use super::store::CqlStore;
use crate::domain::slug::Slug;
use crate::ports::page_store::StoreError;

impl CqlStore {
    /// Sends a plain write until it is answered, each time with the consistency that it needs then.
    pub(super) async fn write(
        &self,
        permit: &Permit<'_>,
        write: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), StoreError> {
        let request = async || {
            self.session.execute_unpaged(&self.spread(write), &values).await?;
            Ok(())
        };
        self.repeat(permit, request).await
    }

    fn spread<'a>(&self, write: &'a PreparedStatement) -> Cow<'a, PreparedStatement> {
        if !self.fence.confirms() {
            return Cow::Borrowed(write);
        }
        let mut write = write.clone();
        write.set_consistency(Consistency::EachQuorum);
        Cow::Owned(write)
    }

    /// Sends the head of `slug` as it stands to a quorum of each datacentre, if a planned move copies.
    pub(super) async fn confirm(&self, permit: &Permit<'_>, slug: &Slug) -> Result<(), StoreError> {
        if !self.fence.confirms() {
            return Ok(());
        }
        let request = async || {
            let read = self.session.execute_unpaged(&self.statements.read_head, (slug.as_str(),)).await?;
            let row = read.into_rows_result().map_err(unreadable)?.maybe_first_row::<Row>().map_err(unreadable)?;
            // The last column is the timestamp that all of them have.
            let Some((Some(written_at), columns)) = row.as_ref().and_then(|row| row.columns.split_last()) else {
                return Ok(());
            };
            let mut values = vec![MaybeUnset::Set(written_at.clone())];
            values.extend(columns.iter().cloned().map(MaybeUnset::from_option));
            values.push(MaybeUnset::Set(CqlValue::Text(slug.as_str().to_owned())));
            self.session.execute_unpaged(&self.statements.spread_head, values).await?;
            Ok(())
        };
        let confirmed = self.repeat(permit, request).await;
        confirmed.map_err(|error| StoreError::OutcomeUnknown(Box::new(error)))
    }
}
