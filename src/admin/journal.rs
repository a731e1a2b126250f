//! Applies a journal to a restored cluster (contract, decision 18).

use std::path::Path;
use std::{fs, io};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::import::Importer;
use handbill_pages::ports::page_store::Expected;
use handbill_pages::service::ServiceError;
use handbill_pages::values::journal::{Act, Line, remaining};

const ACTS_AT_ONCE: usize = 32;

/// The acts that a restored cluster must repeat. A cut last line does not count.
pub(super) fn read(path: &Path) -> Result<Vec<Act>, String> {
    let refused = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(refused)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines: Result<_, _> = whole.lines().map(serde_json::from_str).collect();
    let lines = remaining(lines.map_err(|error| refused(error.into()))?);
    let act = |line: Line| line.act().ok_or_else(|| format!("a line of the journal makes no sense: {line:?}"));
    lines.into_iter().map(act).collect()
}

/// Repeats acts, but changes no page that was written later.
pub(super) async fn replay(importer: &Importer, acts: Vec<Act>) -> Result<(), ServiceError> {
    let repeated = stream::iter(acts).map(|act| repeat(importer, act));
    repeated.buffer_unordered(ACTS_AT_ONCE).try_collect().await
}

/// Repeats an act of the journal on a restored store.
async fn repeat(importer: &Importer, act: Act) -> Result<(), ServiceError> {
    loop {
        let found = importer.store.lookup(&act.slug).await?;
        let Some(record) = found.after(&act) else { return Ok(()) };
        // Otherwise another request changed it since.
        if importer.put(Expected::found(found.head().as_ref()), record).await? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handbill_pages::values::journal::Change;

    #[test]
    fn a_cut_line_does_not_count_and_nonsense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = r#"{"kind":"show","slug":"a-22222222","version":3,"at":"2026-11-21T04:30:00.123Z"}"#;
        fs::write(&path, format!("{line}\n{{\"kind\":\"de")).unwrap();
        assert!(matches!(read(&path).unwrap()[..], [Act { change: Change::Show, .. }]));
        for wrong in ["no line".to_owned(), line.replace("show", "hide")] {
            fs::write(&path, format!("{line}\n{wrong}\n")).unwrap();
            assert!(read(&path).is_err(), "{wrong}");
        }
    }
}
