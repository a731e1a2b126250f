//! `handbill check` for a cluster: a sweep that changes nothing, and the rows of the ledger that lack what was done.

use std::fmt;

use super::ring::{Tokens, read_parts};
use super::store::CqlStore;
use super::sweep::{REPEATS, SweepError, SweepPlan, SweepReport, left_out};
use crate::ports::page_store::StoreError;
use crate::settings::CqlSettings;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub swept: SweepReport,
    /// Rows of the ledger without the deletion, or without what operators did, that their page shows.
    pub unended: u64,
}

impl CheckReport {
    /// Texts that no page shows are no fault: each crash may leave one, and the sweep deletes it.
    pub fn is_whole(&self) -> bool {
        self.swept.without_text == 0 && self.unended == 0 && self.swept.unread == 0
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { swept: SweepReport { read, unnamed, headless, without_text, unread, .. }, unended } = self;
        let verdict = match (self.is_whole(), without_text + unended) {
            (true, _) => "whole".to_owned(),
            (false, 0) => format!("not known, because {unread} parts could not be read"),
            (false, _) => "damaged".to_owned(),
        };
        write!(
            f,
            "{verdict}; {read} keys read, the text of {without_text} pages is missing, {unended} rows of the ledger lack their end. For \
             handbill sweep: {unnamed} texts that no page shows, {headless} texts without a page"
        )
    }
}

/// Checks the keyspace of `settings` as `plan` sweeps it, and names each page with a fault to `fault`.
pub async fn check(
    settings: &CqlSettings,
    plan: SweepPlan,
    fault: impl Fn(&str) + Send + Sync,
) -> Result<CheckReport, SweepError> {
    let store = CqlStore::reach(settings).await?;
    store.check(&settings.keyspace, plan, fault).await
}

impl CqlStore {
    /// Checks `keyspace`, which must be that of this store.
    pub async fn check(
        &self,
        keyspace: &str,
        plan: SweepPlan,
        fault: impl Fn(&str) + Send + Sync,
    ) -> Result<CheckReport, SweepError> {
        let plan = SweepPlan { dry_run: true, ..plan };
        let mut swept =
            self.sweep_naming(keyspace, plan, |_, _| {}, |slug| fault(&format!("the text is missing: {slug}"))).await?;
        let mut unended = 0;
        let read = async |tokens| self.unended_in(tokens).await.map_err(|error| SweepError::Database(error.into()));
        read_parts(plan.share, REPEATS, read, |_, tokens, part| {
            match part {
                Ok(found) => {
                    unended += found.len() as u64;
                    for slug in found {
                        fault(&format!("the ledger lacks what was done: {slug}"));
                    }
                }
                Err(error) => swept.unread += left_out(tokens, error, swept.unread)?.unread,
            }
            Ok(())
        })
        .await?;
        Ok(CheckReport { swept, unended })
    }

    async fn unended_in(&self, (mut after, until): Tokens) -> Result<Vec<String>, StoreError> {
        let mut all = Vec::new();
        loop {
            let (unended, next) = self.unended_between((after, until)).await?;
            all.extend(unended);
            match next {
                Some(last) => after = last,
                None => return Ok(all),
            }
        }
    }
}
