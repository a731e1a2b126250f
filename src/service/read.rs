//! Reading a page.

use tokio::time::Instant;

use super::error::ServiceError;
use super::page_cache::PageRead;
use super::{PageService, StoreBudget, within_deadline};
use crate::domain::slug::Slug;

impl PageService {
    /// The page under `slug`, with HTML from this version of the renderer or a newer one. [`ServiceError::Overloaded`]
    /// means that too many large pages are being read.
    pub async fn read(&self, slug: &str) -> Result<PageRead, ServiceError> {
        let slug = Slug::parse(slug).map_err(|_| ServiceError::NotFound)?;
        if let Some(ready) = self.ready(&slug) {
            ready.count_hit();
            return Ok(ready);
        }
        within_deadline(Instant::now(), async {
            let mut store_budget = StoreBudget::new();
            let mut page = self.existing(&slug, &mut store_budget).await?;
            let permit = match self.large_reads.try_acquire(&page) {
                Ok(permit) => permit,
                Err(needed) => {
                    drop(page);
                    let permit = self.large_reads.acquire(needed).await?;
                    page = self.existing(&slug, &mut store_budget).await?;
                    permit
                }
            };
            Ok(self.pages.keep(self.rendering.current(page).await, permit))
        })
        .await
    }

    /// The page under `slug`, if it is ready and known to be current. This asks nobody and counts nothing.
    pub fn ready(&self, slug: &Slug) -> Option<PageRead> {
        self.pages.get(slug, self.store.known_state(slug)?)
    }
}
