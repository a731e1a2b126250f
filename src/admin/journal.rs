//! Applies a journal to a restored cluster (contract, decision 18).

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::import::{Importer, expected};
use handbill_pages::ports::page_store::{Lookup, Record};
use handbill_pages::service::ServiceError;
use handbill_pages::values::archive::Entry;
use handbill_pages::values::journal::{Act, Kind, Line};
use handbill_pages::values::page::Page;

const LINES_AT_ONCE: usize = 32;

/// Leaves out void lines, a cut last line, and all but the last line about hiding or showing a page.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, String> {
    let refused = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(refused)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines: Result<Vec<Line>, _> = whole.lines().map(serde_json::from_str).collect();
    let (mut voids, mut kept) = (HashSet::new(), Vec::new());
    for line in lines.map_err(|error| refused(error.into()))?.into_iter().rev() {
        let key = (line.slug.clone(), line.version, line.at.clone());
        if line.kind == Kind::Void {
            voids.insert(key);
        } else if !voids.remove(&key) {
            kept.push(line);
        }
    }
    let mut last: HashMap<String, String> = HashMap::new();
    let is_turn = |line: &Line| matches!(line.kind, Kind::Hide | Kind::Show);
    for Line { slug, at, .. } in kept.iter().filter(|line| is_turn(line)) {
        let last = last.entry(slug.clone()).or_default();
        // Times of one form sort like their texts.
        *last = at.max(last).clone();
    }
    kept.retain(|line| !is_turn(line) || last.get(&line.slug) == Some(&line.at));
    Ok(kept)
}

/// Changes no page of a later version or time.
pub(super) async fn replay(importer: &Importer, lines: Vec<Line>) -> Result<(), String> {
    let applied = stream::iter(lines).map(|line| async move {
        let act = line.act().ok_or_else(|| format!("a line of the journal makes no sense: {line:?}"))?;
        repeat(importer, act).await.map_err(|error| error.to_string())
    });
    applied.buffer_unordered(LINES_AT_ONCE).try_collect().await
}

/// Repeats an act of the journal on a restored store.
async fn repeat(importer: &Importer, act: Act) -> Result<(), ServiceError> {
    loop {
        let found = importer.store.lookup(act.slug()).await?;
        let expected = expected(&found);
        let next = match (act.clone().on((&found).into()), found) {
            (Some(Act::Delete(tombstone)), _) => return importer.import(Entry::Tombstone(tombstone)).await.map(drop),
            (Some(Act::Turn { at, hidden, .. }), Lookup::Active(page) | Lookup::Hidden(page)) => {
                Record::Active(Arc::new(Page { head: page.head.replayed(hidden, at), text: page.text.clone() }))
            }
            _ => return Ok(()),
        };
        // Otherwise another request changed it since.
        if importer.put(expected, next).await? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_line_takes_back_the_line_before_it_and_a_cut_line_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = |kind: &str, version: u64| {
            let at = "2026-11-21T04:30:00.123Z";
            format!("{{\"kind\":\"{kind}\",\"slug\":\"a-22222222\",\"version\":{version},\"at\":\"{at}\"}}\n")
        };
        let text =
            [line("delete", 2), line("void", 2), line("show", 3), line("delete", 2), "{\"kind\":\"de".to_owned()];
        std::fs::write(&path, text.concat()).unwrap();
        let kept: Vec<_> = read(&path).unwrap().into_iter().map(|line| (line.kind, line.version)).collect();
        assert_eq!(kept, [(Kind::Delete, 2), (Kind::Show, 3)]);
        std::fs::write(&path, "no line\n").unwrap();
        assert!(read(&path).is_err());
    }

    #[test]
    fn of_the_lines_about_hiding_and_showing_a_page_only_the_last_counts_in_whatever_order_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = |(kind, slug, second): (&str, &str, u8)| {
            let at = format!("2026-11-21T04:30:0{second}.123Z");
            format!("{{\"kind\":\"{kind}\",\"slug\":\"{slug}-22222222\",\"version\":{second},\"at\":\"{at}\"}}\n")
        };
        let lines = [
            ("show", "a", 3),
            ("hide", "a", 2),
            ("hide", "b", 2),
            ("show", "b", 3),
            ("hide", "b", 4),
            ("delete", "a", 1),
        ];
        std::fs::write(&path, lines.map(line).concat()).unwrap();
        let kept: Vec<_> = read(&path).unwrap().into_iter().map(|line| (line.kind, line.version)).collect();
        assert_eq!(kept, [(Kind::Delete, 1), (Kind::Hide, 4), (Kind::Show, 3)]);
    }
}
