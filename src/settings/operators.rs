//! Settings of what operators may do, and of what may be published.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::{AddressSettings, SqliteSettings, StoreKind, StoreSettings, address_and_port, contact::Contact};

#[derive(Args, Debug)]
pub struct AdminSettings {
    /// Port for /metrics, /livez and /readyz; keep the public away
    #[arg(long, env = "HANDBILL_ADMIN_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090", value_parser = address_and_port)]
    pub admin_listen: SocketAddr,
}

#[derive(Args, Debug)]
pub struct SocketSettings {
    /// Unix socket for the operators' commands [default: admin.sock in --data-dir; /run/handbill/admin.sock with
    /// --store scylla]
    #[arg(long, env = "HANDBILL_ADMIN_SOCKET", value_name = "PATH")]
    pub admin_socket: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct SocketAccess {
    #[command(flatten, next_help_heading = "Running process")]
    socket: SocketSettings,
    #[command(flatten, next_help_heading = "Running process")]
    store: StoreSettings,
    #[command(flatten, next_help_heading = "Running process")]
    sqlite: SqliteSettings,
}

impl SocketAccess {
    pub fn socket(&self) -> PathBuf {
        self.socket.path(&self.store, &self.sqlite)
    }
}

impl SocketSettings {
    pub(super) fn path(&self, store: &StoreSettings, sqlite: &SqliteSettings) -> PathBuf {
        self.admin_socket.clone().unwrap_or_else(|| match store.store {
            StoreKind::Sqlite => sqlite.data_dir.join("admin.sock"),
            StoreKind::Scylla => PathBuf::from("/run/handbill/admin.sock"),
        })
    }
}

#[derive(Args, Debug)]
pub struct ModerationSettings {
    /// File of hosts, addresses and texts that no page may have [default: none]
    #[arg(long, env = "HANDBILL_BLOCKLIST_FILE", value_name = "FILE")]
    pub blocklist_file: Option<PathBuf>,
    #[command(flatten)]
    pub contacts: ContactSettings,
    /// Mark every page noindex, not only pages with external links
    #[arg(long, env = "HANDBILL_NOINDEX_ALL", value_parser = switch, action = clap::ArgAction::SetTrue)]
    pub noindex_all: bool,
}

fn switch(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "t" | "1" => Ok(true),
        "false" | "no" | "off" | "n" | "f" | "0" => Ok(false),
        _ => Err("give true or false"),
    }
}

#[derive(Args, Clone, Debug)]
pub struct ContactSettings {
    /// Mail address or URL for reports; {url} in it is the page's address [default: none]
    #[arg(long, env = "HANDBILL_ABUSE_CONTACT", value_name = "MAIL|URL", value_parser = Contact::parse)]
    pub abuse_contact: Option<Contact>,
}

#[derive(Args, Debug)]
pub struct DocumentSettings {
    #[command(flatten, next_help_heading = "Public listener")]
    pub address: AddressSettings,
    #[command(flatten, next_help_heading = "Moderation")]
    pub contacts: ContactSettings,
}
