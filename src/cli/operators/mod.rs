//! The operators' commands. They ask the running process over its socket, except that `migrate` works on the cluster,
//! and `healthcheck` asks over HTTP.

mod archive;
mod client;
mod moderation;

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use http::StatusCode;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::runtime::Builder;
use url::Url;

use super::{error::CommandError, migrate::migrate};
use crate::outbound::agent;
use crate::settings::{AdminSettings, MigrateSettings};

/// For an answer of the process that `healthcheck` asks.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// In the order of `--help`.
#[derive(Subcommand)]
pub(super) enum AdminCommand {
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

pub(super) fn run(command: AdminCommand) -> Result<ExitCode, CommandError> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| CommandError::refused(format!("the operating system refused a basic resource ({error})")))?;
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

#[derive(Args, Debug)]
pub(super) struct Healthcheck {
    /// Address to ask [default: /livez at --admin-listen]
    url: Option<Url>,
    #[command(flatten)]
    admin: AdminSettings,
}

impl Healthcheck {
    fn run(&self) -> ExitCode {
        // Linux takes 0.0.0.0 and [::] for this machine.
        let url = match &self.url {
            Some(url) => url.to_string(),
            None => format!("http://{}/livez", self.admin.admin_listen),
        };
        match agent(PROBE_TIMEOUT).get(&url).call() {
            Ok(answer) if answer.status() == StatusCode::OK => return ExitCode::SUCCESS,
            Ok(answer) => eprintln!("handbill: not healthy: {url} answers {}", answer.status()),
            Err(error) => eprintln!("handbill: not healthy: {url} gives no answer ({error})"),
        }
        ExitCode::FAILURE
    }
}

/// A progress bar on standard error, if that is a terminal.
fn progress(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use clap::{Command, FromArgMatches};
    use http::StatusCode;

    use super::super::error::FAILED;
    use super::*;
    use crate::admin::socket;

    /// Runs a command whose process gives `answer` once, and then refuses.
    async fn ended(args: &[&str], answer: &'static str) -> CommandError {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let asked = Arc::new(AtomicUsize::new(0));
        let routes = Router::new().fallback(async move || match asked.fetch_add(1, Ordering::Relaxed) {
            0 => (StatusCode::OK, answer),
            _ => (StatusCode::BAD_REQUEST, "refused"),
        });
        tokio::spawn(socket::serve(socket::listen(&path).unwrap(), routes));
        let command = AdminCommand::augment_subcommands(Command::new("handbill").no_binary_name(true));
        let args = args.iter().copied().chain(["--admin-socket", path.to_str().unwrap()]);
        let command = AdminCommand::from_arg_matches(&command.get_matches_from(args)).unwrap();
        run_async(command).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_command_that_fails_on_its_way_ends_with_1() {
        let pages = ["a-page-22222222"; 26];
        let show = ["show", "--by", "desk"];
        let on_its_way = CommandError::failed("refused");
        assert_eq!(ended(&[&show[..], &pages].concat(), "[]").await, on_its_way);
        assert_eq!(ended(&[&["inspect"], &pages[..2]].concat(), "{}").await, on_its_way);
        assert_eq!(ended(&[&show[..], &pages[..1]].concat(), "no JSON").await.exit_code, FAILED);
    }
}
