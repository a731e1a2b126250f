//! The backups that a running process makes by itself, each with a copy of the ledger of deletions beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use prometheus_client::metrics::gauge::Gauge;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::export::Selection;
use super::file::{FileError, NewFile, UNFINISHED_EXTENSION, remove_if_there};
use super::moving::{
    BackupName, Destination, MoveError, backups_in, keep_newest, new_backup_in, note_lack, remove_backup, write,
};
use crate::config::BackupSettings;
use crate::telemetry::metrics::Metrics;
use handbill_core::niceness::give_way;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::page_scan::PageScan;

/// How often to look whether a backup is due.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// Pause after a failure, which is often a full disk: another attempt fills it again.
const RETRY_AFTER: Duration = Duration::from_mins(15);

/// An unfinished file that nothing was added to for this long was left by a process that ended.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub struct BackupPlan {
    /// The folder of the backups.
    pub to: PathBuf,
    pub every: Duration,
    /// How many of the newest to keep.
    pub keep: usize,
    /// The file with all deletions, which is copied beside each backup.
    pub ledger: PathBuf,
}

impl BackupPlan {
    /// `None` if no backups are wanted.
    fn of(settings: &BackupSettings, ledger: PathBuf) -> Option<Self> {
        let BackupSettings { backup_to, backup_every, backup_keep } = settings;
        Some(Self { to: backup_to.clone()?, every: *backup_every, keep: backup_keep.get(), ledger })
    }
}

pub struct ScheduledBackups {
    pub plan: BackupPlan,
    pub records: Arc<dyn PageScan>,
    pub clock: SharedClock,
    /// When the newest backup of the folder began that lacks nothing, in seconds since 1970; 0 if there is none.
    pub last_success: Gauge,
}

impl ScheduledBackups {
    /// Begins to make the backups that `settings` ask for, if they do.
    pub fn begin(
        settings: &BackupSettings,
        records: Arc<dyn PageScan>,
        ledger: PathBuf,
        clock: SharedClock,
        metrics: &Metrics,
    ) {
        let Some(plan) = BackupPlan::of(settings, ledger) else { return };
        metrics.backup_interval.set(i64::try_from(plan.every.as_secs()).unwrap_or(i64::MAX));
        let backups = Self { plan, records, clock, last_success: metrics.backup_last_success.clone() };
        tokio::spawn(backups.follow());
    }

    /// Makes a backup whenever the newest one is older than the interval, also if an earlier process made it.
    async fn follow(self) {
        let this = Arc::new(self);
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            match Arc::clone(&this).make_aside().await {
                Ok(None) => {}
                Ok(Some(path)) => tracing::info!(path = %path.display(), "a backup is complete"),
                Err(error) => {
                    tracing::error!(%error, "no backup could be made: it is tried again in 15 minutes");
                    sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Makes a backup if one is due, on a thread that gives way to those that answer: files block, and compression takes a
    /// core for seconds.
    pub async fn make_aside(self: Arc<Self>) -> Result<Option<PathBuf>, MoveError> {
        let (sender, outcome) = oneshot::channel();
        let runtime = Handle::current();
        let make = move || {
            give_way();
            // At the end of the process nobody receives it.
            let _ = sender.send(runtime.block_on(self.make_if_due()));
        };
        thread::Builder::new().name("handbill-backup".to_owned()).spawn(make).map_err(MoveError::System)?;
        outcome.await.unwrap_or_else(|panicked| Err(MoveError::System(io::Error::other(panicked))))
    }

    /// Makes a backup if one is due, whoever made the last. One that lacks unreadable records stays, but is no success: nothing older
    /// is removed for it.
    pub async fn make_if_due(&self) -> Result<Option<PathBuf>, MoveError> {
        let folder = &*self.plan.to;
        let refused = |reason| FileError::Io { path: folder.to_owned(), action: "written", reason };
        fs::create_dir_all(folder).map_err(refused)?;
        let now = self.clock.now();
        let backups = backups_in(folder, Selection::All)?;
        // A clock that was set back does not stop backups: those of the future do not count.
        let mut newest_first = backups.iter().rev().filter(|backup| backup.began_at <= now);
        let success = newest_first.clone().find(|backup| !BackupName::lacks_records(&backup.path).exists());
        self.last_success.set(success.map_or(0, |backup| backup.began_at.get() / 1000));
        if newest_first.next().is_some_and(|newest| newest.began_at.after(self.plan.every) > now) {
            return Ok(None);
        }
        remove_abandoned(folder).map_err(refused)?;
        let path = new_backup_in(folder, Selection::All, now);
        let to = Destination::File(path.clone());
        let summary = write(Arc::clone(&self.records), &to, Selection::All, now, &|_, _| {}).await?;
        let lacks_records = note_lack(&path, &summary)?;
        // Copied after the pages, the ledger has every deletion of the backup and those since. Without it the backup is not kept, so
        // that it is soon made again.
        if let Err(error) = copy(&self.plan.ledger, &BackupName::ledger_of(&path)) {
            remove_backup(&path)?;
            return Err(error.into());
        }
        if lacks_records {
            tracing::error!(
                records = summary.unreadable,
                "a backup lacks records that cannot be read: see handbill check"
            );
            return Ok(None);
        }
        self.last_success.set(now.get() / 1000);
        // A store that is empty by mistake must not remove what has the pages.
        if summary.records > 0 {
            keep_newest(folder, Selection::All, now, self.plan.keep)?;
        }
        Ok(Some(path))
    }
}

/// Copies `from`, if it is there, to the new file `to`.
fn copy(from: &Path, to: &Path) -> Result<(), FileError> {
    let mut source = match File::open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|reason| FileError::Io { path: from.to_owned(), action: "read", reason })?,
    };
    let mut target = NewFile::create(to)?;
    target.copy(&mut source)?;
    target.finish()
}

/// Removes the unfinished files of processes that ended.
fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED_EXTENSION)
            && BackupName::is_of_backup(&path)
            && age(&path)? > ABANDONED_AFTER
        {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the file system has the machine's own clock")]
fn age(path: &Path) -> io::Result<Duration> {
    Ok(SystemTime::now().duration_since(fs::metadata(path)?.modified()?).unwrap_or_default())
}
