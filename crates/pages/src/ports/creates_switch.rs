//! The switch with which operators pause creates. Every replica reads it again and again.

use async_trait::async_trait;

use super::page_store::StoreError;

/// A switch that survives restarts: it is kept with the pages.
#[async_trait]
pub trait CreatesSwitch: Send + Sync {
    /// Whether creates are paused; false if nobody has ever paused them.
    async fn paused(&self) -> Result<bool, StoreError>;

    /// Pauses or resumes creates, at every replica within a second. An `Ok` means that it is durable.
    async fn set_paused(&self, paused: bool) -> Result<(), StoreError>;
}
