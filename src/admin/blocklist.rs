//! Puts the [blocklist](handbill_pages::values::blocklist) of a file into force, and again when the file changes. A faulty file changes
//! nothing.

use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::MetadataExt, sync::Arc, thread, time::Duration};

use crate::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::{Clock, SystemClock};
use handbill_pages::service::PublishingPolicy;
use handbill_pages::values::blocklist::Blocklist;

const INTERVAL: Duration = Duration::from_secs(1);

/// Between two lines of the log about the same bad file.
const REMINDER: Duration = Duration::from_hours(1);

pub fn read(path: &Path, own: &[String]) -> Result<Blocklist, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| Blocklist::parse(&text, own))
}

pub struct BlocklistFile {
    path: PathBuf,
    own: Vec<String>,
    policy: PublishingPolicy,
    metrics: Arc<Metrics>,
    seen: Option<Facts>,
    /// `None` until a list was read.
    entries: Option<usize>,
    /// The bad file that was logged last, and when.
    failure: Option<((Option<Facts>, String), Duration)>,
}

/// Changes whenever the file is written, replaced, or linked elsewhere.
type Facts = (u64, u64, u64, i64, i64);

impl BlocklistFile {
    pub fn new(path: PathBuf, own: Vec<String>, policy: PublishingPolicy, metrics: Arc<Metrics>) -> Self {
        Self { path, own, policy, metrics, seen: None, entries: None, failure: None }
    }

    /// Until the process ends. No page is published before the first read.
    pub fn follow(mut self) {
        self.policy.refuse_all();
        let clock = SystemClock::new();
        self.reload(clock.monotonic());
        thread::spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                self.reload(clock.monotonic());
            }
        });
    }

    /// After an error the previous list stays in force.
    fn reload(&mut self, now: Duration) {
        // Before the read: a change in between is read the next time.
        let found = fs::metadata(&self.path);
        let found = found.map(|data| (data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec())).ok();
        if found.is_some() && found == self.seen {
            return;
        }
        let list = read(&self.path, &self.own);
        self.seen = found.filter(|_| list.is_ok());
        self.metrics.blocklist_stale.set(i64::from(list.is_err()));
        match list {
            Ok(list) => {
                let (entries, before) = (list.entries(), self.entries.replace(list.entries()));
                // Before the log says so.
                self.policy.refuse(list);
                if entries == 0 && before > Some(0) {
                    tracing::warn!(before, "the blocklist was read and is empty now: nothing of it is in force");
                } else {
                    tracing::info!(entries, before, "the blocklist was read");
                }
                self.metrics.blocklist_entries.set(i64::try_from(entries).unwrap_or(i64::MAX));
                self.failure = None;
            }
            Err(reason) => {
                let failure = (found, reason);
                if let Some((logged, at)) = &self.failure
                    && *logged == failure
                    && now.saturating_sub(*at) < REMINDER
                {
                    return;
                }
                let consequence = match self.entries {
                    Some(_) => "the list that was read last stays in force",
                    None => "nothing is published until it can be read",
                };
                let reason = &failure.1;
                tracing::error!(reason, entries = self.entries, "cannot read the blocklist: {consequence}");
                self.failure = Some((failure, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
        let directory = tempdir().unwrap();
        let [path, other] = ["list", "other"].map(|name| directory.path().join(name));
        let policy = PublishingPolicy::default();
        let metrics = Arc::new(Metrics::default());
        let mut file = BlocklistFile::new(path.clone(), Vec::new(), policy, Arc::clone(&metrics));
        let mut loaded = |expected: Option<usize>, is_stale: bool| {
            file.reload(Duration::ZERO);
            assert_eq!(file.entries, expected);
            assert_eq!(metrics.blocklist_stale.get(), i64::from(is_stale));
        };
        loaded(None, true);
        fs::write(&path, "a.example\nb.example").unwrap();
        loaded(Some(2), false);
        fs::write(&path, "a.example\nco.uk").unwrap();
        loaded(Some(2), true);
        fs::remove_file(&path).unwrap();
        loaded(Some(2), true);
        fs::write(&other, "a.example\nb.example\nc.example").unwrap();
        symlink(&other, &path).unwrap();
        loaded(Some(3), false);
        fs::write(&other, "").unwrap();
        loaded(Some(0), false);
    }

    #[test]
    fn a_file_that_stays_bad_is_logged_once_an_hour() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("list");
        let mut file =
            BlocklistFile::new(path.clone(), Vec::new(), PublishingPolicy::default(), Arc::new(Metrics::default()));
        let mut logged_at = |seconds| {
            file.reload(Duration::from_secs(seconds));
            file.failure.as_ref().map(|(_, at)| at.as_secs())
        };
        assert_eq!([1, 2, 3600, 3601, 3602].map(&mut logged_at), [1, 1, 1, 3601, 3601].map(Some));
        fs::write(&path, "no host").unwrap();
        assert_eq!(logged_at(3603), Some(3603), "another fault is logged at once");
        fs::write(&path, "").unwrap();
        assert_eq!(logged_at(3604), None);
    }
}
