//! [`CreatesSwitch`] among the facts about the whole file.

use async_trait::async_trait;
use redb::{Database, ReadableDatabase, WriteTransaction};

use super::reading::on_database;
use super::store::RedbStore;
use super::tables::{META, Operation};
use crate::ports::creates_switch::CreatesSwitch;
use crate::ports::page_store::StoreError;

/// 1 while creates are paused.
const PAUSED_KEY: &str = "paused";

pub(super) fn set(transaction: &WriteTransaction, paused: bool) -> Result<(), redb::Error> {
    transaction.open_table(META)?.insert(PAUSED_KEY, u64::from(paused))?;
    Ok(())
}

fn paused(database: &Database) -> Result<bool, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    Ok(meta.get(PAUSED_KEY)?.is_some_and(|paused| paused.value() == 1))
}

#[async_trait]
impl CreatesSwitch for RedbStore {
    async fn paused(&self) -> Result<bool, StoreError> {
        self.read_blocking(|shared| on_database(shared, paused)).await
    }

    async fn set_paused(&self, paused: bool) -> Result<(), StoreError> {
        self.write(Operation::Pause(paused)).await.map(|_done| ())
    }
}
