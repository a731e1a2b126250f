//! Settings of the commands that move records and look after the store's files.

use clap::Args;

use super::store::StoreKind;
use super::{CqlSettings, EmbeddedSettings, OperatorAccess, StoreSettings, WaitSettings};

/// The settings of `export`, `import` and `backup`.
#[derive(Args, Debug)]
pub struct MovingSettings {
    #[command(flatten, next_help_heading = "Store")]
    pub store: StoreSettings,
    #[command(flatten, next_help_heading = StoreKind::Embedded.help_heading())]
    pub embedded: EmbeddedSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    cql: CqlSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    wait: WaitSettings,
    #[command(flatten, next_help_heading = "Operators' listener")]
    pub access: OperatorAccess,
}

impl MovingSettings {
    /// The cluster, and how long the command waits for it.
    pub fn cql(&self) -> handbill_store_cql::CqlSettings {
        handbill_store_cql::CqlSettings { schema_wait: self.wait.schema_wait, ..self.cql.store() }
    }
}
