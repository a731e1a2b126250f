//! The command line of the client, and the file that names its server.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use directories::ProjectDirs;
use serde::Deserialize;

use super::error::ClientError;
use handbill_core::domain::origin::{Origin, OriginError};

/// The commands for people who write, in the order of a page's life.
#[derive(Subcommand)]
pub enum ClientCommand {
    /// Publish Markdown files and print their addresses
    Publish(PublishArgs),
    /// Replace the text of a page, its title, or both
    Update(UpdateArgs),
    /// Edit a page's title and Markdown in $VISUAL, $EDITOR or vi
    Edit(PageArgs),
    /// Print a page's Markdown
    Get(GetArgs),
    /// List your pages
    List(ListArgs),
    /// Delete a page permanently
    Delete(DeleteArgs),
    /// Print the edit key of a page
    Key(PageArgs),
    /// Back up, import or remove saved keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Run as a local MCP server that uses your saved keys
    Mcp(ConnectionArgs),
}

/// The place in `--help` of the options that several commands share: behind those of the command itself.
const SHARED: usize = 100;

/// The server, and the place of the keys.
#[derive(Args, Clone)]
pub struct ConnectionArgs {
    #[command(flatten)]
    server: ServerArg,
    /// Wait up to this long at the server's limits, for example 1h
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration, display_order = SHARED)]
    pub(super) wait: Duration,
    #[command(flatten)]
    pub(super) keys: KeysArgs,
}

/// The server that the user names.
#[derive(Clone)]
struct ServerArg {
    server: Option<Origin>,
    /// Whether the server is on the command line, and not only in the variable.
    is_typed: bool,
}

impl FromArgMatches for ServerArg {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = matches.value_source("server") == Some(ValueSource::CommandLine);
        Ok(Self { server: matches.get_one("server").cloned(), is_typed })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServerArg {
    fn augment_args(command: Command) -> Command {
        let arg = Arg::new("server").long("server").env("HANDBILL_SERVER").value_name("ORIGIN");
        command.arg(arg.value_parser(server).display_order(SHARED).help(
            "Handbill server, for example pages.example. Not needed with a full address. \
             [default: `server` in config.toml, else http://127.0.0.1:8080]",
        ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The server of a user who names none.
const LOCAL_SERVER: &str = "http://127.0.0.1:8080";

/// The user's configuration file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    server: Option<String>,
}

impl ConnectionArgs {
    /// Whether the command line itself names the server.
    pub(super) fn is_server_typed(&self) -> bool {
        self.server.is_typed
    }

    /// The server of the flag or the variable, else of the configuration file, else of this machine.
    pub(super) fn server(&self) -> Result<Origin, ClientError> {
        if let Some(server) = &self.server.server {
            return Ok(server.clone());
        }
        let path = ProjectDirs::from("", "", "handbill").map(|dirs| dirs.config_dir().join("config.toml"));
        let text = path.as_ref().map_or(Ok(String::new()), fs::read_to_string);
        let configured = match text {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Configuration::default()),
            Err(error) => Err(error.to_string()),
            Ok(text) => basic_toml::from_str(&text).map_err(|error| error.to_string()),
        };
        let parsed = configured.and_then(|Configuration { server: named }| {
            server(named.as_deref().unwrap_or(LOCAL_SERVER)).map_err(|error| error.to_string())
        });
        parsed.map_err(|reason| {
            let path = path.unwrap_or_default();
            ClientError::Failed(format!("can't take the server from {} ({})", path.display(), reason.trim_end()))
        })
    }
}

/// The server that `text` names. A bare host means HTTPS, except on this machine.
fn server(text: &str) -> Result<Origin, OriginError> {
    if text.contains("://") {
        return Origin::parse(text);
    }
    let local = Origin::parse(&format!("http://{text}"))?;
    if local.is_local() { Ok(local) } else { Origin::parse(&format!("https://{text}")) }
}

#[derive(Args, Clone)]
pub struct KeysArgs {
    /// Directory of the saved keys [default: handbill in your data directory]
    #[arg(long, env = "HANDBILL_KEYS_DIR", value_name = "DIRECTORY", display_order = SHARED)]
    pub(super) keys_dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct PublishArgs {
    /// The Markdown files, each of which becomes a page; - or nothing reads standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The title of the one page [default: the first heading, else the file's name]
    #[arg(long)]
    pub(super) title: Option<String>,
    /// Publish a second page from a file that is published already
    #[arg(long)]
    pub(super) again: bool,
    /// Print one JSON object a line, with the page's address and edit key
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// The page that a command is about, and its server.
#[derive(Args)]
pub struct PageArgs {
    /// The page's address or slug, or the file it was published from
    pub(super) page: String,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

#[derive(Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    pub(super) target: PageArgs,
    /// The Markdown file; - reads standard input [default: the file that the page was published from]
    pub(super) file: Option<PathBuf>,
    /// The new title; an empty one removes the title
    #[arg(long)]
    pub(super) title: Option<String>,
}

#[derive(Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub(super) target: PageArgs,
    /// Print the page as the API's JSON
    #[arg(long, conflicts_with = "html")]
    pub(super) json: bool,
    /// Print only the HTML of the page's text
    #[arg(long)]
    pub(super) html: bool,
}

#[derive(Args)]
pub struct ListArgs {
    /// Print one JSON object a line, without the keys
    #[arg(long)]
    pub(super) json: bool,
    /// Also check whether each page still exists
    #[arg(long)]
    pub(super) check: bool,
    #[command(flatten)]
    pub(super) keys: KeysArgs,
}

#[derive(Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub(super) target: PageArgs,
    /// Delete without asking
    #[arg(long)]
    pub(super) yes: bool,
}

/// The commands on the key file itself.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// Print your pages with their keys, or write them to a new file that only you can read
    Export {
        /// The new file; - or nothing prints
        file: Option<PathBuf>,
        #[command(flatten)]
        keys: KeysArgs,
    },
    /// Add the keys of an export, of edit links, or of addresses with the key on the next line
    Import {
        /// The file; - or nothing reads standard input
        file: Option<PathBuf>,
        #[command(flatten)]
        keys: KeysArgs,
    },
    /// Remove a page's key from this machine; the page stays
    Forget(PageArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_host_is_reached_over_https_and_this_machine_over_http() {
        for (text, origin) in [
            ("pages.example", "https://pages.example"),
            ("pages.example:8443/", "https://pages.example:8443"),
            ("http://pages.example", "http://pages.example"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1", "http://127.0.0.1"),
        ] {
            assert_eq!(server(text).unwrap().to_string(), origin);
        }
        for text in ["", "a b", "pages.example/path", "ftp://pages.example"] {
            assert!(server(text).is_err(), "{text}");
        }
    }
}
