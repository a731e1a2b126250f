//! Reads the command line and the environment with clap.
//!
//! Clap checks every value that it finds. So the following are removed first:
//!
//! * options and variables of the store that is not chosen, except for `migrate`;
//! * variables of other subcommands;
//! * empty variables, which count as not set.
//!
//! Two more things that clap would refuse are allowed: a subcommand may follow its options, and a value may begin with a
//! hyphen, so that the message about `-1` says that it is out of range.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command};

use crate::config::StoreSettings;

/// The option that chooses a store, and its variable.
const STORE: (&str, &str) = ("store", "HANDBILL_STORE");

/// Reads `args` (without the program's name) and `variables` as `command` describes them.
pub(super) fn read(
    command: &Command,
    args: impl IntoIterator<Item = OsString>,
    variables: &[(String, OsString)],
) -> Result<ArgMatches, clap::Error> {
    let Line { subcommand, tokens } = Line::of(command, args);
    // `migrate` has work only on a cluster. There, settings of a cluster beside another store are an error, and not ignored.
    let is_migrate = subcommand.as_deref() == Some(OsStr::new("migrate"));
    let ignored = if is_migrate { Vec::new() } else { headings_of_others(&tokens, variables) };
    let is_ignored = |arg: &Arg| arg.get_help_heading().is_some_and(|heading| ignored.contains(&heading));
    let tokens = tokens.into_iter().filter(|token| !option(command, token.name()).is_some_and(&is_ignored));
    let args: Vec<OsString> =
        [OsString::from("handbill")].into_iter().chain(subcommand.clone()).chain(tokens.map(|token| token.0)).collect();

    let is_empty =
        |arg: &Arg| variables.iter().any(|(name, value)| arg.get_env() == Some(name.as_ref()) && value.is_empty());
    let unset = |arg: Arg| if is_empty(&arg) || is_ignored(&arg) { without_variable(arg) } else { arg };
    let name = subcommand.as_deref().and_then(OsStr::to_str).filter(|name| command.find_subcommand(name).is_some());
    let relevant = match name {
        Some(name) => command.clone().mut_args(without_variable).mut_subcommand(name, |sub| with_all_args(sub, &unset)),
        None => command.clone().mut_args(unset),
    };
    match relevant.try_get_matches_from(&args) {
        // Help shows every variable.
        Err(error) if error.kind() == ErrorKind::DisplayHelp => command.clone().try_get_matches_from(args),
        read => read,
    }
}

/// A command line whose options and values are joined.
struct Line {
    subcommand: Option<OsString>,
    tokens: Vec<Token>,
}

/// An argument: an option with its value (`--name=value`), or anything else.
struct Token(OsString);

impl Token {
    /// The option's name, with or without a value.
    fn name(&self) -> Option<&str> {
        let name = self.0.as_bytes().strip_prefix(b"--")?.split(|&byte| byte == b'=').next()?;
        std::str::from_utf8(name).ok()
    }

    /// The option's value, if it is in this token.
    fn value(&self) -> Option<&OsStr> {
        let at = self.0.as_bytes().iter().position(|&byte| byte == b'=')?;
        Some(OsStr::from_bytes(&self.0.as_bytes()[at + 1..]))
    }
}

impl Line {
    fn of(command: &Command, args: impl IntoIterator<Item = OsString>) -> Self {
        let mut line = Self { subcommand: None, tokens: Vec::new() };
        let mut args = args.into_iter().map(Token).peekable();
        while let Some(mut token) = args.next() {
            let takes_value = token.value().is_none()
                && option(command, token.name()).is_some_and(|arg| arg.get_action().takes_values());
            if takes_value && let Some(Token(value)) = args.next_if(|next| !next.0.as_bytes().starts_with(b"--")) {
                token.0.push("=");
                token.0.push(value);
            }
            if line.subcommand.is_none() && !token.0.as_bytes().starts_with(b"-") {
                line.subcommand = Some(token.0);
            } else {
                line.tokens.push(token);
            }
        }
        line
    }
}

fn option<'a>(command: &'a Command, name: Option<&str>) -> Option<&'a Arg> {
    let of = |command: &'a Command| command.get_arguments().find(|arg| arg.get_long() == name);
    name?;
    of(command).or_else(|| command.get_subcommands().find_map(of))
}

/// The headings of the options that do not apply to the chosen store. There are none if the choice is not valid.
fn headings_of_others(tokens: &[Token], variables: &[(String, OsString)]) -> Vec<&'static str> {
    let (option, variable) = STORE;
    let flag = tokens.iter().rfind(|token| token.name() == Some(option)).map(|token| token.value());
    let from_environment = || variables.iter().find(|(name, value)| name == variable && !value.is_empty());
    let text = flag.unwrap_or_else(|| from_environment().map(|(_, value)| value.as_os_str()));
    // A name that is not UTF-8 is the name of no store.
    StoreSettings::headings_of_others(text.map(|text| text.to_str().unwrap_or_default()))
}

/// `command` with every argument changed by `change`, and those of its subcommands.
fn with_all_args(command: Command, change: &impl Fn(Arg) -> Arg) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|subcommand| subcommand.get_name().to_owned()).collect();
    let change_subcommand = |command: Command, name| command.mut_subcommand(name, |sub| with_all_args(sub, change));
    names.into_iter().fold(command.mut_args(change), change_subcommand)
}

fn without_variable(arg: Arg) -> Arg {
    arg.env(Resettable::Reset)
}
