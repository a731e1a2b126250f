//! Exports that end early.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use handbill::operators::archive::export::Selection;
use handbill::operators::archive::file::{Records, verify};
use handbill::operators::archive::moving::{Destination, MoveError, write};
use handbill_core::domain::archive::{Entry, Summary};
use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit};
use handbill_core::ports::page_store::{NotReachedError, PageStore, Record, StoreError};
use handbill_store_sqlite::SqliteStore;
use tempfile::{TempDir, tempdir};

use crate::support::pages::{CREATED, edited, page};

/// Batches of thirty records. The last is empty.
const BATCHES: usize = 7;

/// A store that answers some more batches, of five records each.
struct Answering {
    store: Arc<SqliteStore>,
    left: AtomicUsize,
}

#[async_trait]
impl PageScan for Answering {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| StoreError::Unavailable(Box::new(NotReachedError)))?;
        self.store.scan(after, ScanLimit { records: 5, ..limit }).await
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        self.store.estimated_records().await
    }
}

struct Exporting {
    folder: TempDir,
    store: Arc<SqliteStore>,
    pages: Vec<Arc<Page>>,
}

impl Exporting {
    /// A store of thirty records.
    async fn begin() -> Self {
        let folder = tempdir().unwrap();
        let store = Arc::new(SqliteStore::temporary().unwrap());
        let mut pages: Vec<_> = (0..30).map(|number| Arc::new(page(&format!("page {number}")))).collect();
        for page in &pages {
            store.insert_if_absent(Arc::clone(page), None).await.unwrap();
        }
        pages.sort_by(|one, other| one.head.slug.cmp(&other.head.slug));
        Self { folder, store, pages }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `of` into `path` from a store that answers `batches` times. Also returns how many times it was asked.
    async fn write(&self, path: &Path, of: &str, batches: usize) -> (Result<Summary, MoveError>, usize) {
        let store = Arc::new(Answering { store: Arc::clone(&self.store), left: AtomicUsize::new(batches) });
        let to = Destination::Resumable(path.to_owned(), of.to_owned());
        let written = write(Arc::clone(&store) as _, &to, Selection::All, UnixMillis::new(CREATED), &|_, _| {}).await;
        (written, batches - store.left.load(Ordering::Relaxed))
    }
}

/// The records of a whole file, in order.
fn records(path: &Path) -> Vec<Entry> {
    verify(path, |_| {}).unwrap();
    Records::open(path).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn an_export_that_ended_early_goes_on_where_it_was_and_has_each_page_once() {
    for name in ["plain.ndjson", "compressed.ndjson.zst"] {
        let exporting = Exporting::begin().await;
        let path = exporting.path(name);
        let (failed, _) = exporting.write(&path, "pages", 3).await;
        assert!(matches!(failed, Err(MoveError::Store(_))) && !path.exists(), "{failed:?}");
        // Pages change meanwhile: one that is in the file already, and one that is not.
        let [first, last] = [&exporting.pages[0], &exporting.pages[29]];
        let deleted = first.head.tombstone(UnixMillis::new(CREATED + 5));
        for (page, next) in [(first, Record::Deleted(deleted)), (last, Record::Active(edited(last, "changed")))] {
            exporting.store.compare_and_set(page.head.version, next, None).await.unwrap();
        }
        let (written, batches) = exporting.write(&path, "pages", 100).await;
        assert_eq!((written.unwrap().records, batches), (30, BATCHES - 1), "the first batch is not read again");
        let mut expected: Vec<_> = exporting.pages.iter().map(|page| Entry::of(page)).collect();
        expected[29] = Entry::of(&edited(last, "changed"));
        assert_eq!(records(&path), expected, "{name}: each as it was at one moment");
        let left: BTreeSet<_> =
            exporting.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [name.into()].into(), "nothing lies beside it");
    }
}

#[tokio::test]
async fn an_export_of_another_store_or_over_a_damaged_beginning_begins_at_the_beginning() {
    let exporting = Exporting::begin().await;
    for (name, of) in
        [("other.ndjson.zst", "other pages"), ("damaged.ndjson.zst", "pages"), ("damaged.ndjson", "pages")]
    {
        let path = exporting.path(name);
        exporting.write(&path, "pages", 3).await.0.unwrap_err();
        if name.starts_with("damaged") {
            let unfinished = exporting.path(&format!("{name}.part"));
            let mut bytes = std::fs::read(&unfinished).unwrap();
            bytes[200] ^= 8;
            std::fs::write(&unfinished, bytes).unwrap();
        }
        let (written, batches) = exporting.write(&path, of, 100).await;
        assert_eq!((written.unwrap().records, batches, records(&path).len()), (30, BATCHES, 30), "{name}");
    }
}
