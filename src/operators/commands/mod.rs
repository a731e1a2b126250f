//! The operators' commands. They ask the running process through its operators' listener. `migrate` works on the cluster itself.

mod archive;
mod backup;
mod client;
mod creates;
mod healthcheck;
mod inspect;
mod lines;
mod remote_records;
mod stores;
mod takedown;

use std::process::ExitCode;

use clap::Subcommand;
use tokio::runtime::Builder;

use self::lines::print_line;
pub use self::stores::{CommandError, Stores};
use crate::config::{MigrateSettings, SweepSettings};

/// The operators' commands, in the order of `--help`.
#[derive(Subcommand)]
pub enum OperatorsCommand {
    /// Update the store's schema
    Migrate(Box<MigrateSettings>),
    /// Delete texts in the cluster that no page shows any more
    Sweep(Box<SweepSettings>),
    /// Check that the server answers, for container health checks
    Healthcheck(healthcheck::Healthcheck),
    /// Take pages down for good
    Takedown(takedown::Takedown),
    /// Hide pages until they are shown again
    Hide(takedown::Hide),
    /// Show hidden pages again
    Show(takedown::Show),
    /// Show what is known of pages, without their text
    Inspect(inspect::Inspect),
    /// Copy the SQLite store while it serves
    Backup(backup::Backup),
    /// Write all pages and deletions to a file, also while serving
    Export(archive::Export),
    /// Import pages; keeps newer and deleted ones
    Import(archive::Import),
    /// Refuse every create, until handbill resume
    Pause(creates::Switch),
    /// Allow creates again
    Resume(creates::Switch),
}

pub fn run(command: OperatorsCommand, stores: &Stores<'_>) -> Result<ExitCode, CommandError> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the operating system refused a basic resource ({error})"))?;
    runtime.block_on(run_async(command, stores))
}

async fn run_async(command: OperatorsCommand, stores: &Stores<'_>) -> Result<ExitCode, CommandError> {
    let done = match command {
        OperatorsCommand::Migrate(settings) => {
            print_line(&stores.migrate(&settings).await?).map(|()| ExitCode::SUCCESS)
        }
        OperatorsCommand::Sweep(settings) => {
            print_line(&Box::pin(stores.sweep(&settings.cluster, settings.options)).await?).map(|()| ExitCode::SUCCESS)
        }
        OperatorsCommand::Healthcheck(healthcheck) => healthcheck.run().await,
        OperatorsCommand::Takedown(takedown) => takedown.run().await,
        OperatorsCommand::Hide(hide) => hide.run().await,
        OperatorsCommand::Show(show) => show.run().await,
        OperatorsCommand::Inspect(inspect) => inspect.run().await,
        OperatorsCommand::Backup(backup) => backup.run().await,
        OperatorsCommand::Export(export) => export.run(stores).await,
        OperatorsCommand::Import(import) => import.run(stores).await,
        OperatorsCommand::Pause(switch) => switch.run(true).await,
        OperatorsCommand::Resume(switch) => switch.run(false).await,
    };
    Ok(done?)
}
