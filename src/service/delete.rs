//! Deleting a page, which is for ever.

use super::request::{Body, Credential, Precondition};
use super::{Attempt, PageService, ServiceError, StoreBudget};
use crate::domain::client::Client;
use crate::domain::slug::Slug;
use crate::ports::page_store::{CasResult, Record};
use crate::ports::rate_limiter::LimitKind;

impl PageService {
    /// Puts a tombstone in the page's place; its slug stays reserved.
    ///
    /// A delete has no fields; `body` tells what is wrong with a request that came with some.
    ///
    /// When this answers [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`], the page may or may not have been deleted.
    pub async fn delete(
        &self,
        client: Client,
        slug: &str,
        credential: &Credential,
        body: Body<()>,
        precondition: &Precondition,
    ) -> Attempt<()> {
        match Slug::parse(slug) {
            Ok(slug) => self.limited(LimitKind::Edit, client, self.bury(&slug, credential, body, precondition)).await,
            Err(_) => Attempt::uncounted(ServiceError::NotFound),
        }
    }

    async fn bury(
        &self,
        slug: &Slug,
        credential: &Credential,
        body: Body<()>,
        precondition: &Precondition,
    ) -> Result<(), ServiceError> {
        let mut store_budget = StoreBudget::new();
        let mut page = self.existing(slug, &mut store_budget).await?;
        credential.open(&page)?;
        body?;
        loop {
            precondition.check(page.state())?;
            let tombstone = page.tombstone(self.clock.now());
            match store_budget.wait(self.store.compare_and_set(page.version, Record::Deleted(tombstone))).await? {
                CasResult::Swapped => return Ok(()),
                // Another request changed or deleted the page between the read and the write.
                CasResult::Stale => self.back_off().await,
            }
            store_budget = StoreBudget::new();
            page = self.existing(slug, &mut store_budget).await?;
        }
    }
}
