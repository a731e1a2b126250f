//! The operators' commands. They ask the running process through its operators' listener, work on the cluster itself, or
//! work on the files of a store that no process uses.

mod archive;
mod audit;
mod blocklist;
mod client;
mod creates;
mod criteria;
mod fingerprint;
mod healthcheck;
mod inspect;
mod lines;
mod reader;
mod remote_records;
mod stores;
mod takedown;
mod upkeep;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use tokio::runtime::Builder;

use self::lines::print_line;
pub use self::stores::{CommandError, Stores};
use crate::config::{AdminSettings, MigrateSettings, SweepSettings};

/// The operators' commands, in the order of `--help`.
#[derive(Subcommand)]
pub enum OperatorsCommand {
    /// Update the store's schema
    Migrate(Box<MigrateSettings>),
    /// Delete texts in the cluster that no page shows any more
    Sweep(Box<SweepSettings>),
    /// Ask whether the process is live, for container health checks
    Healthcheck(AdminSettings),
    /// Take pages down, through the process or in the cluster itself
    Takedown(takedown::Takedown),
    /// Hide pages from everybody, for as long as they may be shown again
    Hide(takedown::Hide),
    /// Show hidden pages again
    Show(takedown::Show),
    /// Show what is known of pages, without their text
    Inspect(inspect::Inspect),
    /// Print what operators did, as one JSON object a line
    Audit(audit::Audit),
    /// Write all pages and deletions to a file, also while serving
    Export(archive::Export),
    /// Store such files, never over a newer page or a deletion
    Import(archive::Import),
    /// Export into a folder, under a name with the time
    Backup(archive::Backup),
    /// Make an embedded store from a backup, without pages deleted since
    Restore(archive::Restore),
    /// Read everything in the store, and say what is damaged
    Check(upkeep::Check),
    /// Rewrite the embedded store without what was deleted
    Compact(upkeep::Compact),
    /// Refuse every create, until handbill resume
    Pause(creates::Switch),
    /// Allow creates again
    Resume(creates::Switch),
    /// Limit the pages that all clients together may create in an hour
    Budget(creates::Budget),
    /// Find published pages that the blocklist refuses now
    Blocklist(blocklist::Blocklist),
    /// Print the fingerprints of Markdown, for --blocklist-file
    Fingerprint {
        /// File with the Markdown [default: standard input]
        file: Option<PathBuf>,
    },
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
        OperatorsCommand::Healthcheck(admin) => healthcheck::run(admin.admin_listen).await,
        OperatorsCommand::Takedown(takedown) => takedown.run(stores).await,
        OperatorsCommand::Hide(hide) => hide.run(stores).await,
        OperatorsCommand::Show(show) => show.run(stores).await,
        OperatorsCommand::Inspect(inspect) => inspect.run(stores).await,
        OperatorsCommand::Audit(audit) => audit.run(stores).await,
        OperatorsCommand::Export(export) => export.run(stores).await,
        OperatorsCommand::Import(import) => import.run(stores).await,
        OperatorsCommand::Backup(backup) => backup.run(stores).await,
        OperatorsCommand::Restore(restore) => restore.run(stores).await,
        OperatorsCommand::Check(check) => check.run().await,
        OperatorsCommand::Compact(compact) => compact.run(),
        OperatorsCommand::Pause(switch) => switch.run(true, stores).await,
        OperatorsCommand::Resume(switch) => switch.run(false, stores).await,
        OperatorsCommand::Budget(budget) => budget.run(stores).await,
        OperatorsCommand::Blocklist(blocklist) => blocklist.run(stores).await,
        OperatorsCommand::Fingerprint { file } => fingerprint::run(file.as_deref()),
    };
    Ok(done?)
}
