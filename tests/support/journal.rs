//! Reads the journal of a store.

use std::fs;

use futures_util::TryStreamExt;
use handbill_pages::ports::operated_store::{ExportedJournal, OperatedStore};
use handbill_pages::values::journal::Line;
use handbill_pages::values::timestamp::UnixMillis;

pub async fn lines(store: &dyn OperatedStore) -> Vec<Line> {
    lines_since(store, None).await
}

pub async fn lines_since(store: &dyn OperatedStore, since: Option<UnixMillis>) -> Vec<Line> {
    match store.journal(since).await.unwrap() {
        ExportedJournal::File(path) => {
            let text = fs::read_to_string(path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        }
        ExportedJournal::Lines(lines) => lines.try_collect().await.unwrap(),
    }
}
