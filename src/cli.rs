//! Subcommands.

mod healthcheck;
mod render;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::app;
use crate::config::{Settings, unknown_variables};
use crate::domain::origin::Origin;
use crate::http::openapi_document;

/// What a start that was refused, or a command that was misused, ends with.
const REFUSED: u8 = 2;

/// What a service that had started and could not go on ends with.
const FAILED: u8 = 1;

/// Publishes text posts without accounts: post a title and Markdown, get a public address and an edit key.
#[derive(Parser)]
#[command(name = "handbill", version, about, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Option<Subcommands>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Serve pages (the default)
    Serve,
    /// Bring the store's schema up to date
    Migrate,
    /// Print the OpenAPI document
    Openapi,
    /// Ask the operators' listener whether the process lives; for container health checks
    Healthcheck,
    /// Render Markdown from standard input to HTML on standard output
    Render {
        /// Each line is a JSON object with `input`, and comes back with `html` added
        #[arg(long)]
        jsonl: bool,
    },
}

/// Runs what the command line asks for.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    for name in unknown_variables(&Cli::command()) {
        eprintln!("handbill: warning: the environment variable {name} is not a setting and is ignored");
    }
    let outcome = match cli.command.unwrap_or(Subcommands::Serve) {
        Subcommands::Serve => app::serve(cli.settings).or_else(|error| {
            let code = if error.is_after_the_start() { FAILED } else { REFUSED };
            Ok(end(&error.to_string(), code))
        }),
        Subcommands::Migrate => {
            app::migrate(&cli.settings).map_err(|error| error.to_string()).and_then(|done| print(&format!("{done}\n")))
        }
        Subcommands::Openapi => print(&openapi_document(&base_url(&cli.settings))),
        Subcommands::Healthcheck => Ok(healthcheck::run(cli.settings.admin_listen)),
        Subcommands::Render { jsonl } => render::run(jsonl),
    };
    outcome.unwrap_or_else(|error| refuse(&error))
}

/// The origin that URLs begin with, as far as it is known without a listener.
fn base_url(settings: &Settings) -> Origin {
    settings.http.base_url.clone().unwrap_or_else(|| Origin::of_listener(settings.http.listen))
}

fn print(text: &str) -> Result<ExitCode, String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("could not write: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

fn refuse(reason: &str) -> ExitCode {
    end(reason, REFUSED)
}

/// One clear line on standard error, whatever characters the reason quotes.
fn end(reason: &str, code: u8) -> ExitCode {
    let line = reason.split(char::is_control).collect::<Vec<_>>().join("\u{fffd}");
    // Where nobody can read it, the exit code has to do.
    let _ = writeln!(std::io::stderr(), "handbill: {line}");
    ExitCode::from(code)
}

/// Prints help as it is, and what is wrong with the command line in one line.
fn explain(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return if error.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let text = error.render().to_string();
    // What follows the first empty line is usage.
    let reason = text.split("\n\n").next().unwrap_or_default().replace("\n  [", " [");
    refuse(&format!("{} (see handbill --help)", reason.trim_start_matches("error: ").trim_end()))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The settings as the README shows them.
    fn settings_table() -> String {
        let mut table = String::from("| flag | variable | default | meaning |\n|---|---|---|---|\n");
        let mut command = Cli::command();
        command.build();
        for arg in command.get_arguments() {
            let (Some(flag), Some(variable), Some(help)) = (arg.get_long(), arg.get_env(), arg.get_help()) else {
                continue;
            };
            let help = help.to_string();
            let (meaning, default_in_words) =
                help.strip_suffix(']').and_then(|help| help.split_once(" [default: ")).unwrap_or((&help, ""));
            let values: Vec<_> =
                arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
            let default = if values.is_empty() { default_in_words.to_owned() } else { values.join(", ") };
            writeln!(table, "| `--{flag}` | `{}` | {default} | {meaning} |", variable.display()).unwrap();
        }
        table
    }

    #[test]
    fn the_readme_lists_every_setting_as_help_does() {
        let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
        let (_, after) = readme.split_once("made from `handbill --help` by a test -->\n").unwrap();
        let (shown, _) = after.split_once("<!-- end of settings -->").unwrap();
        let table = settings_table();
        assert!(shown.trim() == table.trim(), "README.md must show this table:\n\n{table}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
