//! `handbill export` and `import`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::client::Client;
use super::lines::{print_line, progress, shown_on};
use super::remote_records::RemoteRecords;
use super::stores::Stores;
use crate::config::MovingSettings;
use crate::operators::archive::export::Selection;
use crate::operators::archive::import::Counts;
use crate::operators::archive::moving::{Destination, MoveError, write};
use handbill_core::domain::archive::Summary;
use handbill_core::domain::counted::counted;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_store_cql::Share;

#[derive(Args, Debug)]
pub struct Export {
    /// New file, compressed with zstd if its name ends in .zst; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Write only what remains of deleted pages, and which pages are hidden
    #[arg(long)]
    deletions: bool,
    /// Write this part of a cluster alone, such as 3/8, so that several processes share the work: import takes all their files
    #[arg(long, value_name = "NUMBER/OF", default_value = "1/1")]
    part: Share,
    #[command(flatten)]
    settings: MovingSettings,
}

#[derive(Args, Debug)]
pub struct Import {
    /// Files that export made
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    settings: MovingSettings,
}

impl Export {
    /// Exit code 1 if a record cannot be read.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let selection = if self.deletions { Selection::Deletions } else { Selection::All };
        let to = match self.file.to_str() {
            Some("-") => Destination::Stdout,
            _ => Destination::File(self.file.clone()),
        };
        let summary = export(&self.settings, &to, selection, self.part, stores).await?;
        if let Destination::File(path) = &to {
            print_line(&format!("{}: {}", path.display(), counted(summary.records, "record")))?;
        }
        Ok(report_unreadable(&summary))
    }
}

/// Writes the records of the store: directly, or through the running process if an SQLite store has one.
async fn export(
    settings: &MovingSettings,
    to: &Destination,
    selection: Selection,
    share: Share,
    stores: &Stores<'_>,
) -> Result<Summary, String> {
    let bar = progress(None);
    let written = match stores.export(settings, to, selection, share, &shown_on(&bar)).await {
        Err(MoveError::InUse(error)) => {
            let client = Client::new(&settings.access).map_err(|reason| format!("{error}; or {reason}"))?;
            let records = Arc::new(RemoteRecords::new(client));
            write(records, to, selection, SystemClock::new().now(), &shown_on(&bar)).await
        }
        written => written,
    };
    bar.finish_and_clear();
    written.map_err(|error| error.to_string())
}

fn report_unreadable(summary: &Summary) -> ExitCode {
    if summary.unreadable == 0 {
        return ExitCode::SUCCESS;
    }
    let missing = counted(summary.unreadable, "record");
    eprintln!("handbill: the file lacks {missing} that cannot be read: the log says which");
    ExitCode::FAILURE
}

impl Import {
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let bar = progress(None);
        let counts = stores.import(&self.settings, &self.files, &shown_on(&bar)).await;
        bar.finish_and_clear();
        print_counts(&counts.map_err(|error| error.to_string())?)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn print_counts(counts: &Counts) -> Result<(), String> {
    let Counts { pages, tombstones, turned, same, older, deleted, hidden, .. } = counts;
    let turned = if *turned > 0 { format!(", {turned} hidden or shown") } else { String::new() };
    print_line(&format!(
        "stored: {}, {}{turned}; left as they were: {same} already there or read twice, {older} older than the page in the store, {deleted} \
         deleted in the store, {hidden} hidden in the store",
        counted(*pages, "page"),
        counted(*tombstones, "deletion"),
    ))
}
