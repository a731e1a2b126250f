//! `handbill backup`: copies the SQLite store of the running process.

use std::fs::File;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tempfile::Builder;

use super::CommandError;
use super::client::Client;
use super::terminal::{print_line, unwritable};
use crate::settings::SocketAccess;

#[derive(Args, Debug)]
pub struct Backup {
    /// New file; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    access: SocketAccess,
}

impl Backup {
    /// The file gets its name when it is complete and on disk. Only its user may read it: a page may be a draft with an address that
    /// nobody else knows.
    pub(super) async fn run(&self) -> Result<ExitCode, CommandError> {
        let (client, path) = (Client::new(&self.access), &self.file);
        if path.as_os_str() == "-" {
            if stdout().is_terminal() {
                return Err("a backup is no text for a terminal: give a file, or redirect standard output".into());
            }
            client.copy("/backup", &mut stdout()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let name = path.display();
        if path.symlink_metadata().is_ok() {
            return Err(format!("cannot write {name}: it exists; choose another name, or remove it first").into());
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unfinished =
            Builder::new().prefix(path.file_name().unwrap_or_default()).suffix(".part").tempfile_in(folder);
        let mut unfinished = unfinished.map_err(|error| format!("cannot write {name}: {error}"))?;
        let bytes = client.copy("/backup", &mut unfinished).await?;
        let synced = unfinished.as_file().sync_all();
        let named = synced.and_then(|()| Ok(unfinished.persist_noclobber(path)?));
        named.and_then(|_| File::open(folder)?.sync_all()).map_err(|error| unwritable(&name, &error))?;
        print_line(&format!("{name}: {bytes} bytes"))?;
        Ok(ExitCode::SUCCESS)
    }
}
