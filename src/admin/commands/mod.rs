//! The operators' commands. They ask the running process over its socket, except that `migrate` works on the cluster,
//! and `healthcheck` asks over HTTP.

mod archive;
mod moderation;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::StatusCode;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::runtime::Builder;
use url::Url;

use crate::admin::import::Importer;
use crate::admin::journal;
use crate::outbound::agent;
use crate::settings::{AdminSettings, MigrateSettings};
use crate::telemetry::logs;
use crate::terminal;
use handbill_pages::ports::random::Random;
use handbill_pages::service::RenderThreads;
use handbill_pages::values::counted::counted;
use handbill_store_scylla::ScyllaStore;

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a command failed, in one line for the operator.
#[derive(Debug)]
pub struct CommandError {
    pub reason: String,
    /// 2 if the command was refused, 1 if it failed later.
    pub exit_code: u8,
}

impl CommandError {
    pub(super) fn on_its_way(reason: impl Into<String>) -> Self {
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
    Healthcheck(Healthcheck),
    /// Take pages down for good
    Takedown(moderation::WithReason),
    /// Hide pages until they are shown again
    Hide(moderation::WithReason),
    /// Show hidden pages again
    Show(moderation::Chosen),
    /// Print what is known of pages, without their text
    Inspect(moderation::Inspect),
    /// Refuse every create until handbill resume
    Pause(moderation::Pause),
    /// Allow creates again
    Resume(moderation::Pause),
    /// Copy the SQLite store while it serves
    Backup(archive::Backup),
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

#[derive(Args, Debug)]
pub struct Healthcheck {
    /// Address to ask [default: /livez at --admin-listen]
    url: Option<Url>,
    #[command(flatten)]
    admin: AdminSettings,
}

impl Healthcheck {
    fn run(&self) -> ExitCode {
        // Linux takes 0.0.0.0 and [::] for this machine.
        let livez = || format!("http://{}/livez", self.admin.admin_listen);
        let url = self.url.as_ref().map_or_else(livez, Url::to_string);
        match agent(PROBE_TIMEOUT).get(&url).call() {
            Ok(answer) if answer.status() == StatusCode::OK => return ExitCode::SUCCESS,
            Ok(answer) => eprintln!("handbill: not healthy: {url} answers {}", answer.status()),
            Err(error) => eprintln!("handbill: not healthy: {url} gives no answer ({error})"),
        }
        ExitCode::FAILURE
    }
}

fn print_line(line: &str) -> Result<(), CommandError> {
    print(&format!("{line}\n"))
}

fn print(text: &str) -> Result<(), CommandError> {
    terminal::print(text).map_err(|error| unwritable("the output", &error))
}

/// The error of a command that could not write `what`, which may have been written in part.
pub(super) fn unwritable(what: impl Display, error: &io::Error) -> CommandError {
    CommandError::on_its_way(format!("cannot write {what}: {error}; make room, and run the command again"))
}

/// A progress bar on standard error, if that is a terminal.
fn progress(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}
