//! `handbill migrate`: updates the schema of a cluster, and applies a journal to a restored one (contract, decision 18).

use std::io::{self, BufRead, BufReader, Seek};
use std::{fs::File, path::Path, process::ExitCode, sync::Arc};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::error::{CommandError, print_line};
use crate::settings::MigrateSettings;
use crate::telemetry::logs;
use handbill_pages::ports::{clock::SystemClock, random::Random};
use handbill_pages::service::{CallMetrics, Importer, RenderThreads, SharedStore};
use handbill_pages::values::counted::counted;
use handbill_pages::values::journal::{Kind, Line, Outlook};
use handbill_store_scylla::ScyllaStore;

const ACTS_AT_ONCE: usize = 32;

pub(super) async fn migrate(settings: &MigrateSettings) -> Result<ExitCode, CommandError> {
    let _lines = logs::install(&settings.logs, None);
    let Some(cluster) = settings.cluster().map_err(CommandError::refused)? else {
        print_line("This store needs no migration.")?;
        return Ok(ExitCode::SUCCESS);
    };
    let journal = settings.replay_journal.as_deref().map(JournalFile::open).transpose();
    let journal = journal.map_err(CommandError::refused)?;
    let report = Box::pin(handbill_store_scylla::migrate(&cluster, &Random::System)).await;
    let report = report
        .map_err(|error| if error.is_refusal() { CommandError::refused(error) } else { CommandError::failed(error) })?;
    print_line(&report.to_string())?;
    if let Some((journal, outlook)) = journal {
        let store = Box::pin(ScyllaStore::reach(&cluster)).await.map_err(CommandError::failed)?;
        let store = SharedStore::new(Arc::new(store), CallMetrics::default(), Arc::new(SystemClock::new()));
        let importer = Importer::new(store, Arc::new(RenderThreads::default()));
        let lines = replay(&importer, &journal, outlook).await;
        let lines =
            lines.map_err(|error| CommandError::failed(format!("{error}; the same command can be run again")))?;
        print_line(&format!("Applied {} of the journal.", counted(lines, "line")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A journal that was exported, line by line, however long it is.
struct JournalFile {
    file: File,
    name: String,
}

impl JournalFile {
    /// Also checks each line.
    fn open(path: &Path) -> Result<(Self, Outlook), String> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
        let (journal, mut outlook) = (Self { file, name }, Outlook::default());
        for line in journal.lines()? {
            outlook.note(&line?);
        }
        Ok((journal, outlook))
    }

    /// A cut last line does not count.
    fn lines(&self) -> Result<impl Iterator<Item = Result<Line, String>>, String> {
        let refused = |error: io::Error| format!("cannot read {}: {error}", self.name);
        let mut file = &self.file;
        file.rewind().map_err(refused)?;
        let mut lines = BufReader::new(file);
        Ok(std::iter::from_fn(move || {
            let mut text = String::new();
            match lines.read_line(&mut text) {
                Ok(_) if !text.ends_with('\n') => None,
                Ok(_) => Some(parsed(&text).map_err(|error| format!("cannot read {}: {error}", self.name))),
                Err(error) => Some(Err(refused(error))),
            }
        }))
    }
}

fn parsed(text: &str) -> Result<Line, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let makes_sense = line.kind == Kind::Void || line.act().is_some();
    makes_sense.then_some(line).ok_or_else(|| format!("a line of the journal makes no sense: {}", text.trim_end()))
}

/// Repeats acts, but changes no page that was written later. Returns their number. It can be run again.
async fn replay(importer: &Importer, journal: &JournalFile, mut outlook: Outlook) -> Result<u64, String> {
    let acts = journal.lines()?.filter_map(|line| match line {
        Ok(line) => outlook.must_repeat(&line).then(|| line.act())?.map(Ok),
        Err(error) => Some(Err(error)),
    });
    let repeated = stream::iter(acts).map(async |act| {
        let act = act?;
        importer.repeat(&act).await.map_err(|error| error.to_string())
    });
    repeated.buffer_unordered(ACTS_AT_ONCE).try_fold(0, async |done, ()| Ok(done + 1)).await
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_cut_line_does_not_count_and_nonsense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = r#"{"kind":"show","slug":"a-22222222","version":3,"at":"2026-11-21T04:30:00.123Z"}"#;
        fs::write(&path, format!("{line}\n{{\"kind\":\"de")).unwrap();
        let (journal, _) = JournalFile::open(&path).unwrap();
        for _ in 0..2 {
            assert_eq!(journal.lines().unwrap().map(|line| line.unwrap().kind).collect::<Vec<_>>(), [Kind::Show]);
        }
        for wrong in ["no line".to_owned(), line.replace("show", "hide")] {
            fs::write(&path, format!("{line}\n{wrong}\n")).unwrap();
            assert!(JournalFile::open(&path).is_err(), "{wrong}");
        }
    }
}
