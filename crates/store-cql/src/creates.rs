//! [`CreatesSwitch`] in a row that every replica reads again each second.
//!
//! Each change is conditional on the number of changes before it. So the clocks of replicas do not decide which of two
//! changes stays.

use async_trait::async_trait;
use scylla::DeserializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::time::{Instant, sleep};

use super::lwt::Pauses;
use super::permit::Permit;
use super::single_attempts::{Attempt, Failures};
use super::store::CqlStore;
use crate::ports::creates_switch::CreatesSwitch;
use crate::ports::page_store::StoreError;

/// The row of the switch. All columns are null if nobody has set anything.
#[derive(Default, DeserializeRow)]
struct SwitchRow {
    revision: Option<i64>,
    paused: Option<bool>,
}

impl CqlStore {
    async fn read_switch(&self, permit: &Permit<'_>, read: &PreparedStatement) -> Result<SwitchRow, StoreError> {
        Ok(self.first_row(permit, read, ()).await?.unwrap_or_default())
    }
}

#[async_trait]
impl CreatesSwitch for CqlStore {
    async fn paused(&self) -> Result<bool, StoreError> {
        let permit = self.background_permit().await?;
        Ok(self.read_switch(&permit, &self.operated.read_switch).await?.paused.unwrap_or_default())
    }

    async fn set_paused(&self, paused: bool) -> Result<(), StoreError> {
        let permit = self.background_permit().await?;
        let (mut failures, mut delays) = (Failures::default(), Pauses::new());
        while Instant::now() < permit.deadline {
            // This read also completes an attempt whose outcome is unknown. If that attempt was done, repeating it
            // changes nothing.
            let before = self.read_switch(&permit, &self.operated.read_switch_serially).await?.revision;
            let values = (before.unwrap_or(0).saturating_add(1), paused, before);
            match self.attempt(&permit, &self.operated.change_switch, values).await {
                Attempt::Applied => return Ok(()),
                Attempt::Refused => {}
                Attempt::Failed(outcome, cause) => failures.add(outcome, cause),
            }
            sleep(delays.next(&self.random)).await;
        }
        Err(failures.into_error())
    }
}
