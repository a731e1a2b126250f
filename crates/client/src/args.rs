//! The arguments of the client's commands, and what they name.

use std::path::{Path, PathBuf};
use std::{fs, io::ErrorKind, time::Duration};

use clap::{Args, Subcommand};
use directories::ProjectDirs;
use serde::Serialize;

use crate::key_file::{KeyFile, SavedKey, published_from};
use crate::page::PageReference;
use crate::{ClientError, Result};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::origin::{Origin, OriginError};

const DEFAULT_SERVER: &str = "127.0.0.1:8080";

/// Means standard input.
pub(crate) const STANDARD: &str = "-";

/// In the order of a page's life.
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
    /// Delete pages permanently
    Delete(DeleteArgs),
    /// Print, import or remove a page's edit key
    Key(KeyArgs),
    /// Run as a local MCP server that uses your saved keys
    Mcp(ConnectionArgs),
}

#[derive(Args, Clone)]
pub struct ConnectionArgs {
    /// Server, e.g. pages.example [default: the file handbill/server in your configuration, else 127.0.0.1:8080]
    #[arg(long, env = "HANDBILL_SERVER", value_name = "ORIGIN", value_parser = server)]
    server: Option<Origin>,
    /// Wait up to this long at the server's limits, e.g. 1h
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
    /// Directory of the saved keys [default: handbill in your data directory]
    #[arg(long, env = "HANDBILL_KEYS_DIR", value_name = "DIRECTORY")]
    keys_dir: Option<PathBuf>,
}

impl ConnectionArgs {
    pub(crate) fn server(&self) -> Result<Origin> {
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let dirs = ProjectDirs::from("", "", "handbill");
        let file = dirs.map(|dirs| dirs.config_dir().join("server")).unwrap_or_default();
        let name = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => DEFAULT_SERVER.to_owned(),
            read => read.map_err(|error| ClientError::cannot(&format!("read {}", file.display()), &error))?,
        };
        server(name.trim()).map_err(|error| {
            ClientError::Failed(format!(
                "{} names no server: {error}. Write one line such as pages.example",
                file.display()
            ))
        })
    }

    pub(crate) fn keys(&self) -> Result<KeyFile> {
        let directory = self.keys_dir.clone();
        let directory = directory.or_else(|| Some(ProjectDirs::from("", "", "handbill")?.data_dir().to_owned()));
        directory.map(KeyFile::in_directory).ok_or_else(|| {
            ClientError::Failed("there is no home directory for the key file: set HANDBILL_KEYS_DIR".to_owned())
        })
    }

    /// Finds an address, a slug of a saved page or of the server, or the newest page published from a file.
    pub(crate) fn find(&self, name: &str) -> Result<PageReference> {
        // A page can be read without a key file.
        let saved = self.keys().and_then(|file| file.keys());
        let named = match (PageReference::parse(name, &self.server()?), fs::canonicalize(name)) {
            (Err(ClientError::Usage(_)), Ok(file)) => return page_from(&file, name, &saved?),
            (parsed, _) => parsed?,
        };
        if name.contains("://") {
            return Ok(named);
        }
        let own = saved.unwrap_or_default().into_iter().rev().filter_map(|saved| saved.page());
        Ok(own.into_iter().find(|own| own.slug == named.slug).unwrap_or(named))
    }

    pub(crate) fn find_own(&self, name: &str) -> Result<(PageReference, EditKey, SavedKey)> {
        let page = self.find(name)?;
        let saved = self.keys()?.find(&page)?;
        let own = saved.and_then(|saved| Some((EditKey::parse(&saved.edit_key).ok()?, saved)));
        let (key, saved) = own.ok_or_else(|| {
            ClientError::Key(format!(
                "no key for {} is saved here. `handbill key --import -` adds a key or an edit link",
                page.url()
            ))
        })?;
        Ok((page, key, saved))
    }
}

fn page_from(file: &Path, name: &str, saved: &[SavedKey]) -> Result<PageReference> {
    let pages: Vec<_> = published_from(file, saved).collect();
    let newest = pages.last().ok_or_else(|| {
        ClientError::Usage(format!(
            "{name} hasn't been published from here. Use the page's address, or `handbill publish {name}`"
        ))
    })?;
    if pages.len() > 1 {
        eprintln!("handbill: {name} was published {} times; this is about the newest, {}", pages.len(), newest.url());
    }
    Ok(newest.clone())
}

/// A bare host means HTTPS, except on this machine.
fn server(text: &str) -> Result<Origin, OriginError> {
    if text.contains("://") {
        return Origin::parse(text);
    }
    let local = Origin::parse(&format!("http://{text}"))?;
    if local.is_local() { Ok(local) } else { Origin::parse(&format!("https://{text}")) }
}

/// What a page has besides its text, as the server takes it.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DetailsArgs {
    /// Title of a single page [default: the first heading, else the file's name]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
}

#[derive(Args)]
pub struct PublishArgs {
    /// Markdown files, a page each; - reads standard input
    #[arg(value_name = "FILE", default_value = STANDARD)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) details: DetailsArgs,
    /// Publish the same file a second time
    #[arg(long)]
    pub(crate) again: bool,
    /// Open the page in your browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Print a JSON object for each page
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Args)]
pub struct PageArgs {
    /// The page's address or slug, or the file it was published from
    pub(crate) page: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Args)]
pub struct ListArgs {
    /// Print a JSON object for each page
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Args)]
#[command(mut_arg("title", |title| title.help("New title; an empty one removes it")))]
pub struct UpdateArgs {
    /// Replace the text even if the page was changed elsewhere
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) details: DetailsArgs,
    #[command(flatten)]
    pub(crate) target: PageArgs,
    /// Markdown file; - reads standard input [default: the file that was published]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args)]
pub struct GetArgs {
    /// Print the page as the API's JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
    /// Print only the HTML of the page's text
    #[arg(long)]
    pub(crate) html: bool,
    #[command(flatten)]
    pub(crate) target: PageArgs,
}

#[derive(Args)]
pub struct DeleteArgs {
    /// Delete without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// The pages' addresses or slugs, or the files they were published from
    #[arg(required = true, value_name = "PAGE")]
    pub(crate) pages: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Args)]
pub struct KeyArgs {
    /// The page's address or slug, or the file it was published from
    #[arg(required_unless_present = "import")]
    pub(crate) page: Option<String>,
    /// Save keys from a key file, edit links, or addresses each followed by a key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["page", "forget"])]
    pub(crate) import: Option<PathBuf>,
    /// Print the secret edit link, which opens the page in any browser
    #[arg(long, conflicts_with_all = ["import", "forget"])]
    pub(crate) link: bool,
    /// Remove the key from this machine; the page stays
    #[arg(long)]
    pub(crate) forget: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
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
