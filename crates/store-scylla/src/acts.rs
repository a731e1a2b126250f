//! What operators did last to each page, for imports: a page that is not here yet may have been hidden.

use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, Visibility};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::StoreError;
use scylla::value::CqlTimestamp;
use tokio::time::Instant;

use super::conditional::{self, Conditional, new_id};
use super::row::RowError;
use super::store::ScyllaStore;

type ActRow = (Option<CqlTimestamp>, Option<String>, Option<String>);

impl ScyllaStore {
    pub(super) async fn last_act(&self, slug: &Slug) -> Result<Option<Visibility>, StoreError> {
        let row: Option<ActRow> = self.first_row(&self.connected()?.statements.read_act, (slug.as_str(),)).await?;
        let Some((Some(at), reason, by)) = row else { return Ok(None) };
        let hidden = reason.filter(|code| !code.is_empty()).map(|code| {
            let reason = code.parse().map_err(|_| RowError::Column("reason"))?;
            Ok::<_, RowError>(Takedown { reason, by: by.unwrap_or_default() })
        });
        Ok(Some(Visibility { slug: slug.clone(), at: UnixMillis::new(at.0), hidden: hidden.transpose()? }))
    }

    /// Keeps `act` unless operators did something later; returns whether it is new.
    pub(super) async fn keep_act(&self, act: &Visibility, deadline: Instant) -> Result<bool, StoreError> {
        let connected = self.connected()?;
        let (slug, at) = (act.slug.as_str(), CqlTimestamp(act.at.get()));
        let reason = act.hidden.as_ref().map_or("", |hidden| hidden.reason.code());
        let by = act.hidden.as_ref().map_or("", |hidden| hidden.by.as_str());
        let id = new_id(&self.random);
        let (session, limits, random) = (&connected.session, &self.limits, &self.random);
        let create = Conditional {
            statement: &connected.statements.create_act,
            values: (slug, at, reason, by),
            id,
            expected: 0,
        };
        if conditional::run(session, create, limits, random, deadline).await? {
            return Ok(true);
        }
        let values = (at, reason, by, slug, at);
        let replace = Conditional { statement: &connected.statements.replace_act, values, id, expected: 0 };
        conditional::run(session, replace, limits, random, deadline).await
    }
}
