//! The switch with which operators pause creates.

use async_trait::async_trait;

use super::page_store::StoreError;

/// Survives restarts; every replica reads it again and again.
#[async_trait]
pub trait CreatesSwitch: Send + Sync {
    /// False if creates were never paused.
    async fn paused(&self) -> Result<bool, StoreError>;

    /// Durable after `Ok`, and known to every replica within a second.
    async fn set_paused(&self, paused: bool) -> Result<(), StoreError>;
}
