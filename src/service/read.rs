//! Reading a page.

use tokio::time::Instant;

use super::{PageRead, PageService, ServiceError, StoreBudget, within_deadline};
use crate::domain::slug::Slug;

impl PageService {
    /// The page under `slug`, with HTML that is not older than this renderer. [`ServiceError::Overloaded`] where too many
    /// large pages are being read.
    pub async fn read(&self, slug: &str) -> Result<PageRead, ServiceError> {
        let slug = Slug::parse(slug).map_err(|_| ServiceError::NotFound)?;
        within_deadline(Instant::now(), async {
            let mut store_budget = StoreBudget::new();
            let mut page = self.existing(&slug, &mut store_budget).await?;
            let turn = match self.large_reads.try_turn(&page) {
                Ok(turn) => turn,
                Err(waits_for) => {
                    drop(page);
                    let turn = self.large_reads.turn(waits_for).await?;
                    page = self.existing(&slug, &mut store_budget).await?;
                    turn
                }
            };
            Ok(PageRead::new(self.rendering.current(page).await, turn))
        })
        .await
    }
}
