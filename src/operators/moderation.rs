//! Keeps what operators allow up to date: the blocklist in its file, and the switch of creates.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::watched_file::WatchedFile;
use crate::telemetry::labels::{RefusalLabels, ReloadLabels, SourceLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::blocklist::Blocklist;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_store::{NotReachedError, StoreError};
use handbill_core::service::PublishingPolicy;

/// How often the files and the switch are looked at. Operators see a change take effect at once, and a look costs next
/// to nothing.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum ModerationError {
    /// The file cannot be read, or its text makes no sense.
    #[error("the {what} {} cannot be used ({reason}): correct it, or leave {option} out", path.display())]
    File { what: &'static str, path: PathBuf, reason: String, option: &'static str },
}

#[derive(Clone, Default)]
pub struct OperatorsFiles {
    pub blocklist: Option<PathBuf>,
    /// The file that keeps the last blocklist that made sense, so that a restart with a bad one finds it.
    pub last_blocklist: Option<PathBuf>,
}

/// The operators' policy, and its sources.
pub struct Moderation {
    policy: PublishingPolicy,
    files: Vec<FollowedFile>,
    metrics: Arc<Metrics>,
    switch: Source,
}

/// The last text of a file that made sense, as it is kept beside what the process stores.
struct LastGood {
    path: PathBuf,
    /// A text that is not kept yet: before its first start a store has no folder.
    unsaved: Option<String>,
}

/// Puts the text of a file into force and says how many entries it has, or why it makes no sense.
type Take = Box<dyn Fn(&str) -> Result<usize, String> + Send>;

/// A file that is put into force when it has changed.
struct FollowedFile {
    file: WatchedFile,
    source: Source,
    take: Take,
    /// How many entries are in force.
    entries: usize,
    last_good: Option<LastGood>,
}

/// The mode of files that nobody but the service reads.
const FILE_MODE: u32 = 0o600;

/// Something that is read again and again, and whether that failed the last time, so that a failure is logged once.
struct Source {
    label: &'static str,
    what: &'static str,
    /// The consequence until it was read.
    unread: &'static str,
    /// Whether it was read, be it by an earlier process.
    was_read: bool,
    failure: Option<String>,
    stale: Gauge,
}

impl Moderation {
    /// Reads the files that there are. One that cannot be used is reported like any that becomes bad later. In place of a bad
    /// blocklist the last good one is in force, and without one nothing is published.
    pub fn open(files: OperatorsFiles, metrics: &Arc<Metrics>) -> Self {
        let refusals = metrics.publishing_refusals.clone();
        // The objective of writes subtracts pauses and budgets, so they are there from the beginning.
        for reason in ["content", "blocklist", "paused", "budget"] {
            drop(refusals.get_or_create(&RefusalLabels { reason }));
        }
        let policy = PublishingPolicy::observed(move |reason| {
            refusals.get_or_create(&RefusalLabels { reason }).inc();
        });
        let mut followed = Vec::new();
        if let Some(path) = files.blocklist {
            let (force, entries) = (policy.clone(), metrics.blocklist_entries.clone());
            let take = move |text: &str| {
                let list = Blocklist::parse(text).map_err(|error| error.to_string())?;
                let count = list.len();
                entries.set(i64::try_from(count).unwrap_or(i64::MAX));
                force.set_blocklist(list);
                Ok(count)
            };
            let last_good = files.last_blocklist.map(|path| LastGood { path, unsaved: None });
            let source = Source::new("blocklist", "blocklist", "nothing is published", metrics);
            let mut file = FollowedFile { last_good, ..FollowedFile::new(path, source, take) };
            file.reload(metrics);
            if !file.source.was_read {
                policy.set_blocklist(None);
            }
            followed.push(file);
        }
        let switch = Source::new("creates", "switch of creates", "no page is created", metrics);
        Self { policy, files: followed, metrics: Arc::clone(metrics), switch }
    }

    pub fn policy(&self) -> PublishingPolicy {
        self.policy.clone()
    }

    /// Reads `switch`. One that makes no sense does not stop the start: what it said last is in force, and without that, or as long
    /// as it cannot be read, no page is created.
    pub async fn read_switch(&mut self, switch: &dyn CreatesSwitch) {
        let read = self.reload_switch(switch).await;
        self.switch.was_read |= read.is_ok();
        if let Err(error @ StoreError::Unreadable(_)) = read {
            if let Some(creates) = switch.last().await {
                self.policy.set_creates(creates);
                self.metrics.creates_paused.set(i64::from(creates.paused));
                self.switch.was_read = true;
            }
            self.switch.report(Some(error.causes()));
        }
    }

    /// Looks at the files and `switch` again and again. After one of `hangups` it reads every file, whether it has changed or not.
    pub async fn follow(mut self, switch: Arc<dyn CreatesSwitch>, mut hangups: Signal) {
        let mut looks = interval(RELOAD_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let hung_up = tokio::select! {
                _ = looks.tick() => false,
                _ = hangups.recv() => true,
            };
            if hung_up {
                self.files.iter_mut().for_each(|followed| followed.file.forget());
            }
            match self.reload_switch(&*switch).await {
                // `/readyz` and the log report this already, and until then no page can be created.
                Err(StoreError::Unavailable(cause)) if cause.is::<NotReachedError>() => {}
                read => self.switch.report(read.err().map(|error| error.causes())),
            }
            let looking = spawn_blocking(move || {
                self.reload_files();
                self
            });
            match looking.await {
                Ok(moderation) => self = moderation,
                // The process is ending.
                Err(_) => return,
            }
            if hung_up {
                tracing::info!("SIGHUP: the operators' files were read again");
            }
        }
    }

    /// Reads the files that have changed. After an error what was read last stays in force.
    pub fn reload_files(&mut self) {
        for file in &mut self.files {
            file.reload(&self.metrics);
        }
    }

    /// Reads the switch. After an error what was read last stays.
    async fn reload_switch(&mut self, switch: &dyn CreatesSwitch) -> Result<(), StoreError> {
        let count =
            |outcome| self.metrics.moderation_reloads.get_or_create(&ReloadLabels { source: "creates", outcome }).inc();
        let creates = switch.load().await.inspect_err(|_| {
            count("failed");
        })?;
        if self.policy.set_creates(creates) {
            count("done");
            let (paused, hourly_budget) = (creates.paused, creates.hourly_budget);
            tracing::info!(paused, hourly_budget, "operators changed whether pages may be created");
        }
        self.metrics.creates_paused.set(i64::from(creates.paused));
        Ok(())
    }
}

impl FollowedFile {
    fn new(path: PathBuf, source: Source, take: impl Fn(&str) -> Result<usize, String> + Send + 'static) -> Self {
        Self { file: WatchedFile::new(path), source, take: Box::new(take), entries: 0, last_good: None }
    }

    fn reload(&mut self, metrics: &Metrics) {
        let failure = self.read(metrics).err();
        if let Some(last_good) = &mut self.last_good {
            last_good.save();
        }
        // An earlier process may have read one.
        if failure.is_some() && self.source.failure.is_none() && !self.source.was_read {
            self.source.was_read = self.take_last_good();
        }
        self.source.report(failure);
    }

    /// Puts the last good text into force, if there is one.
    fn take_last_good(&mut self) -> bool {
        let kept = self.last_good.as_ref().and_then(|last_good| fs::read_to_string(&last_good.path).ok());
        let taken = kept.and_then(|text| (self.take)(&text).ok());
        self.entries = taken.unwrap_or_default();
        taken.is_some()
    }

    /// Reads the file if it has changed. A text that made no sense is still an error if it has not changed.
    fn read(&mut self, metrics: &Metrics) -> Result<(), String> {
        let read = match self.file.changed() {
            Ok(None) => return self.source.failure.clone().map_or(Ok(()), Err),
            Ok(Some(text)) => {
                let taken = (self.take)(&text);
                if let Ok(entries) = taken {
                    let (mut before, what) = (mem::replace(&mut self.entries, entries), self.source.what);
                    if entries == 0 && before == 0 {
                        // The process before this one may have had some.
                        before = self.last_good.as_ref().map_or(0, LastGood::entries);
                    }
                    if entries == 0 && before > 0 {
                        tracing::warn!(before, "the {what} was read and is empty now: nothing of it is in force");
                    } else {
                        tracing::info!(entries, "the {what} was read");
                    }
                    if let Some(last_good) = &mut self.last_good {
                        last_good.unsaved = Some(text);
                    }
                }
                taken.map(drop)
            }
            Err(error) => Err(error.to_string()),
        };
        let outcome = if read.is_ok() { "done" } else { "failed" };
        metrics.moderation_reloads.get_or_create(&ReloadLabels { source: self.source.label, outcome }).inc();
        read
    }
}

impl LastGood {
    /// How many entries the text has that is kept; 0 if there is none.
    fn entries(&self) -> usize {
        let kept = fs::read_to_string(&self.path).ok();
        kept.and_then(|text| Blocklist::parse(&text).ok()).map_or(0, |list| list.len())
    }

    /// Keeps the text if that was not done yet. It replaces the one before as a whole.
    fn save(&mut self) {
        let Some(text) = &self.unsaved else { return };
        let next = self.path.with_extension("new");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&next);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        if written.and_then(|()| fs::rename(&next, &self.path)).is_ok() {
            self.unsaved = None;
        }
    }
}

impl Source {
    fn new(label: &'static str, what: &'static str, unread: &'static str, metrics: &Metrics) -> Self {
        let stale = metrics.moderation_stale.get_or_create(&SourceLabels { source: label }).clone();
        Self { label, what, unread, was_read: false, failure: None, stale }
    }

    /// Logs a failure when it begins or changes, and its end.
    fn report(&mut self, failure: Option<String>) {
        let Self { what, unread, .. } = *self;
        match &failure {
            Some(reason) if self.failure != failure && self.was_read => {
                tracing::error!(reason, "the {what} cannot be read; what was read last stays in force");
            }
            Some(reason) if self.failure != failure => {
                tracing::error!(
                    reason,
                    "the {what} cannot be read, and no earlier one is known: {unread} until it can be read"
                );
            }
            None if self.failure.is_some() => tracing::info!("the {what} can be read again"),
            _ => {}
        }
        self.stale.set(i64::from(failure.is_some()));
        self.was_read |= failure.is_none();
        self.failure = failure;
    }
}

/// Fails if the blocklist at `path` cannot be used.
pub fn check_blocklist(path: &Path) -> Result<Blocklist, ModerationError> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    let read = text.and_then(|text| Blocklist::parse(&text).map_err(|error| error.to_string()));
    read.map_err(|reason| unusable("blocklist", "--blocklist-file", path, reason))
}

fn unusable(what: &'static str, option: &'static str, path: &Path, reason: String) -> ModerationError {
    ModerationError::File { what, path: path.to_owned(), reason, option }
}
