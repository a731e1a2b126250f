//! The operators' commands. They ask the running process over its socket, except that `migrate` works on the cluster,
//! and `healthcheck` asks over HTTP.

mod acts;
mod archive;
mod backup;
mod client;
mod healthcheck;
mod inspect;
mod pause;
mod terminal;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use tokio::runtime::Builder;

use self::terminal::print_line;
use crate::admin::import::Importer;
use crate::admin::journal;
use crate::settings::MigrateSettings;
use crate::telemetry::logs;
use handbill_pages::ports::random::Random;
use handbill_pages::service::RenderThreads;
use handbill_pages::values::counted::counted;
use handbill_store_scylla::ScyllaStore;

/// One line for the operator.
#[derive(Debug)]
pub struct CommandError {
    pub reason: String,
    /// 2 if the command was refused, 1 if it failed later.
    pub exit_code: u8,
}

impl CommandError {
    fn on_its_way(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), exit_code: 1 }
    }
}

impl<T: Into<String>> From<T> for CommandError {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), exit_code: 2 }
    }
}

/// In the order of `--help`.
#[derive(Subcommand)]
pub enum AdminCommand {
    /// Update the schema of the cluster
    Migrate(Box<MigrateSettings>),
    /// Check that the server answers, for container health checks
    Healthcheck(healthcheck::Healthcheck),
    /// Take pages down for good
    Takedown(acts::WithReason),
    /// Hide pages until they are shown again
    Hide(acts::WithReason),
    /// Show hidden pages again
    Show(acts::Chosen),
    /// Print what is known of pages, without their text
    Inspect(inspect::Inspect),
    /// Refuse every create until handbill resume
    Pause(pause::Pause),
    /// Allow creates again
    Resume(pause::Pause),
    /// Copy the SQLite store while it serves
    Backup(backup::Backup),
    /// Write pages and deletions to standard output
    Export(archive::Export),
    /// Import pages; keeps newer and deleted ones
    Import(archive::Import),
}

pub fn run(command: AdminCommand) -> Result<ExitCode, CommandError> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the operating system refused a basic resource ({error})"))?;
    let done = runtime.block_on(run_async(command));
    // Another thread may wait for standard input.
    runtime.shutdown_background();
    done
}

async fn run_async(command: AdminCommand) -> Result<ExitCode, CommandError> {
    Ok(match command {
        AdminCommand::Migrate(settings) => migrate(&settings).await?,
        AdminCommand::Healthcheck(healthcheck) => healthcheck.run(),
        AdminCommand::Takedown(takedown) => takedown.chosen.act("/takedown", Some(takedown.reason)).await?,
        AdminCommand::Hide(hide) => hide.chosen.act("/hide", Some(hide.reason)).await?,
        AdminCommand::Show(show) => show.act("/show", None).await?,
        AdminCommand::Inspect(inspect) => inspect.run().await?,
        AdminCommand::Pause(pause) => pause.run(true).await?,
        AdminCommand::Resume(pause) => pause.run(false).await?,
        AdminCommand::Backup(backup) => backup.run().await?,
        AdminCommand::Export(export) => export.run().await?,
        AdminCommand::Import(import) => import.run().await?,
    })
}

async fn migrate(settings: &MigrateSettings) -> Result<ExitCode, CommandError> {
    let _lines = logs::install(&settings.logs, None);
    let Some(cluster) = settings.cluster().map_err(|wrong| wrong.to_string())? else {
        print_line("This store needs no migration.")?;
        return Ok(ExitCode::SUCCESS);
    };
    let report = Box::pin(handbill_store_scylla::migrate(&cluster, &Random::System)).await;
    print_line(&report.map_err(|error| error.to_string())?.to_string())?;
    if let Some(path) = &settings.replay_journal {
        let lines = journal::read(path)?;
        let count = lines.len() as u64;
        let store = Box::pin(ScyllaStore::reach(&cluster)).await.map_err(|error| error.to_string())?;
        let importer = Importer { store: Arc::new(store), renderer: Arc::new(RenderThreads::default()) };
        journal::replay(&importer, lines).await?;
        print_line(&format!("Applied {} of the journal.", counted(count, "line")))?;
    }
    Ok(ExitCode::SUCCESS)
}
