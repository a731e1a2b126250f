//! The command line of the client.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use handbill_core::domain::origin::Origin;

/// The commands for people who write, in the order of a page's life.
#[derive(Subcommand)]
pub enum ClientCommand {
    /// Publish a Markdown file and print the page's address; its edit key is kept in a file
    Publish(PublishArgs),
    /// Replace the text of a page, its title, or both
    Update(UpdateArgs),
    /// Edit a page's Markdown in $VISUAL or $EDITOR
    Edit(PageArgs),
    /// Print a page's Markdown
    Get(GetArgs),
    /// List the pages whose keys are kept
    List(ListArgs),
    /// Delete a page for ever
    Delete(DeleteArgs),
    /// Print the edit key of a page
    Key(PageArgs),
    /// Export, import or forget kept keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Serve the tools for agents on standard input and output, with the kept keys
    Mcp(ConnectionArgs),
}

/// The place in `--help` of the options that several commands share: behind those of the command itself.
const SHARED: usize = 100;

/// The server, and the place of the keys.
#[derive(Args, Clone)]
pub struct ConnectionArgs {
    /// Origin of the server, such as `https://pages.example`; a page's whole address takes precedence
    #[arg(long, env = "HANDBILL_SERVER", value_name = "ORIGIN", default_value = "http://127.0.0.1:8080", value_parser = Origin::parse, display_order = SHARED)]
    pub(super) server: Origin,
    /// How long to wait for the server's limits (`Retry-After`) before giving up, for example 1h
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration, display_order = SHARED)]
    pub(super) wait: Duration,
    #[command(flatten)]
    pub(super) keys: KeysArgs,
}

/// The place of the keys.
#[derive(Args, Clone)]
pub struct KeysArgs {
    /// Directory of the key file [default: handbill in the user's data directory]
    #[arg(long, env = "HANDBILL_KEYS_DIR", value_name = "DIRECTORY", display_order = SHARED)]
    pub(super) keys_dir: Option<PathBuf>,
}

/// The arguments of `publish`.
#[derive(Args)]
pub struct PublishArgs {
    /// The Markdown file; - or nothing reads standard input
    pub(super) file: Option<PathBuf>,
    /// The title [default: the first heading, else the file's name]
    #[arg(long)]
    pub(super) title: Option<String>,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// The page that a command is about, and its server.
#[derive(Args)]
pub struct PageArgs {
    /// The page's address or slug
    pub(super) page: String,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// The arguments of `update`.
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

/// The arguments of `get`.
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

/// The arguments of `list`.
#[derive(Args)]
pub struct ListArgs {
    /// Print one JSON object a line, without the keys
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) keys: KeysArgs,
}

/// The arguments of `delete`.
#[derive(Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub(super) target: PageArgs,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
}

/// The commands on the key file itself.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// Print every kept page with its key, one JSON object a line; or write them to a new file that only you can read
    Export {
        /// The new file; - or nothing prints
        file: Option<PathBuf>,
        #[command(flatten)]
        keys: KeysArgs,
    },
    /// Keep the pages and keys of an export, or an address and its key on two lines
    Import {
        /// The export; - or nothing reads standard input
        file: Option<PathBuf>,
        #[command(flatten)]
        keys: KeysArgs,
    },
    /// Remove a page and its key from the key file; the page itself stays
    Forget(PageArgs),
}
