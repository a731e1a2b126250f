//! The deployment's secret for slugs. `handbill migrate` writes it once.

use rand::Rng;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use super::migrate::schema::COMPONENT;
use super::store::CqlStore;
use crate::domain::slug_secret::{SECRET_BYTES, SlugSecret};
use crate::ports::page_store::StoreError;
use crate::ports::random::new_slug_secret;

/// The statement that writes a secret into `keyspace`, if there is none, and its value.
pub(super) fn creation(keyspace: &str, rng: impl Rng) -> (Statement, SlugSecret) {
    let mut statement = Statement::new(format!(
        "INSERT INTO {keyspace}.slug_secret (component, secret) VALUES ('{COMPONENT}', ?) IF NOT EXISTS"
    ));
    statement.set_consistency(Consistency::Quorum);
    statement.set_serial_consistency(Some(SerialConsistency::Serial));
    (statement, new_slug_secret(rng))
}

impl CqlStore {
    pub(super) async fn read_slug_secret(&self) -> Result<SlugSecret, StoreError> {
        let missing = || StoreError::Unavailable("there is no secret for slugs: run `handbill migrate`".into());
        self.slug_secret_if_made().await?.ok_or_else(missing)
    }

    /// The secret; `None` if `handbill migrate` has not ended.
    pub(super) async fn slug_secret_if_made(&self) -> Result<Option<SlugSecret>, StoreError> {
        let permit = self.background_permit().await?;
        let row: Option<(Option<Vec<u8>>,)> = self.first_row(&permit, &self.statements.read_slug_secret, ()).await?;
        let bytes: Option<[u8; SECRET_BYTES]> = row.and_then(|(secret,)| secret?.try_into().ok());
        Ok(bytes.map(SlugSecret::from_bytes))
    }
}
