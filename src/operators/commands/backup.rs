//! `handbill backup`: a copy of the SQLite store of the running process.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::client::Client;
use super::lines::print_line;
use crate::config::OperatorAccess;
use crate::operators::archive::file::NewFile;

#[derive(Args, Debug)]
pub struct Backup {
    /// New file, compressed with zstd if its name ends in .zst; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten, next_help_heading = "Operators' listener")]
    access: OperatorAccess,
}

impl Backup {
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        let client = Client::new(&self.access)?;
        let mut bytes = 0;
        if self.file.to_str() == Some("-") {
            if stdout().is_terminal() {
                return Err("a backup is no text for a terminal: give a file, or redirect standard output".to_owned());
            }
            let write = |piece: &[u8]| stdout().write_all(piece).map_err(|error| format!("could not write: {error}"));
            client.copy("/backup", write).await?;
            stdout().flush().map_err(|error| format!("could not write: {error}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut file = NewFile::create(&self.file).map_err(|error| error.to_string())?;
        let write = |piece: &[u8]| {
            bytes += piece.len();
            file.write(piece).map_err(|error| error.to_string())
        };
        client.copy("/backup", write).await?;
        file.finish().map_err(|error| error.to_string())?;
        print_line(&format!("{}: {bytes} bytes of pages", self.file.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
