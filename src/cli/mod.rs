//! Subcommands.

mod command_line;
mod render;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::admin::commands::{self, AdminCommand, CommandError};
use crate::app;
use crate::client::{self, ClientCommand};
use crate::config::{DocumentSettings, ServeSettings, unknown_variables, variables};
use crate::http::openapi_document;
use crate::stdout::written;
use crate::telemetry::logs::say;

/// Exit code of a start that was refused and of a misused command.
const REFUSED: u8 = 2;

/// Exit code of a service that had started and could not continue.
const FAILED: u8 = 1;

/// Publishes texts without accounts: each has a public address and an edit key.
#[derive(Parser)]
#[command(name = "handbill", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Option<Subcommands>,
    #[command(flatten)]
    settings: ServeSettings,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Serve pages (the default)
    Serve(Box<ServeSettings>),
    #[command(flatten)]
    Admin(Box<AdminCommand>),
    /// Print the OpenAPI document
    Openapi(DocumentSettings),
    /// Render Markdown from standard input to HTML on standard output
    Render {
        /// Each line is a JSON object with `input`, and is printed with `html` added
        #[arg(long)]
        jsonl: bool,
    },
    #[command(flatten)]
    Client(ClientCommand),
}

/// Runs what the command line asks for.
pub fn run() -> ExitCode {
    let (command, variables) = (with_first_help(Cli::command()), variables());
    let read = command_line::read(&command, std::env::args_os().skip(1), &variables);
    let cli = match read.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return explain(&error, &command),
    };
    for name in unknown_variables(&command, &variables) {
        say(&format!("handbill: warning: the environment variable {name} is not a setting and is ignored"));
    }
    if cli.command.is_none() && !cli.settings.check_config && stdout().is_terminal() {
        let _ = print(
            "This starts a server. To publish a file: `handbill publish FILE`. All commands: `handbill --help`.\n",
        );
    }
    let outcome = match cli.command.unwrap_or_else(|| Subcommands::Serve(Box::new(cli.settings))) {
        Subcommands::Serve(serve) if serve.check_config => {
            let checked = app::check(&serve.settings).map_err(|error| error.to_string().into());
            checked.and_then(|()| print("The settings are valid.\n"))
        }
        Subcommands::Serve(serve) => app::serve(*serve).map_err(|error| CommandError {
            exit_code: if error.is_after_the_start() { FAILED } else { REFUSED },
            reason: error.to_string(),
        }),
        Subcommands::Admin(command) => commands::run(*command),
        Subcommands::Openapi(DocumentSettings { address, contacts }) => {
            print(&openapi_document(&address.origin(address.listen), contacts.abuse_contact.as_ref()))
        }
        Subcommands::Render { jsonl } => render::run(jsonl).map_err(CommandError::from),
        Subcommands::Client(command) => Ok(client::run(command)),
    };
    outcome.unwrap_or_else(|CommandError { reason, exit_code }| end(&reason, exit_code))
}

/// `command`, whose own help is one line for each subcommand, in four groups. The flags are in the help of `serve`.
fn with_first_help(command: Command) -> Command {
    const GROUPS: [&str; 4] = ["Pages", "Server", "Operators", "More"];
    let group_of = |name: &str| match name {
        "serve" => "Server",
        name if ClientCommand::has_subcommand(name) => "Pages",
        name if AdminCommand::has_subcommand(name) => "Operators",
        _ => "More",
    };
    let mut help = format!("{}\n\nUsage: handbill <COMMAND>\n", command.get_about().cloned().unwrap_or_default());
    for group in GROUPS {
        let _ = write!(help, "\n{group}:\n");
        for subcommand in command.get_subcommands().filter(|subcommand| group_of(subcommand.get_name()) == group) {
            let about = subcommand.get_about().cloned().unwrap_or_default();
            let _ = writeln!(help, "  {:<11}  {about}", subcommand.get_name());
        }
    }
    help.push_str("\nOptions of a command: `handbill COMMAND --help`. Without a command, serve runs.\n");
    command.override_help(help)
}

fn print(text: &str) -> Result<ExitCode, CommandError> {
    written(stdout().write_all(text.as_bytes())).map_err(|error| format!("could not write: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Ends with one line on standard error, whatever characters the reason quotes.
fn end(reason: &str, code: u8) -> ExitCode {
    let line = reason.split(char::is_control).collect::<Vec<_>>().join("\u{fffd}");
    say(&format!("handbill: {line}"));
    ExitCode::from(code)
}

/// Prints help unchanged, and an error in one line, with the word that was probably meant.
fn explain(error: &clap::Error, command: &Command) -> ExitCode {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return if print(&text).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (mut named, mut name) = (command, command.get_name().to_owned());
    for argument in std::env::args_os().skip(1) {
        if let Some(subcommand) = named.find_subcommand(&argument) {
            named = subcommand;
            let _ = write!(name, " {}", subcommand.get_name());
        }
    }
    // The flags that need no command are those of serve.
    if named.get_name() == command.get_name() && error.kind() != ErrorKind::InvalidSubcommand {
        name.push_str(" serve");
    }
    // Usage follows the first empty line, and advice may stand between them.
    let mut parts = text.split("\n\n").map(|part| part.replace("\n  ", " "));
    let reason = parts.next().unwrap_or_default();
    let mut advice: String =
        parts.filter_map(|part| Some(format!("{}; ", part.trim().strip_prefix("tip: ")?))).collect();
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && Path::new(word).is_file()
    {
        advice = format!("did you mean `handbill publish {word}`? ");
    }
    let reason = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let choices: Vec<_> = named.get_subcommands().map(Command::get_name).collect();
            format!("{name} needs a command: {}", choices.join(", "))
        }
        _ => reason.trim_start_matches("error: ").trim_end().to_owned(),
    };
    end(&format!("{reason} ({advice}see {name} --help)"), REFUSED)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Subcommand;

    use super::*;

    /// The table of `docs/settings.md`.
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
    fn the_document_of_settings_lists_every_one_as_help_does() {
        let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md")).unwrap();
        let (_, after) = document.split_once("made from `handbill serve --help` by a test -->\n").unwrap();
        let (shown, _) = after.split_once("<!-- end of settings -->").unwrap();
        let table = settings_table();
        assert!(shown.trim() == table.trim(), "docs/settings.md must show this table:\n\n{table}");
    }

    /// The subcommands that ask no service and have no settings.
    const LOCAL: [&str; 2] = ["render", "fingerprint"];

    /// The settings that only commands on the cluster have.
    const OF_CLUSTER: [&str; 1] = ["scylla-replication-factor"];

    /// The names of a command's settings: its options that are variables too.
    fn settings(command: &clap::Command) -> Vec<String> {
        let settings = command.get_arguments().filter(|arg| arg.get_env().is_some());
        settings.filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
    }

    #[test]
    fn each_option_is_in_a_group_and_subcommands_for_operators_have_only_settings_of_the_service_and_of_the_cluster() {
        let command = Cli::command();
        let is_of_another_kind = |name: &str| LOCAL.contains(&name) || ClientCommand::has_subcommand(name);
        for arg in command.get_arguments() {
            assert!(arg.get_help_heading().is_some() && !arg.is_global_set(), "{arg}");
        }
        for subcommand in command.get_subcommands().filter(|subcommand| !is_of_another_kind(subcommand.get_name())) {
            let (own, mut all) = (settings(subcommand), settings(&command));
            all.extend(OF_CLUSTER.map(str::to_owned));
            assert!(!own.is_empty() && own.iter().all(|option| all.contains(option)), "{own:?}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
