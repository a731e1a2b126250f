//! `handbill export`, `import` and `restore`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;

use super::client::Client;
use super::lines::{print_line, progress, shown, shown_on};
use super::remote_records::RemoteRecords;
use super::stores::Stores;
use crate::config::{EmbeddedSettings, MovingSettings};
use crate::operators::archive::export::Selection;
use crate::operators::archive::file::{FileError, Skip, begun_at, is_of_deletions, newest_act};
use crate::operators::archive::import::Counts;
use crate::operators::archive::moving::{Destination, MoveError, write};
use handbill_core::domain::archive::{ArchiveError, Summary};
use handbill_core::domain::counted::counted;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_store_cql::Share;
use handbill_store_redb::LEDGER_FILE;

#[derive(Args, Debug)]
pub struct Export {
    /// New file, compressed with zstd if its name ends in .zst; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Write only what remains of deleted pages, and which pages are hidden, for restore --ledger
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
    /// Files that export made, or ledgers of deletions
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    settings: MovingSettings,
}

#[derive(Args, Debug)]
pub struct Restore {
    /// File that export made
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Ledger of deletions, or an export of deletions; repeatable. The pages in it stay deleted or hidden
    #[arg(long, value_name = "FILE")]
    ledger: Vec<PathBuf>,
    /// Go on without damaged lines of ledgers, and print each: the pages that they name may come back
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    embedded: EmbeddedSettings,
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

/// Writes the records of the store: directly, or through the running process if an embedded store has one.
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
    eprintln!("handbill: the file lacks {missing} that cannot be read: see handbill check");
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

impl Restore {
    /// Exit code 1 if damaged lines were skipped, or the ledgers lack deletions of the backup. The store is made all the same.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let bar = progress(None);
        let skipped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&skipped);
        let skip: Skip = Arc::new(move |line| {
            counter.fetch_add(1, Ordering::Relaxed);
            // Nobody could do anything about a line that cannot be printed.
            let _ = print_line(&format!("skipped: {}", shown(line)));
        });
        let skip = Some(&skip).filter(|_| self.skip_damaged);
        let backup = &self.from;
        if is_of_deletions(backup) {
            return Err(format!(
                "{} has deletions alone, as a ledger has: give it to --ledger, and a backup to --from",
                backup.display()
            ));
        }
        let ledgers = &self.ledger;
        let has_no_ledger = ledgers.is_empty() && !self.embedded.data_dir.join(LEDGER_FILE).is_file();
        let at = |what, time: Option<_>| time.map_or_else(String::new, |time| format!(", {what} {time}"));
        print_line(&format!("backup: {}{}", backup.display(), at("begun at", begun_at(backup))))?;
        for ledger in ledgers {
            print_line(&format!("ledger: {}{}", ledger.display(), at("whose newest entry is of", newest_act(ledger))))?;
        }
        let counts = stores.restore(&self.embedded, backup, ledgers, skip, &shown_on(&bar)).await;
        bar.finish_and_clear();
        let advice = |error: &MoveError| match error {
            MoveError::File(FileError::Refused { reason: ArchiveError::NotAnArchive, .. }) => String::new(),
            MoveError::File(FileError::Refused { path, .. })
                if (ledgers.contains(path) || path.ends_with(LEDGER_FILE)) && !self.skip_damaged =>
            {
                ": --skip-damaged goes on without its damaged lines and prints them".to_owned()
            }
            _ => String::new(),
        };
        let counts = counts.map_err(|error| format!("{error}{}", advice(&error)))?;
        print_counts(&counts)?;
        let (unknown, skipped) = (counts.last_tombstones, skipped.load(Ordering::Relaxed));
        if has_no_ledger {
            // An export becomes a store in this way.
            eprintln!(
                "handbill: there is no copy of the ledger: what was deleted or hidden since the backup has come back"
            );
            return Ok(ExitCode::SUCCESS);
        }
        if unknown > 0 {
            let or_skipped = if skipped > 0 { "skipped lines had what they lack, or " } else { "" };
            eprintln!(
                "handbill: the ledgers lack {} of the backup: {or_skipped}they are older than it or of another store, so what was deleted or \
                 hidden since may have come back",
                counted(unknown, "deletion")
            );
        }
        if skipped > 0 {
            let lines = counted(skipped, "damaged line");
            eprintln!("handbill: {lines} skipped: look for the pages that they name, and take them down");
        }
        if unknown + skipped == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("handbill: the store is made all the same, and can be served");
        Ok(ExitCode::FAILURE)
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
