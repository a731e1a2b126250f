//! The switch with which operators pause or limit creates. Every replica reads it again and again.

use async_trait::async_trait;

use super::page_store::StoreError;
use crate::domain::creates::Creates;

/// A switch that survives restarts.
#[async_trait]
pub trait CreatesSwitch: Send + Sync {
    /// The limits in force; the default if nobody has set anything. [`StoreError::Unreadable`] says that what is kept
    /// makes no sense.
    async fn load(&self) -> Result<Creates, StoreError>;

    /// The limits that [`CreatesSwitch::load`] returned last, in this process or in one before it, for when what is kept makes no
    /// sense. A store that nobody writes by hand keeps none.
    async fn last(&self) -> Option<Creates>;

    /// Allows `creates` from now on, at every replica within seconds. An `Ok` means that it is durable.
    async fn save(&self, creates: Creates) -> Result<(), StoreError>;
}
