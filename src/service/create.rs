//! Creating a page.

use std::pin::pin;
use std::sync::Arc;

use super::error::ServiceError;
use super::request::{Body, CreateFields};
use super::{Limited, PageService, StoreBudget};
use crate::domain::client::Client;
use crate::domain::content::Content;
use crate::domain::edit_key::EditKey;
use crate::domain::markdown::Rendered;
use crate::domain::page::{Page, PageVersion, TextPlace};
use crate::domain::slug::{Slug, SlugSuffix};
use crate::domain::title::Title;
use crate::ports::page_store::{InsertResult, StoreError};
use crate::ports::random::index_below;
use crate::ports::rate_limiter::LimitKind;
use crate::ports::slug_reservations::Reservation;

/// Slugs tried before giving up. With 28⁸ suffixes even a second try is rarer than a failing disk, so eight failures
/// mean that something is broken.
const SLUG_ATTEMPTS: usize = 8;

/// A page that was just created, with the only copy of its key.
#[derive(Debug)]
pub struct Created {
    /// The page.
    pub page: Arc<Page>,
    /// Its key, which is never shown again.
    pub edit_key: EditKey,
}

impl PageService {
    /// Publishes a page. After [`ServiceError::Store`] or [`ServiceError::DeadlinePassed`] the page may have been
    /// stored, without anyone having its key.
    pub async fn create(&self, client: Client, body: Body<CreateFields>) -> Limited<Created> {
        match body.and_then(CreateFields::check) {
            Ok((title, content)) => {
                self.admit_within_deadline(LimitKind::Create, client, self.publish(title, content)).await
            }
            Err(error) => Limited::rejected_before_limit(error.into()),
        }
    }

    async fn publish(&self, title: Title, content: Content) -> Result<Created, ServiceError> {
        self.policy.check_pause()?;
        let mut slug = self.random_slug(&title);
        let (rendered, reservation) = self.render_while_reserving(&content, &slug).await;
        let reserved = (reservation == Reservation::Held).then(|| slug.clone());
        if reserved.is_none() {
            slug = self.random_slug(&title);
        }
        let allowed = match self.policy.check_content(&rendered) {
            Ok(()) => self.policy.spend_budget(&*self.limiter).await,
            refused => refused,
        };
        if let Err(refused) = allowed {
            self.release(&reserved, &slug);
            return Err(refused);
        }
        let edit_key = EditKey::random(|bound| index_below(&self.random, bound));
        let now = self.clock.now();
        let mut page = Page {
            slug,
            title: Some(title.clone()),
            content,
            rendered,
            key_hash: edit_key.hash(),
            version: PageVersion::FIRST,
            created_at: now,
            updated_at: now,
            text: TextPlace::Unknown,
        };
        for _ in 0..SLUG_ATTEMPTS {
            let candidate = Arc::new(page);
            let inserted = StoreBudget::new().wait(self.store.insert_if_absent(Arc::clone(&candidate))).await;
            // The reservation is kept while the outcome is unknown.
            if !matches!(
                inserted,
                Err(ServiceError::Store(StoreError::OutcomeUnknown(_)) | ServiceError::DeadlinePassed)
            ) {
                self.release(&reserved, &candidate.slug);
            }
            if inserted? == InsertResult::Inserted {
                return Ok(Created { page: candidate, edit_key });
            }
            page = Page { slug: self.random_slug(&title), ..Arc::unwrap_or_clone(candidate) };
        }
        Err(ServiceError::NoFreeSlug)
    }

    /// The HTML of `content`, and the reservation of `slug` if it was answered meanwhile. A reservation only saves a write,
    /// so nobody waits for it.
    async fn render_while_reserving(&self, content: &Content, slug: &Slug) -> (Rendered, Reservation) {
        let mut reserving = pin!(self.reservations.reserve(slug));
        let mut rendering = pin!(self.rendering.render(content));
        let mut answer = None;
        loop {
            tokio::select! {
                biased;
                reservation = &mut reserving, if answer.is_none() => answer = Some(reservation),
                rendered = &mut rendering => return (rendered, answer.unwrap_or(Reservation::Held)),
            }
        }
    }

    /// Ends the reservation of `slug`, if it is the reserved one, while the caller goes on.
    fn release(&self, reserved: &Option<Slug>, slug: &Slug) {
        let Some(slug) = reserved.clone().filter(|reserved| reserved == slug) else { return };
        let reservations = Arc::clone(&self.reservations);
        drop(tokio::spawn(async move { reservations.release(&slug).await }));
    }

    fn random_slug(&self, title: &Title) -> Slug {
        Slug::derive(title, SlugSuffix::random(|bound| index_below(&self.random, bound)))
    }
}
