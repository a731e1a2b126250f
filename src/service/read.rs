//! Reading a page.

use std::sync::Arc;

use super::{Failure, PageService, Patience, within_deadline};
use crate::domain::page::Page;
use crate::domain::slug::Slug;

impl PageService {
    /// The page under `slug`, with HTML that is not older than this renderer.
    pub async fn read(&self, slug: &str) -> Result<Arc<Page>, Failure> {
        let slug = Slug::parse(slug).map_err(|_| Failure::NotFound)?;
        within_deadline(async {
            let page = self.existing(&slug, &mut Patience::new()).await?;
            Ok(self.rendering.current(page).await)
        })
        .await
    }
}
