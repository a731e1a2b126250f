//! The command line: reads the arguments and runs the command that they name.

mod error;
mod migrate;
pub mod operators;
mod render;

use std::io::{IsTerminal, stdout};
use std::{ffi::OsString, fmt::Write as _, path::Path, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser, Subcommand, builder::Resettable};

use self::error::{CommandError, REFUSED, print};
use self::operators::AdminCommand;
use crate::app;
use crate::http::{openapi_document, request::body::BODY_TIME};
use crate::outbound::agent;
use crate::settings::{DocumentSettings, ServeSettings, unknown_variables, variables};
use crate::telemetry::logs::say;
use handbill_client::{ClientCommand, REQUEST_TIMEOUT, terminal::one_line};
use handbill_pages::service::DEADLINE;

/// A command hears whether its page was stored.
const _: () = assert!(BODY_TIME.as_millis() + DEADLINE.as_millis() < REQUEST_TIMEOUT.as_millis());

/// Publishes texts without accounts: each has a public address and an edit key.
#[derive(Parser)]
#[command(name = "handbill", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
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

pub fn run() -> ExitCode {
    let variables = variables();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if names_no_command(&args) {
        if stdout().is_terminal() {
            let _ = print(
                "This starts a server. To publish a file: `handbill publish FILE`. All commands: `handbill --help`.\n",
            );
        }
        args.splice(..args.len().min(1), ["handbill".into(), "serve".into()]);
    }
    let command = with_first_help(with_set_variables(Cli::command(), &variables));
    let read = command.try_get_matches_from(args);
    let cli = match read.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    for name in unknown_variables(&Cli::command(), &variables) {
        say(&format!("handbill: warning: the environment variable {name} is not a setting and is ignored"));
    }
    let outcome = match cli.command {
        Subcommands::Serve(serve) if serve.check_config => {
            app::check(&serve.settings).map_err(CommandError::refused).and_then(|()| shown("The settings are valid.\n"))
        }
        Subcommands::Serve(serve) => app::serve(*serve).map_err(|error| {
            if error.is_after_the_start() { CommandError::failed(error) } else { CommandError::refused(error) }
        }),
        Subcommands::Admin(command) => operators::run(*command),
        Subcommands::Openapi(DocumentSettings { address, contacts }) => {
            shown(&openapi_document(&address.origin(address.listen), contacts.abuse_contact.as_ref()))
        }
        Subcommands::Render { jsonl } => render::run(jsonl),
        Subcommands::Client(command) => Ok(handbill_client::run(command, &agent(REQUEST_TIMEOUT))),
    };
    outcome.unwrap_or_else(|CommandError { reason, exit_code }| end(&reason, exit_code))
}

fn names_no_command(args: &[OsString]) -> bool {
    let first = args.get(1).map(|first| first.to_string_lossy());
    first.is_none_or(|first| first.starts_with('-') && !["-h", "--help", "-V", "--version"].contains(&&*first))
}

/// An empty variable counts as not set. A value may be negative, so that the error for `-1` says "out of range".
fn with_set_variables(command: Command, variables: &[(String, OsString)]) -> Command {
    command.mut_subcommands(|subcommand| subcommand.mut_args(|arg| with_set_variable(arg, variables)))
}

fn with_set_variable(arg: Arg, variables: &[(String, OsString)]) -> Arg {
    let mut own = variables.iter().filter(|(name, _)| arg.get_env() == Some(name.as_ref()));
    let is_empty = own.any(|(_, value)| value.is_empty());
    let arg = if is_empty { arg.env(Resettable::Reset) } else { arg };
    if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg }
}

/// Groups the subcommands of the first help.
fn with_first_help(command: Command) -> Command {
    const GROUPS: [&str; 4] = ["Pages", "Server", "Operators", "More"];
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

fn shown(text: &str) -> Result<ExitCode, CommandError> {
    print(text).map(|()| ExitCode::SUCCESS)
}

fn group_of(command: &str) -> &'static str {
    match command {
        "serve" => "Server",
        name if ClientCommand::has_subcommand(name) => "Pages",
        name if AdminCommand::has_subcommand(name) => "Operators",
        _ => "More",
    }
}

/// One line on standard error, whatever the reason quotes.
fn end(reason: &str, code: u8) -> ExitCode {
    say(&format!("handbill: {}", one_line(reason)));
    ExitCode::from(code)
}

/// Prints help as it is, and an error in one line.
fn explain(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return if print(&text).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && Path::new(word).is_file()
    {
        return end(&format!("there is no command {word}: did you mean `handbill publish {word}`?"), REFUSED);
    }
    if let (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        let is = if missing.len() == 1 { "is" } else { "are" };
        return end(&format!("{} {is} missing; see --help", missing.join(" and ")), REFUSED);
    }
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let reasons = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    end(reasons.collect::<Vec<_>>().join("; ").trim_start_matches("error: "), REFUSED)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Subcommand;

    use super::*;

    /// The table of `docs/configuration.md`.
    fn settings_table() -> String {
        let mut table = String::from("| flag | variable | default | meaning |\n|---|---|---|---|\n");
        let mut command = Cli::command();
        command.build();
        for arg in command.find_subcommand("serve").unwrap().get_arguments() {
            let (Some(flag), Some(variable), Some(help)) = (arg.get_long(), arg.get_env(), arg.get_help()) else {
                continue;
            };
            let help = help.to_string();
            let (meaning, default_in_words) =
                help.strip_suffix(']').and_then(|help| help.split_once(" [default: ")).unwrap_or((&help, ""));
            let values: Vec<_> =
                arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
            let default = if values.is_empty() { default_in_words.to_owned() } else { values.join(", ") };
            assert!(!default.is_empty(), "the help of --{flag} has no default");
            writeln!(table, "| `--{flag}` | `{}` | {default} | {meaning} |", variable.display()).unwrap();
        }
        table
    }

    #[test]
    fn the_document_of_settings_lists_every_one_as_help_does() {
        let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md")).unwrap();
        let (_, after) = document.split_once("made from `handbill serve --help` by a test -->\n").unwrap();
        let (shown, _) = after.split_once("<!-- end of settings -->").unwrap();
        let table = settings_table();
        assert!(shown.trim() == table.trim(), "docs/configuration.md must show this table:\n\n{table}");
    }

    /// The names of a command's settings: its options that are variables too.
    fn settings(command: &clap::Command) -> Vec<String> {
        let settings = command.get_arguments().filter(|arg| arg.get_env().is_some());
        settings.filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
    }

    #[test]
    fn each_setting_is_in_a_group_and_operators_have_few() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for arg in serve.get_arguments() {
            assert!(arg.get_help_heading().is_some() && !arg.is_global_set(), "{arg}");
        }
        let mut all = settings(serve);
        all.push("scylla-replication-factor".to_owned());
        for subcommand in
            command.get_subcommands().filter(|subcommand| AdminCommand::has_subcommand(subcommand.get_name()))
        {
            let own = settings(subcommand);
            assert!(!own.is_empty() && own.iter().all(|option| all.contains(option)), "{own:?}");
        }
    }

    #[test]
    fn a_line_that_begins_with_a_flag_is_one_of_serve() {
        fn without(args: &[&str]) -> bool {
            names_no_command(&args.iter().map(OsString::from).collect::<Vec<_>>())
        }

        assert!(without(&[]) && without(&["handbill"]) && without(&["handbill", "--listen", "127.0.0.1:0"]));
        for named in ["serve", "--help", "-h", "--version", "-V", "publish", "a.md"] {
            assert!(!without(&["handbill", named]), "{named}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
