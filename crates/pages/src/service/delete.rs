//! Deleting a page.

use tokio::time::Instant;

use super::error::ServiceError;
use super::request::{Body, Credential, Precondition};
use super::{Limited, PageService, StoreBudget, back_off, deadline, until};
use crate::ports::page_store::{CasResult, Record};
use crate::ports::rate_limiter::LimitKind;
use crate::values::client::Client;
use crate::values::slug::Slug;

impl PageService {
    /// A tombstone keeps the slug. `body` is the error of a request with fields.
    ///
    /// After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may or may not be deleted.
    pub async fn delete(
        &self,
        client: Client,
        slug: &str,
        credential: &Credential,
        body: Body<()>,
        precondition: &Precondition,
    ) -> Limited<()> {
        match Slug::parse(slug) {
            Ok(slug) => {
                let deadline = deadline();
                let deletion = self.delete_page(&slug, credential, body, precondition, deadline);
                self.admit(LimitKind::Edit, client, until(deadline, deletion)).await
            }
            Err(_) => Limited::rejected_before_limit(ServiceError::NotFound),
        }
    }

    async fn delete_page(
        &self,
        slug: &Slug,
        credential: &Credential,
        body: Body<()>,
        precondition: &Precondition,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let mut store_budget = StoreBudget::new(deadline);
        let mut head = self.existing_head(slug, &mut store_budget).await?;
        credential.open(head.key_hash)?;
        body?;
        loop {
            precondition.check(head.state())?;
            let tombstone = head.tombstone(self.clock.now());
            let needed_by = Some(store_budget.needed_by());
            let swapped = self.store.compare_and_set(head.version, Record::Deleted(tombstone), needed_by);
            match store_budget.wait(swapped).await? {
                CasResult::Swapped => {
                    self.pages.drop_page(slug);
                    return Ok(());
                }
                CasResult::Stale => back_off(&self.random).await,
            }
            store_budget.renew();
            head = self.existing_head(slug, &mut store_budget).await?;
        }
    }
}
