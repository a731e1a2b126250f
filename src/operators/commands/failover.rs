//! `handbill failover`: another datacentre of the cluster writes from then on.

use std::process::ExitCode;

use super::lines::{confirmed, print_line};
use super::stores::Stores;
use crate::config::FailoverSettings;

/// Exit code of a command that the operator has not confirmed.
const NOT_CONFIRMED: u8 = 1;

/// Moves the fence, and prints each step.
pub(super) async fn run(settings: &FailoverSettings, stores: &Stores<'_>) -> Result<ExitCode, String> {
    let options = &settings.options;
    if options.force {
        eprintln!(
            "Only {} is asked. Creates, edits and deletions that only the other datacentre has are lost, also if they were \
             acknowledged: those of its last moments, and all since the two were cut from each other. If a replica there \
             still runs, both sides write, and each overwrites what the other has acknowledged. So it can be if another \
             `handbill failover` runs.",
            options.to
        );
        if !options.yes
            && !confirmed(
                "Is every replica of the other datacentre stopped, and every other failover ended? Type yes to go on: ",
            )?
        {
            print_line("Nothing was changed.")?;
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
    }
    print_line(&stores.failover(&settings.cluster, options, |line| eprintln!("{line}")).await?)?;
    Ok(ExitCode::SUCCESS)
}
