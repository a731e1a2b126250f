//! `handbill backup`, `export` and `import`.

use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::{fs, process::ExitCode};

use axum::body::Body;
use bytes::Bytes;
use clap::Args;
use futures_util::TryStreamExt;
use tempfile::Builder;
use tokio::{fs::File, io::stdin};
use tokio_util::io::ReaderStream;

use super::super::error::{CommandError, print, print_line, unwritable};
use super::{client::Client, progress};
use crate::admin::backup::{JournalRequest, WholeBackup};
use crate::admin::import::ImportReport;
use crate::admin::records::{Field, RecordBatch, RecordsRequest};
use crate::settings::SocketAccess;
use handbill_pages::ports::clock::{Clock, SystemClock};
use handbill_pages::values::{archive::Encoder, counted::counted, timestamp::UnixMillis};

const GENERATOR: &str = concat!("handbill ", env!("CARGO_PKG_VERSION"));

#[derive(Args, Debug)]
pub(in crate::cli) struct Export {
    /// Only changes since a day or time, e.g. 2026-11-27 or 2026-11-27T06:00:00.000Z, or within e.g. 6h
    #[arg(long, value_name = "TIME|DURATION", value_parser = since)]
    since: Option<UnixMillis>,
    /// Only hidden pages
    #[arg(long)]
    hidden: bool,
    /// List these fields of pages, one JSON object a line, not for import
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', value_enum)]
    fields: Vec<Field>,
    /// Continue an export that stopped and said so
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Write the journal, which a restored store applies, instead of records
    #[arg(long, conflicts_with_all = ["hidden", "fields", "after"])]
    journal: bool,
    #[command(flatten)]
    access: SocketAccess,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Import {
    /// File that export wrote; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Continue an import that stopped and said so
    #[arg(long, value_name = "LINE", default_value_t = 0, hide_default_value = true)]
    after: u64,
    #[command(flatten)]
    access: SocketAccess,
}

fn since(text: &str) -> Result<UnixMillis, String> {
    if let Some(time) = UnixMillis::parse(text).or_else(|| UnixMillis::parse(&format!("{text}T00:00:00.000Z"))) {
        return Ok(time);
    }
    let before = humantime::parse_duration(text).map_err(|_| "give a time or a duration, such as 6h".to_owned())?;
    let millis = i64::try_from(before.as_millis()).unwrap_or(i64::MAX);
    Ok(UnixMillis::new(SystemClock::new().now().get().saturating_sub(millis)))
}

impl Export {
    /// Exit code 1 if records cannot be read, or if the process stopped answering: the output is still a whole archive.
    pub(super) async fn run(self) -> Result<ExitCode, CommandError> {
        let Self { since, hidden, fields, after, journal, access } = self;
        let client = Client::new(&access);
        let bar = progress(None);
        if journal {
            client.copy("/journal", &JournalRequest { since }, "the output", &mut stdout()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let is_archive = fields.is_empty();
        let mut wanted = RecordsRequest { after, since, hidden, fields };
        let (mut encoder, header) = Encoder::begin(SystemClock::new().now(), GENERATOR.to_owned());
        let mut header = Some(header).filter(|_| is_archive);
        let stopped = loop {
            let batch: RecordBatch = match client.ask("/records", &wanted).await {
                Ok(batch) => batch,
                Err(error) if header.is_some() || wanted.after.is_none() => return Err(error),
                Err(error) => break Some(error.reason),
            };
            print(&header.take().unwrap_or_default())?;
            batch.lines.iter().for_each(|line| encoder.line(line));
            encoder.unreadable(batch.unreadable);
            print(&batch.lines.concat())?;
            bar.inc(batch.lines.len() as u64 + batch.unreadable);
            wanted.after = batch.next;
            if wanted.after.is_none() {
                break None;
            }
        };
        bar.finish_and_clear();
        let unreadable = encoder.unreadable_count();
        let after = wanted.after.unwrap_or_default();
        if is_archive {
            print(&encoder.end())?;
        }
        if let Some(reason) = stopped {
            return Err(CommandError::failed(format!(
                "{reason}; the records until there are written, and export --after {after} writes the rest"
            )));
        }
        if unreadable == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let missing = counted(unreadable, "record");
        Err(CommandError::failed(format!("{missing} cannot be read and are left out: the process's log names them")))
    }
}

impl Import {
    /// Exit code 1 if some records were not stored.
    pub(super) async fn run(self) -> Result<ExitCode, CommandError> {
        let bar = progress(None);
        let sent = {
            let bar = bar.clone();
            move |bytes: &Bytes| bar.inc(bytes.len() as u64)
        };
        let body = if self.file.as_os_str() == "-" {
            Body::from_stream(ReaderStream::new(stdin()).inspect_ok(sent))
        } else {
            let unreadable = |error| CommandError::refused(format!("cannot read {}: {error}", self.file.display()));
            let file = File::open(&self.file).await.map_err(unreadable)?;
            bar.set_length(file.metadata().await.map_err(unreadable)?.len());
            Body::from_stream(ReaderStream::new(file).inspect_ok(sent))
        };
        let path = format!("/import?after={}", self.after);
        let report: ImportReport = Client::new(&self.access).upload(&path, body).await?;
        bar.finish_and_clear();
        print_line(&report.to_string())?;
        if let Some(reason) = report.error {
            let reason = reason.trim_end_matches('.');
            return Err(CommandError::failed(format!(
                "{reason}; what is counted above is stored, and import --after {} can import the rest",
                report.line
            )));
        }
        if report.missing == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let missing = counted(report.missing, "record");
        Err(CommandError::failed(format!("the export lacks {missing} that could not be read when it was made")))
    }
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Backup {
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
        let client = Client::new(&self.access);
        let (path, began) = (&self.file, SystemClock::new().now());
        if path.as_os_str() == "-" {
            if stdout().is_terminal() {
                return Err(CommandError::refused(
                    "a backup is no text for a terminal: give a file, or redirect standard output",
                ));
            }
            client.copy("/backup", &(), "the output", &mut stdout()).await?;
            client.ask::<()>("/backup/whole", &WholeBackup { began }).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let name = path.display();
        if path.symlink_metadata().is_ok() {
            return Err(CommandError::refused(format!(
                "cannot write {name}: it exists; choose another name, or remove it first"
            )));
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unfinished =
            Builder::new().prefix(path.file_name().unwrap_or_default()).suffix(".part").tempfile_in(folder);
        let mut unfinished =
            unfinished.map_err(|error| CommandError::refused(format!("cannot write {name}: {error}")))?;
        let bytes = client.copy("/backup", &(), &name, &mut unfinished).await?;
        let synced = unfinished.as_file().sync_all();
        let named = synced.and_then(|()| Ok(unfinished.persist_noclobber(path)?));
        named.and_then(|_| fs::File::open(folder)?.sync_all()).map_err(|error| unwritable(&name, &error))?;
        client.ask::<()>("/backup/whole", &WholeBackup { began }).await?;
        print_line(&format!("{name}: {bytes} bytes"))?;
        Ok(ExitCode::SUCCESS)
    }
}
