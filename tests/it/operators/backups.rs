//! The backups that a running process makes by itself.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use handbill::operators::archive::export::Selection;
use handbill::operators::archive::file::{NewFile, verify};
use handbill::operators::archive::moving::keep_newest;
use handbill::operators::archive::schedule::{BackupPlan, ScheduledBackups};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::Clock;
use handbill_core::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use handbill_core::ports::page_store::{PageStore, StoreError};
use handbill_store_redb::RedbStore;
use prometheus_client::metrics::gauge::Gauge;
use tempfile::{TempDir, tempdir};

use crate::in_process::clock::TestClock;
use crate::support::pages::page;

const HOUR: Duration = Duration::from_hours(1);

/// Backups of an empty store, each day, of which three stay.
struct Daily {
    backups: ScheduledBackups,
    clock: Arc<TestClock>,
    folder: TempDir,
}

impl Daily {
    fn new() -> Self {
        let (folder, clock) = (tempdir().unwrap(), Arc::new(TestClock::new()));
        let store = RedbStore::open(&folder.path().join("data")).unwrap();
        let ledger = folder.path().join("ledger");
        fs::write(&ledger, "one deletion\n").unwrap();
        let plan = BackupPlan { to: folder.path().join("backups"), every: 24 * HOUR, keep: 3, ledger };
        let records = Arc::new(store);
        let backups =
            ScheduledBackups { plan, records, clock: Arc::clone(&clock) as _, last_success: Gauge::default() };
        Self { backups, clock, folder }
    }

    /// The same, of a store with a page: an empty one removes no backup.
    async fn with_a_page() -> Self {
        let Self { backups, clock, folder } = Self::new();
        let store = RedbStore::open(&folder.path().join("with-a-page")).unwrap();
        store.insert_if_absent(Arc::new(page("kept")), None).await.unwrap();
        Self { backups: ScheduledBackups { records: Arc::new(store), ..backups }, clock, folder }
    }

    async fn look(&self) -> Option<PathBuf> {
        self.backups.make_if_due().await.unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("backups")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn a_backup_is_made_once_the_newest_is_older_than_the_interval_and_its_ledger_lies_beside_it() {
    let daily = Daily::new();
    let made = daily.look().await.unwrap();
    verify(&made, None, |_| {}).unwrap();
    let name = "handbill-2026-11-21T04-30-00-123Z";
    assert_eq!(daily.names(), [format!("{name}.ledger"), format!("{name}.ndjson.zst")]);
    assert_eq!(
        fs::read_to_string(daily.folder.path().join(format!("backups/{name}.ledger"))).unwrap(),
        "one deletion\n"
    );
    assert_eq!(daily.backups.last_success.get(), 1_795_235_400);
    daily.clock.advance(23 * HOUR);
    assert_eq!(daily.look().await, None);
    daily.clock.advance(HOUR);
    assert!(daily.look().await.is_some());
    assert_eq!(daily.backups.last_success.get(), 1_795_235_400 + 24 * 60 * 60);
}

#[tokio::test]
async fn a_backup_that_somebody_else_makes_in_the_folder_is_a_success_at_the_next_look() {
    let daily = Daily::new();
    let made = daily.look().await.unwrap();
    daily.clock.advance(12 * HOUR);
    fs::copy(&made, made.with_file_name("handbill-2026-11-21T16-30-00-123Z.ndjson.zst")).unwrap();
    assert_eq!(daily.look().await, None);
    assert_eq!(daily.backups.last_success.get(), 1_795_235_400 + 12 * 60 * 60);
    daily.clock.advance(23 * HOUR);
    assert_eq!(daily.look().await, None, "it delays the next one");
}

/// A store with one record, which cannot be read.
struct Damaged;

#[async_trait]
impl PageScan for Damaged {
    async fn scan(&self, _: Option<&ScanCursor>, _: ScanLimit) -> Result<ScanBatch, StoreError> {
        let damaged = UnreadableRecord { name: "damaged-22222222".to_owned(), cause: "damaged".into() };
        Ok(ScanBatch { records: vec![Err(damaged)], visibilities: Vec::new(), next: None })
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        Ok(Some(1))
    }
}

#[tokio::test]
async fn a_backup_that_lacks_records_is_no_success_also_after_a_restart_and_a_file_beside_it_says_so() {
    let daily = Daily::new();
    daily.look().await.unwrap();
    daily.clock.advance(24 * HOUR);
    for restarts in 0..2 {
        let clock = Arc::clone(&daily.clock) as _;
        let plan = BackupPlan { to: daily.backups.plan.to.clone(), ledger: PathBuf::new(), ..daily.backups.plan };
        let backups = ScheduledBackups { plan, records: Arc::new(Damaged), clock, last_success: Gauge::default() };
        assert_eq!(backups.make_if_due().await.unwrap(), None);
        assert_eq!(backups.last_success.get(), 1_795_235_400);
        assert_eq!(daily.names().len(), 4, "{restarts}: {:?}", daily.names());
    }
    let note = daily.folder.path().join("backups/handbill-2026-11-22T04-30-00-123Z.lacks-records");
    assert_eq!(fs::read_to_string(note).unwrap(), "1 record cannot be read: see handbill check\n");
    // It leaves with its backup.
    keep_newest(&daily.backups.plan.to, Selection::All, daily.clock.now(), 1).unwrap();
    daily.clock.advance(24 * HOUR);
    daily.look().await.unwrap();
    keep_newest(&daily.backups.plan.to, Selection::All, daily.clock.now(), 1).unwrap();
    assert_eq!(daily.names().len(), 2, "{:?}", daily.names());
}

#[tokio::test]
async fn after_a_clock_was_set_back_backups_are_made_at_the_interval_and_those_of_the_future_are_no_success() {
    let daily = Daily::new();
    daily.clock.advance(240 * HOUR);
    daily.look().await.unwrap();
    let clock = Arc::new(TestClock::new());
    let backups = ScheduledBackups { clock: Arc::clone(&clock) as _, ..daily.backups };
    assert!(backups.make_if_due().await.unwrap().is_some());
    clock.advance(HOUR);
    assert_eq!(backups.make_if_due().await.unwrap(), None);
    assert_eq!(backups.last_success.get(), 1_795_235_400);
}

#[tokio::test]
async fn a_backup_of_the_future_neither_counts_among_those_to_keep_nor_goes() {
    let daily = Daily::new();
    let made = daily.look().await.unwrap();
    let future = made.with_file_name("handbill-2099-01-01T00-00-00-000Z.ndjson.zst");
    fs::copy(&made, &future).unwrap();
    keep_newest(&daily.backups.plan.to, Selection::All, daily.clock.now(), 1).unwrap();
    assert!(made.exists() && future.exists(), "{:?}", daily.names());
}

#[tokio::test]
async fn a_backup_whose_ledger_cannot_be_copied_is_not_kept_so_that_it_is_made_again() {
    let daily = Daily::new();
    let to = &daily.backups.plan.to;
    for records in [Arc::clone(&daily.backups.records), Arc::new(Damaged) as _] {
        // A folder can be opened and not read.
        let ledger = daily.folder.path().to_owned();
        let plan = BackupPlan { to: to.clone(), ledger, ..daily.backups.plan };
        let clock = Arc::clone(&daily.clock) as _;
        let backups = ScheduledBackups { plan, records, clock, last_success: Gauge::default() };
        assert!(backups.make_if_due().await.is_err());
        assert_eq!(fs::read_dir(to).unwrap().count(), 0);
        assert_eq!(backups.last_success.get(), 0);
    }
}

#[test]
fn a_file_that_somebody_else_writes_is_left_to_them() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("export.ndjson");
    let mut first = NewFile::create(&path).unwrap();
    first.write(b"first\n").unwrap();
    let refused = NewFile::create(&path).err().unwrap().to_string();
    assert!(refused.contains("another process writes it"), "{refused}");
    first.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first\n");
    assert!(NewFile::create(&folder.path().join("another.ndjson")).is_ok());
}

/// A clock that notices the niceness of the thread that asks for the time.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
struct Noticing(Mutex<Option<i32>>);

#[cfg(target_os = "linux")]
impl Clock for Noticing {
    fn now(&self) -> UnixMillis {
        *self.0.lock().unwrap() = rustix::process::getpriority_process(None).ok();
        UnixMillis::new(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_backup_leaves_the_core_to_threads_that_answer() {
    let (daily, clock) = (Daily::new(), Arc::new(Noticing::default()));
    let backups = ScheduledBackups { clock: Arc::clone(&clock) as _, ..daily.backups };
    assert!(Arc::new(backups).make_aside().await.unwrap().is_some());
    let own = rustix::process::getpriority_process(None).unwrap();
    assert_eq!(*clock.0.lock().unwrap(), Some((own + 10).min(19)));
}

#[tokio::test]
async fn an_empty_store_removes_no_backup() {
    let daily = Daily::new();
    for _ in 0..6 {
        daily.look().await.unwrap();
        daily.clock.advance(24 * HOUR);
    }
    assert_eq!(daily.names().len(), 12);
}

#[tokio::test]
async fn only_the_newest_backups_stay_with_their_ledgers_and_no_other_file_is_touched() {
    let daily = Daily::with_a_page().await;
    daily.look().await.unwrap();
    let other = daily.folder.path().join("backups/handbill-by-hand.ndjson.zst");
    fs::write(&other, "").unwrap();
    for _ in 0..5 {
        daily.clock.advance(24 * HOUR);
        daily.look().await.unwrap();
    }
    let names = daily.names();
    let days: Vec<_> = names.iter().filter_map(|name| name.strip_prefix("handbill-2026-11-")).collect();
    assert_eq!(days.iter().map(|name| &name[..2]).collect::<Vec<_>>(), ["24", "24", "25", "25", "26", "26"]);
    assert!(other.exists());
}

#[tokio::test]
async fn a_file_that_an_earlier_process_left_unfinished_is_removed_and_one_that_grows_is_not() {
    let daily = Daily::new();
    let folder = daily.folder.path().join("backups");
    fs::create_dir(&folder).unwrap();
    let (left, growing) = (folder.join("handbill-1.ndjson.zst.part"), folder.join("handbill-2.ndjson.zst.part"));
    File::create(&left).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    File::create(&growing).unwrap();
    daily.look().await.unwrap();
    assert!(!left.exists() && growing.exists(), "{:?}", daily.names());
}

#[tokio::test]
async fn a_backup_that_cannot_be_written_is_an_error_and_no_success() {
    let daily = Daily::new();
    fs::write(daily.folder.path().join("backups"), "a file").unwrap();
    let error = daily.backups.make_if_due().await.unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
    assert_eq!(daily.backups.last_success.get(), 0);
}
