//! [`CreatesSwitch`] in a row that every replica reads again each second.
//!
//! Each change is conditional on the number of changes before it. So the clocks of replicas do not decide which of two
//! changes stays.

use async_trait::async_trait;
use scylla::DeserializeRow;
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::lwt::Pauses;
use super::permit::Permit;
use super::single_attempts::{Attempt, Failures};
use super::store::CqlStore;
use crate::domain::creates::Creates;
use crate::ports::creates_switch::CreatesSwitch;
use crate::ports::page_store::StoreError;

/// The row of the switch. All columns are null if nobody has set anything.
#[derive(Default, DeserializeRow)]
struct SwitchRow {
    revision: Option<i64>,
    paused: Option<bool>,
    hourly_budget: Option<i32>,
}

/// Somebody wrote a budget by hand that is none.
#[derive(Debug, Error)]
#[error("the table `creates` has a budget out of range: set one with `handbill budget`")]
struct SenselessBudgetError;

impl SwitchRow {
    fn creates(&self) -> Result<Creates, StoreError> {
        let senseless = || StoreError::Unreadable(Box::new(SenselessBudgetError));
        let hourly_budget = self.hourly_budget.map(u32::try_from).transpose().map_err(|_| senseless())?;
        let creates = Creates { paused: self.paused.unwrap_or_default(), hourly_budget };
        if creates.is_valid() { Ok(creates) } else { Err(senseless()) }
    }
}

impl CqlStore {
    async fn read_switch(&self, permit: &Permit<'_>, read: &PreparedStatement) -> Result<SwitchRow, StoreError> {
        Ok(self.first_row(permit, read, ()).await?.unwrap_or_default())
    }
}

#[async_trait]
impl CreatesSwitch for CqlStore {
    async fn load(&self) -> Result<Creates, StoreError> {
        let permit = self.background_permit().await?;
        self.read_switch(&permit, &self.operated.read_switch).await?.creates()
    }

    async fn last(&self) -> Option<Creates> {
        None
    }

    async fn save(&self, creates: Creates) -> Result<(), StoreError> {
        let permit = self.background_permit().await?;
        let (mut failures, mut pauses) = (Failures::default(), Pauses::new());
        let budget = creates.hourly_budget.map(u32::cast_signed);
        while Instant::now() < permit.deadline {
            // This read also completes an attempt whose outcome is unknown. If that attempt was done, repeating it
            // changes nothing.
            let before = self.read_switch(&permit, &self.operated.read_switch_serially).await?.revision;
            let values = (before.unwrap_or(0).saturating_add(1), creates.paused, budget, before);
            match self.attempt(&permit, &self.operated.change_switch, values).await {
                Attempt::Applied => return Ok(()),
                Attempt::Refused => {}
                Attempt::Failed(outcome, cause) => failures.add(outcome, cause),
            }
            sleep(pauses.next(&self.random)).await;
        }
        Err(failures.into_error())
    }
}
