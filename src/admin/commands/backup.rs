//! `handbill backup`: copies the SQLite store of the running process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::client::Client;
use super::terminal::print_line;
use crate::settings::SocketAccess;

/// A page may be a draft whose address is secret.
const MODE: u32 = 0o600;

#[derive(Args, Debug)]
pub struct Backup {
    /// New file; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    access: SocketAccess,
}

/// Gets its name when it is complete and on disk.
struct NewFile<'a> {
    path: &'a Path,
    unfinished: PathBuf,
    file: File,
}

impl Backup {
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        let client = Client::new(&self.access);
        if self.file.to_str() == Some("-") {
            if stdout().is_terminal() {
                return Err("a backup is no text for a terminal: give a file, or redirect standard output".to_owned());
            }
            client.copy("/backup", &mut stdout()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let failed = |error| format!("cannot write {}: {error}", self.file.display());
        let mut file = NewFile::create(&self.file).map_err(failed)?;
        let bytes = client.copy("/backup", &mut file.file).await?;
        file.finish().map_err(failed)?;
        print_line(&format!("{}: {bytes} bytes", self.file.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl<'a> NewFile<'a> {
    fn create(path: &'a Path) -> io::Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it exists; choose another name, or remove it first",
            ));
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".part");
        let unfinished = PathBuf::from(unfinished);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&unfinished)?;
        Ok(Self { path, unfinished, file })
    }

    fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.unfinished, self.path)?;
        let folder = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Drop for NewFile<'_> {
    /// On a full disk an unfinished file would take the remaining space.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.unfinished);
    }
}
