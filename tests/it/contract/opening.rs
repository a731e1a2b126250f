//! Data directories that the embedded store creates, opens or refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{Lookup, PageStore, Record};
use handbill_store_redb::{DATABASE_FILE, LEDGER_FILE, OpenError, RedbStore, Restoring, begin_anew, check};
use redb::{Database, TableDefinition};

use crate::support::pages::{CREATED, edited, page};

fn refused(directory: &Path) -> OpenError {
    let error = RedbStore::open(directory).err().expect("the directory is refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[tokio::test]
async fn everything_is_found_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path()).unwrap();
    let (kept, changed, deleted) = (Arc::new(page("kept")), Arc::new(page("old")), Arc::new(page("gone")));
    for page in [&kept, &changed, &deleted] {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    let next = edited(&changed, "new");
    store.compare_and_set(changed.head.version, Record::Active(next.clone()), None).await.unwrap();
    let tombstone = deleted.head.tombstone(UnixMillis::new(CREATED + 1));
    store.compare_and_set(deleted.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    drop(store);

    let store = RedbStore::open(directory.path()).unwrap();
    assert_eq!(store.lookup(&kept.head.slug).await.unwrap(), Lookup::Active(kept));
    assert_eq!(store.lookup(&next.head.slug).await.unwrap(), Lookup::Active(next));
    assert_eq!(store.lookup(&deleted.head.slug).await.unwrap(), Lookup::Deleted(tombstone));
}

#[test]
fn a_missing_directory_is_made_for_its_user_alone() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("some/where");
    let store = RedbStore::open(&directory).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join(DATABASE_FILE)), 0o600);
    drop(store);
}

#[test]
fn a_directory_in_use_is_refused_until_it_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path()).unwrap();
    assert!(matches!(refused(directory.path()), OpenError::InUse(_)));
    drop(store);
    RedbStore::open(directory.path()).unwrap();
}

#[test]
fn a_directory_that_another_process_has_taken_but_not_yet_filled_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let lock = fs::File::create(directory.path().join("handbill.lock")).unwrap();
    lock.try_lock().unwrap();
    assert!(matches!(refused(directory.path()), OpenError::InUse(_)));
    assert!(!directory.path().join(DATABASE_FILE).exists());
    drop(lock);
    RedbStore::open(directory.path()).unwrap();
}

/// A data directory with a deletion in its ledger.
async fn with_a_deletion() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path()).unwrap();
    let page = Arc::new(page("gone"));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 1));
    store.compare_and_set(page.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    store.ensure_in_ledger(&Record::Deleted(tombstone.clone())).await.unwrap();
    store.close().await;
    directory
}

/// An empty store would answer 404 for every page, and the deletions of the lost one would be 404 too.
#[tokio::test]
async fn a_database_that_was_lost_is_not_replaced_by_an_empty_one_unless_that_is_meant() {
    let directory = with_a_deletion().await;
    let whole = check(directory.path(), &|_, _| {}).unwrap();
    assert_eq!((whole.tombstones, whole.ledger, whole.fault_count), (1, 1, 0));
    fs::remove_file(directory.path().join(DATABASE_FILE)).unwrap();
    for _ in 0..2 {
        let error = refused(directory.path());
        assert!(matches!(error, OpenError::Lost { .. }) && error.to_string().contains("--new-store"), "{error}");
    }
    assert!(!directory.path().join(DATABASE_FILE).exists());
    let lost = check(directory.path(), &|_, _| {}).unwrap();
    assert!(lost.fault_count == 1 && lost.faults[0].contains("ledger"), "{lost:?}");
    begin_anew(directory.path()).unwrap();
    drop(RedbStore::open(directory.path()).unwrap());
    assert!(directory.path().join("handbill.ledger.before").exists(), "a restore can still be told of the deletions");
    assert!(matches!(begin_anew(directory.path()), Err(OpenError::NotLost(_))));
}

#[tokio::test]
async fn a_restore_that_did_not_end_is_not_taken_for_an_empty_store_and_can_be_begun_again() {
    let directory = tempfile::tempdir().unwrap();
    let restoring = Restoring::begin(directory.path()).unwrap();
    drop(RedbStore::open(&restoring.directory()).unwrap());
    drop(restoring);
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Lost { .. }) && error.to_string().contains("restore did not end"), "{error}");
    assert_eq!(check(directory.path(), &|_, _| {}).unwrap().fault_count, 1);
    drop(Restoring::begin(directory.path()).unwrap());
    begin_anew(directory.path()).unwrap();
    RedbStore::open(directory.path()).unwrap();
}

#[tokio::test]
async fn a_deletion_that_a_start_has_added_to_the_ledger_again_counts_once() {
    let directory = with_a_deletion().await;
    let path = directory.path().join(LEDGER_FILE);
    let whole = fs::read_to_string(&path).unwrap();
    let last = whole.split_inclusive('\n').next_back().unwrap();
    fs::write(&path, format!("{whole}{last}")).unwrap();
    let checked = check(directory.path(), &|_, _| {}).unwrap();
    assert_eq!((checked.tombstones, checked.ledger, checked.fault_count), (1, 1, 0), "{checked:?}");
}

#[tokio::test]
async fn a_database_that_is_not_the_one_of_its_ledger_is_a_fault() {
    let (directory, other) = (with_a_deletion().await, tempfile::tempdir().unwrap());
    drop(RedbStore::open(other.path()).unwrap());
    fs::copy(other.path().join(DATABASE_FILE), directory.path().join(DATABASE_FILE)).unwrap();
    let checked = check(directory.path(), &|_, _| {}).unwrap();
    assert!(
        checked.fault_count == 1 && checked.faults[0].contains("the database lacks 1 line of the ledger"),
        "{checked:?}"
    );
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(refused(file.path()), OpenError::NotADirectory(_)));
    assert!(matches!(refused(&file.path().join("below")), OpenError::NotADirectory(_)));
}

/// Sets the format of the database in `directory`.
fn set_format(directory: &Path, format: u64) {
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let database = Database::open(directory.join(DATABASE_FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(meta).unwrap().insert("format", format).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn another_format_is_refused_and_left_as_it_is() {
    for format in [5, 7] {
        let directory = tempfile::tempdir().unwrap();
        drop(RedbStore::open(directory.path()).unwrap());
        set_format(directory.path(), format);
        let file = || fs::read(directory.path().join(DATABASE_FILE)).unwrap();
        let before = file();
        let is_refused = || {
            let error = refused(directory.path());
            assert!(matches!(error, OpenError::UnknownFormat { found, known: 6, .. } if found == format), "{error}");
            assert!(error.to_string().contains("start the version that wrote it"), "{error}");
        };
        is_refused();
        is_refused();
        assert!(file() == before, "a start of another version has changed a file");
    }
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path()).unwrap();
    store.insert_if_absent(Arc::new(page("text")), None).await.unwrap();
    drop(store);
    let path = directory.path().join(DATABASE_FILE);
    let whole = fs::read(&path).unwrap();
    let mut headless = whole.clone();
    headless[..4096].fill(0);
    // If only the head of the file is intact, `redb` panics on the rest.
    let mut bodiless = whole.clone();
    bodiless[4096..].fill(0xaa);
    let short = &whole[..4096];
    for damaged in [&b""[..], b"not a database", &whole[..whole.len() / 2], short, &headless, &bodiless] {
        fs::write(&path, damaged).unwrap();
        let error = refused(directory.path());
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
    fs::write(&path, whole).unwrap();
    RedbStore::open(directory.path()).unwrap();
}

#[test]
fn a_database_of_something_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let other: TableDefinition<'_, u64, u64> = TableDefinition::new("other");
    let database = Database::create(directory.path().join(DATABASE_FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(other).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert!(matches!(refused(directory.path()), OpenError::Damaged { .. }));
}

#[test]
fn a_first_start_that_was_cut_short_leaves_nothing_in_the_way_of_the_next() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("handbill.redb.new"), [0; 10_000]).unwrap();
    drop(RedbStore::open(directory.path()).unwrap());
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["handbill.ledger", "handbill.lock", DATABASE_FILE, "handbill.reserve"]);
}
