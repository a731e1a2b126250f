//! Reading a page.

use tokio::time::Instant;

use super::error::ServiceError;
use super::large_reads::PageRead;
use super::{PageService, StoreBudget, within_deadline};
use crate::domain::slug::Slug;

impl PageService {
    /// The page under `slug`, with HTML from this version of the renderer or a newer one. [`ServiceError::Overloaded`]
    /// means that too many large pages are being read.
    pub async fn read(&self, slug: &str) -> Result<PageRead, ServiceError> {
        let slug = Slug::parse(slug).map_err(|_| ServiceError::NotFound)?;
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
            Ok(PageRead::new(self.rendering.current(page).await, permit))
        })
        .await
    }
}
